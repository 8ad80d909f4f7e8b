import Foundation
import ChaparCore
import Testing

@Suite("Commands on receipts", .timeLimit(.minutes(2)), .about("apns"))
struct ReceiptsCommandTests {
    @Test("the key of the ids is replaced, in words and in JSON; a time that is too long is told")
    func rotate() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            func run(_ arguments: [String]) async throws -> (status: Int32, output: String, errors: String) {
                let result = try await Program.run(["receipts", "rotate"] + arguments + ["--url", gateway.url])
                return (result.status, result.output, result.errors)
            }
            let words = try await run([])
            #expect(words.status == 0 && words.output.contains("Ids of the old one are taken until 2"), "\(words)")
            let last = try await run(["--keep-old", "0", "--json"])
            let answer = try JSONValue(parsing: Array(last.output.utf8))
            #expect(answer["keys"] == 1 && answer["used_from"] == answer["old_keys_until"], "\(last)")
            let refused = try await run(["--keep-old", "7776001"])
            #expect(refused.status == 2 && refused.errors.contains("keep_old"), "\(refused)")
        }
    }
}
