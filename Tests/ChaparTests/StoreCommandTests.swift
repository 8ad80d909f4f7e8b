import Foundation
import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("The commands for whole stores", .timeLimit(.minutes(3)), .about("apns"))
struct StoreCommandTests {
    @Test(
        "A store that a gateway has left is copied and checked; one in use, and a target with something in it, are refused"
    )
    func copy() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let load = Load()
            try await load.run(through: gateway, until: .milliseconds(200)) {
                _ = try await Program.wait("some load") { () -> Bool? in load.accepted.count > 5 ? true : nil }
            }
            let target = rig.folder.appending(path: "copy.db").path
            let arguments = ["store", "copy", "--from", rig.config, "--to", target, "--json"]
            let early = try await Program.run(arguments)
            #expect(early.status == 75 && early.errors.contains("in use by process"), "\(early.errors)")
            gateway.child.send(SIGTERM)
            #expect(try await gateway.child.end().status == 0)
            let copied = try await Program.run(arguments)
            #expect(copied.status == 0, "\(copied.errors)")
            let answer = try JSONValue(parsing: Array(copied.output.utf8))
            #expect(answer["records"]?["notifications"]?.integerValue ?? 0 > 5, "\(copied.output)")
            #expect(answer["to"]?.stringValue?.hasSuffix("copy.db") == true)
            let again = try await Program.run(arguments)
            #expect(again.status == 1 && again.errors.contains("is not empty"), "\(again.errors)")
            let missing = try await Program.run(["store", "copy", "--from", target + ".no", "--to", target])
            #expect(missing.status == 1 && missing.errors.contains("there is no store"), "\(missing.errors)")
            #expect(!FileManager.default.fileExists(atPath: target + ".no"))
        }
    }

    @Test("A store of a newer version is refused with a sentence and the exit code that systemd does not repeat")
    func newer() async throws {
        try await SandboxRig.run { rig in
            #expect(try await Program.run(["migrate", "--config", rig.config]).status == 0)
            let copy = rig.folder.appending(path: "copy.db").path
            #expect(try await Program.run(["backup", copy, "--config", rig.config]).status == 0)
            _ = try await Script.run(
                "sqlite3 chapar.db \"INSERT INTO grdb_migrations VALUES ('99 later')\"",
                in: rig.folder,
                path: "/usr/bin:/bin"
            )
            for command in [["serve"], ["migrate"], ["migrate", "--plan"]] {
                let refused = try await Program.run(command + ["--config", rig.config])
                #expect(refused.status == 3, "\(command)")
                #expect(
                    refused.errors.contains("whose tables this version does not know (99 later): start that version")
                )
            }
            // The way back: a backup from before takes the place of what the newer version left.
            let restored = try await Program.run(["restore", copy, "--config", rig.config])
            #expect(restored.status == 0, "\(restored.errors)")
            let plan = try await Program.run(["migrate", "--plan", "--config", rig.config])
            #expect(plan.status == 0, "\(plan.errors)")
        }
    }

    @Test("A plan says with its exit code whether there is something to do, and migrate does it")
    func migrate() async throws {
        try await SandboxRig.run { rig in
            let store = rig.folder.appending(path: "chapar.db").path
            let plan = ["migrate", "--plan", "--config", rig.config]
            let first = try await Program.run(plan)
            #expect(
                first.status == 1 && first.output.contains("missing  1 deliveries"),
                "\(first.output)\(first.errors)"
            )
            #expect(!FileManager.default.fileExists(atPath: store))
            let applied = try await Program.run(["migrate", "--config", rig.config, "--json"])
            #expect(applied.status == 0, "\(applied.errors)")
            let answer = try JSONValue(parsing: Array(applied.output.utf8))
            #expect(
                answer["applied"]?.boolValue == true
                    && answer["steps"]?.arrayValue?.first?["name"]?.stringValue == "1 deliveries"
            )
            let second = try await Program.run(plan)
            #expect(second.status == 0 && second.output.contains("is up to date"), "\(second.output)\(second.errors)")
        }
    }
}
