import Foundation
import Testing

@testable import ChaparCommands

/// A signal that comes while a gateway starts, and a start that fails: neither is a death, nor hides one.
@Suite("A start that is ended", .serialized, .timeLimit(.minutes(2)), .about("apns"))
struct StartSignalTests {
    /// Returns the text of the file of the store's lock.
    private static func note(_ rig: SandboxRig) -> String {
        (try? String(contentsOf: rig.folder.appending(path: "chapar.db.lock"), encoding: .utf8)) ?? ""
    }

    @Test("by SIGTERM after the store is open ends in order, and the next start tells of no death")
    func early() async throws {
        try await SandboxRig.run { rig in
            for _ in 0..<3 {
                let child = try Child(["serve", "--config", rig.config])
                defer { child.kill() }
                let end = ContinuousClock.now + .seconds(30)
                // Without a pause: what is between this and listening takes milliseconds.
                while !Self.note(rig).contains("running since"), ContinuousClock.now < end { await Task.yield() }
                child.send(SIGTERM)
                let result = try await child.end(within: .seconds(30))
                #expect(result.status == 0, "\(result.errors)")
                #expect(result.errors.contains("stopped"), "\(result.errors)")
                #expect(!Self.note(rig).contains("running since"), "\(Self.note(rig))")
            }
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            #expect(!gateway.child.errors.contains("did not end in order"))
        }
    }

    @Test("by its port tells of the death before it, and so does the next one that listens")
    func failed() async throws {
        try await SandboxRig.run { rig in
            let killed = try await rig.serve()
            killed.child.kill()
            _ = try await killed.child.end()
            let good = try String(contentsOfFile: rig.config, encoding: .utf8)
            try await SandboxRig.run { other in
                let listening = try await other.serve()
                defer { listening.child.kill() }
                let taken = good.replacing(/port: 0\b/, with: "port: \(listening.port)", maxReplacements: 1)
                #expect(taken != good)
                try taken.write(toFile: rig.config, atomically: true, encoding: .utf8)
                let failed = try await Program.run(["serve", "--config", rig.config])
                #expect(failed.status == 1 && failed.errors.contains("the port is taken"), "\(failed.errors)")
            }
            try good.write(toFile: rig.config, atomically: true, encoding: .utf8)
            let next = try await rig.serve()
            defer { next.child.kill() }
            #expect(next.child.errors.contains("did not end in order"), "\(next.child.errors)")
            next.child.send(SIGTERM)
            #expect(try await next.child.end().status == 0)
            let last = try await rig.serve()
            defer { last.child.kill() }
            #expect(!last.child.errors.contains("did not end in order"), "\(last.child.errors)")
        }
    }
}
