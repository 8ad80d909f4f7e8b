import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

@Suite("A gateway whose store is damaged, and one that was killed", .timeLimit(.minutes(3)), .about("apns"))
struct DamagedStoreTests {
    private static func change(_ sql: String, _ rig: SandboxRig) async throws {
        // Only rows can be damaged in spite of their types.
        let (lift, lower) =
            sql.hasPrefix("UPDATE") ? (DamagedServeTests.lift, DamagedServeTests.lower) : ("", "")
        let script = "sqlite3 chapar.db <<'SQL'\n\(lift)\n\(sql);\n\(lower)\nSQL\n"
        _ = try await Script.run(script, in: rig.folder, path: "/usr/bin:/bin")
    }

    /// Has a gateway accept and send something, and end in order.
    private static func fill(_ rig: SandboxRig) async throws -> [String] {
        let gateway = try await rig.serve()
        defer { gateway.child.kill() }
        let load = Load()
        try await load.run(through: gateway, until: .milliseconds(200)) {
            _ = try await Program.wait("some load") { () -> Bool? in load.accepted.count > 5 ? true : nil }
        }
        _ = try await load.states(through: gateway)
        gateway.child.send(SIGTERM)
        #expect(try await gateway.child.end().status == 0)
        return load.accepted.map(\.id)
    }

    @Test("A damaged value is answered with 503 and a reason, other requests as always, and SIGTERM ends it in time")
    func reading() async throws {
        try await SandboxRig.run { rig in
            try rig.append("queue: { drain: 1 }\n")
            let ids = try await Self.fill(rig)
            // Rows that are still staged would have the start read the archive, and refuse it.
            try await Self.change("DELETE FROM arrivals", rig)
            let rows = "UPDATE deliveries SET record = x'00', recipient = 'x'"
            try await Self.change("UPDATE archive SET packed = x'00'; \(rows)", rig)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            for id in ids.prefix(3) {
                for path in ["/v1/notifications/\(id)", "/v1/notifications/\(id)/deliveries"] {
                    let reply = try await client.get(path)
                    #expect(reply.status == 503, "\(path)")
                    #expect(reply.json["code"]?.stringValue == "store_damaged")
                    #expect(reply.json["type"]?.stringValue == "urn:chapar:problem:store-damaged")
                }
            }
            for path in ["/healthz", "/readyz", "/v1/backends", "/v1/devices"] {
                #expect(try await client.get(path).status == 200, "\(path)")
            }
            await client.close()
            gateway.child.send(SIGTERM)
            #expect(try await gateway.child.end(within: .seconds(8)).status == 0, "queue.drain and a little more")
        }
    }

    @Test("A gateway whose store's file was removed ends with 1 and a sentence, and doctor reports a broken run")
    func removed() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            for suffix in ["", "-wal", "-shm"] { unlink(rig.folder.appending(path: "chapar.db" + suffix).path) }
            gateway.child.send(SIGTERM)
            let end = try await gateway.child.end()
            #expect(end.status == 1, "\(end.errors)")
            #expect(end.errors.contains("the gateway ended without its store"), "\(end.errors)")
            let doctor = try await Program.run(["doctor", "--config", rig.config])
            #expect(doctor.output.contains("did not end in order"), "\(doctor.output)")
        }
    }

    @Test(
        "A store that cannot be opened is a sentence with what to do and exit code 75, and no copy of it is called good"
    )
    func start() async throws {
        try await SandboxRig.run { rig in
            _ = try await Self.fill(rig)
            try await Self.change("UPDATE flows SET backend = x'FF'", rig)
            let (store, copy) = (
                rig.folder.appending(path: "chapar.db").path, rig.folder.appending(path: "copy.db").path
            )
            let what = "flows.backend holds bytes where a text belongs"
            let refused = try await Program.run(["serve", "--config", rig.config])
            #expect(refused.status == 75)
            for part in ["the store \(store) is damaged: \(what)", "chapar restore BACKUP"] {
                #expect(refused.errors.contains(part), "\(refused.errors)")
            }
            for (command, status) in [
                (["backup", copy, "--config", rig.config], Int32(1)),
                (["store", "copy", "--from", rig.config, "--to", copy], 75),
                (["migrate", "--config", rig.config], 75),
            ] {
                let result = try await Program.run(command)
                if command[0] == "migrate" { continue }  // Nothing is to be done.
                #expect(result.status == status && result.errors.contains(what), "\(command): \(result.errors)")
            }
            try FileManager.default.copyItem(atPath: store, toPath: rig.folder.appending(path: "old.db").path)
            let restored = try await Program.run([
                "restore", rig.folder.appending(path: "old.db").path, "--config", rig.config,
            ])
            #expect(restored.status == 1 && restored.errors.contains(what), "\(restored.errors)")
            try await Self.change("DELETE FROM grdb_migrations WHERE identifier = '8 archive'", rig)
            let lacking = try await Program.run(["serve", "--config", rig.config])
            #expect(lacking.status == 75 && lacking.errors.contains("lacks 8 archive"), "\(lacking.errors)")
        }
    }

    @Test(
        "A missing part of the schema, and a small value that cannot be read, are the same sentence at the start",
        arguments: [
            ("DROP TABLE archive", "the table archive is missing"),
            ("DROP INDEX outbox_entries_of_line", "the index outbox_entries_of_line is missing"),
            (
                "UPDATE state SET value = 9223372036854775806",
                "state.value holds the number 9223372036854775806 where a text or bytes belongs"
            ),
        ]
    )
    func missing(change: String, what: String) async throws {
        try await SandboxRig.run { rig in
            _ = try await Self.fill(rig)
            try await Self.change(change, rig)
            let store = rig.folder.appending(path: "chapar.db").path
            let refused = try await Program.run(["serve", "--config", rig.config])
            #expect(refused.status == 75)
            for part in ["the store \(store) is damaged: \(what)", "chapar restore BACKUP"] {
                #expect(refused.errors.contains(part), "\(refused.errors)")
            }
        }
    }

    @Test("After kill -9 the next start, doctor and a metric report it, until a run has ended in order")
    func broken() async throws {
        try await SandboxRig.run { rig in
            func doctor() async throws -> JSONValue? {
                let lines = try await Program.run(["doctor", "--config", rig.config, "--json", "--timeout", "1"]).lines
                return try lines.map { try JSONValue(parsing: Array($0.utf8)) }
                    .first { $0["check"]?.stringValue == "last run" }
            }
            func metric(_ gateway: ServedGateway) async throws -> String? {
                try await Script.run("curl -s \(gateway.url)/metrics", in: rig.folder, path: "/usr/bin:/bin")
                    .split(separator: "\n").first { $0.hasPrefix("chapar_last_run_broken ") }.map(String.init)
            }
            let message = "the last run of a gateway on this store did not end in order"
            let killed = try await rig.serve()
            #expect(try await metric(killed) == "chapar_last_run_broken 0")
            #expect(try await doctor()?["verdict"]?.stringValue == "ok", "it runs")
            killed.child.kill()
            _ = try await killed.child.end()
            let found = try await doctor()
            #expect(found?["verdict"]?.stringValue == "warning")
            #expect(
                found?["finding"]?.stringValue?.contains("did not end in order") == true,
                "\(String(describing: found))"
            )
            // A backup and a command that has the store meanwhile change nothing of that.
            #expect(try await Program.run(["migrate", "--config", rig.config]).status == 0)

            let next = try await rig.serve()
            defer { next.child.kill() }
            #expect(next.child.errors.contains(message), "\(next.child.errors)")
            #expect(try await metric(next) == "chapar_last_run_broken 1")
            #expect(try await doctor()?["verdict"]?.stringValue == "warning", "the run before this one")
            next.child.send(SIGTERM)
            #expect(try await next.child.end().status == 0)
            #expect(try await doctor()?["verdict"]?.stringValue == "ok")

            let last = try await rig.serve()
            defer { last.child.kill() }
            #expect(!last.child.errors.contains(message))
            #expect(try await metric(last) == "chapar_last_run_broken 0")
        }
    }
}
