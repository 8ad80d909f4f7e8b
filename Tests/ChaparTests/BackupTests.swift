import Foundation
import PushCore
import Synchronization
import Testing

@testable import PushCommands

@Suite("Backup and restoration", .timeLimit(.minutes(3)), .about("apns"))
struct BackupTests {
    @Test("A copy of a running gateway's store is private whatever the umask says, and brings everything back")
    func journey() async throws {
        try await SandboxRig.run { rig in
            let path = Program.url.deletingLastPathComponent().path + ":/usr/bin:/bin"
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let load = Load()
            let copied = Mutex("")
            try await load.run(through: gateway, until: .milliseconds(200)) {
                try await Program.wait("some load") { load.accepted.count > 5 ? true : nil }
                let output = try await Script.run(
                    "umask 000; chapar backup copy.db --config \(rig.config) --json",
                    in: rig.folder,
                    path: path
                )
                copied.withLock { $0 = output }
            }
            let summary = try JSONValue(parsing: Array(copied.withLock { $0 }.utf8))
            #expect(summary["schema"]?.stringValue != nil, "\(summary)")
            let copy = rig.folder.appending(path: "copy.db").path
            let mode = try FileManager.default.attributesOfItem(atPath: copy)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(load.failures == 0, "the gateway goes on")

            let again = try await Program.run(["backup", copy, "--config", rig.config])
            #expect(again.status == 2 && again.errors.contains("--force"), "\(again.errors)")
            let early = try await Program.run(["restore", copy, "--config", rig.config])
            #expect(early.status == 75 && early.errors.contains("in use by process"), "\(early.errors)")
            gateway.child.send(SIGTERM)
            #expect(try await gateway.child.end().status == 0)

            let store = rig.folder.appending(path: "chapar.db").path
            try Data("broken".utf8).write(to: URL(filePath: store))
            let restored = try await Program.run(["restore", copy, "--config", rig.config])
            #expect(restored.status == 0, "\(restored.errors)")
            #expect(restored.output.contains("The old database is \(store).before-"), "\(restored.output)")
            let back = try await rig.serve()
            defer { back.child.kill() }
            let client = try back.client()
            var known = 0
            for accepted in load.accepted {
                if try await client.get("/v1/notifications/\(accepted.id)").status == 200 { known += 1 }
            }
            await client.close()
            #expect(known > 5, "what was accepted before the copy is known")
        }
    }

    @Test("A store can be named without a configuration, and what is wrong is one sentence")
    func plain() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let text = try folder.write("no database", to: "text")
        let missing = folder.url.appending(path: "no.db").path
        let backup = try await Program.run(["backup", folder.url.appending(path: "b").path, "--store", missing])
        #expect(backup.status == 1 && backup.errors.contains("cannot read the store"), "\(backup.errors)")
        let restore = try await Program.run(["restore", text, "--store", missing])
        #expect(restore.status == 1 && restore.errors.contains("nothing was changed"), "\(restore.errors)")
        #expect(!FileManager.default.fileExists(atPath: missing))
    }
}
