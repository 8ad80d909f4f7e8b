import Foundation
import ChaparCore
import Testing

@Suite("Commands on webhooks", .timeLimit(.minutes(2)), .about("apns"))
struct WebhooksCommandTests {
    @Test("a file that exists is told before a key is made, so that no key is lost")
    func secretFile() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let file = rig.folder.appending(path: "hook.key").path
            let (own, other) = ("https://8.8.8.8/own", "https://8.8.8.8/other")
            func run(_ arguments: [String]) async throws -> (status: Int32, output: String, errors: String) {
                let result = try await Program.run(["webhooks"] + arguments + ["--url", gateway.url])
                return (result.status, result.output, result.errors)
            }
            #expect(try await run(["add", "own", own, "--secret-file", file]).status == 0)
            let key = try String(contentsOfFile: file, encoding: .utf8)
            #expect(key.hasPrefix("whsec_"))

            let rotated = try await run(["rotate", "own", "--secret-file", file])
            #expect(rotated.status == 2 && rotated.errors.contains("hook.key"), "\(rotated)")
            #expect(try await !run(["show", "own"]).output.contains("old_secrets_until"), "the key is as before")
            #expect(try await run(["add", "other", other, "--secret-file", file]).status == 2)
            #expect(try await !run(["list"]).output.contains("other"), "nothing was added")
            #expect(try String(contentsOfFile: file, encoding: .utf8) == key)

            let next = rig.folder.appending(path: "next.key").path
            #expect(try await run(["rotate", "nobody", "--secret-file", next]).status != 0)
            #expect(try await run(["add", "own", other, "--secret-file", next]).status == 0)
            #expect(!FileManager.default.fileExists(atPath: next), "an answer without a key leaves no file")
            #expect(try await run(["rotate", "own", "--secret-file", next]).status == 0)
            #expect(try String(contentsOfFile: next, encoding: .utf8) != key)
        }
    }
}
