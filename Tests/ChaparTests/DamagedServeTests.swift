import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// A whole gateway on files that are damaged in many ways: what `DamageTests` asks of the store alone.
///
/// So contents, the memory of flows, marks of what was filled in later and kept credentials are decoded too.
@Suite("A gateway on many damaged stores", .serialized, .timeLimit(.minutes(3)), .about("apns", "onesignal"))
struct DamagedServeTests {
    /// A damage: a change in SQL, or of the file's bytes.
    private struct Damage: Sendable {
        var name: String
        var sql: String?
        var bytes: (@Sendable (inout Data) -> Void)?
    }

    private enum Start {
        case listens(port: Int)
        case ended(Program.Result)
    }

    /// A table, a column and a value for each part that a gateway reads: other types, bytes that are no text, ends of
    /// the range.
    private static let values = [
        ("deliveries", "state", "'x'"), ("deliveries", "due", "9223372036854775807"),
        ("deliveries", "content", "x'FF'"), ("deliveries", "recipient", "x'FF'"), ("deliveries", "plan", "'x'"),
        ("deliveries", "attempt_log", "x'FF'"), ("deliveries", "accepted", "-1"), ("deliveries", "id", "-1"),
        ("flows", "caller", "x'FF'"), ("archive", "packed", "x'00'"), ("archive", "at", "'x'"),
        ("events", "packed", "'x'"), ("events", "count", "9223372036854775807"), ("idempotency", "answer", "'x'"),
        ("state", "value", "x'00'"), ("state", "value", "x'00' WHERE name = 'operations.introduced'"),
        ("state", "value", "9223372036854775807"), ("marks", "value", "'x'"),
        ("marks", "value", "9223372036854775807"), ("devices", "tags", "x'FF'"), ("devices", "updated", "'x'"),
        ("device_tokens", "registered", "'x'"), ("device_tags", "tag", "x'FF'"), ("outbox_changes", "new", "'x'"),
        ("outbox_entries", "body", "'x'"), ("outbox_entries", "due", "'x'"), ("outbox_depths", "waiting", "-1"),
    ]

    /// Numbers at the ends of their range in what is kept of flows, which stays JSON.
    private static let numbers = ["9223372036854775807", "-9223372036854775807"].map { number in
        let members =
            ["at", "paused_until", "next_probe", "trouble_since", "breaker_until", "breaker_cooldown"]
            + ["quota_fill", "quota_ramp"]
        let changes = members.map { "'$.\($0)', \(number)" }.joined(separator: ", ")
        return Damage(
            name: "numbers of the state: \(number)",
            sql: "UPDATE state SET value = CAST(json_set(CAST(value AS TEXT), \(changes)) AS BLOB) "
                + "WHERE json_valid(CAST(value AS TEXT)) AND json_extract(CAST(value AS TEXT), '$.identity') IS NOT NULL"
        )
    }

    private static var damages: [Damage] {
        let planted = values.map { table, column, value in
            Damage(name: "\(table).\(column) = \(value)", sql: "UPDATE OR IGNORE \(table) SET \(column) = \(value)")
        }
        let flipped = (1...4).map { seed in
            Damage(
                name: "flipped bits \(seed)",
                bytes: { data in
                    var random = SeededGenerator(seed: UInt64(seed))
                    for _ in 0..<12 {
                        let place = Int.random(in: 100..<data.count, using: &random)
                        data[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                    }
                }
            )
        }
        let cut = [2, 20].map { part in
            Damage(name: "cut to one in \(part)", bytes: { $0 = $0.prefix($0.count / part) })
        }
        return planted + numbers + flipped + cut
    }

    /// Has a gateway write rows of many kinds, and end in order; gives messages to ask for.
    private static func fill(_ rig: SandboxRig) async throws -> [String] {
        rig.sandbox.oneSignal.add([FaultRule(.answer(FaultAnswer(503, "unavailable")))])
        let gateway = try await rig.serve()
        defer { gateway.child.kill() }
        let client = try gateway.client()
        for number in 1...3 {
            let device: JSONValue = [
                "user": "ada", "platform": "ios", "tags": ["plan:pro"],
                "tokens": ["ios-apns": .string(SandboxRig.token(number, prefix: "cd"))],
            ]
            let answer = try await client.put("/v1/devices/phone-\(number)", device.bytes)
            #expect(answer.status == 201, "\(answer.problem)")
        }
        let later: JSONValue = [
            "to": ["devices": ["phone-1"]], "content": ["title": "Later"],
            "options": ["send_at": .string(RFC3339.string(Date() + 7_200))],
        ]
        let planned = try await client.post("/v1/notifications", later.bytes, idempotencyKey: "later")
        let id = try #require(planned.json["id"]?.stringValue, "\(planned.problem)")
        let load = Load()
        try await load.run(through: gateway, until: .milliseconds(100)) {
            _ = try await Program.wait("some load") { () -> Bool? in load.accepted.count > 5 ? true : nil }
        }
        _ = try await load.states(through: gateway)
        // What comes now waits, and how the backend stands is kept.
        rig.sandbox.apns.add(FaultRule(.answer(FaultAnswer(403, "InvalidProviderToken"))))
        for number in 1...5 {
            let message: JSONValue = [
                "to": ["tokens": [["token": .string(SandboxRig.token(number, prefix: "ef")), "service": "ios-apns"]]],
                "backend": "ios", "content": ["title": "Waits"],
            ]
            let answer = try await client.post("/v1/notifications", message.bytes, idempotencyKey: "waits \(number)")
            #expect(answer.status == 202, "\(answer.problem)")
        }
        try await Program.wait("a parked backend") { () -> Bool? in
            let backends = try await client.get("/v1/backends").json["backends"]?.arrayValue
            return backends?.first { $0["name"] == "ios" }?["worker"]?["parked"] == true ? true : nil
        }
        await client.close()
        gateway.child.send(SIGTERM)
        let result = try await gateway.child.end()
        #expect(result.status == 0, "\(result.errors)")
        return load.accepted.prefix(2).map(\.id) + [id]
    }

    /// Statements after which tables take values of other types, as damage brings them, and those that undo it.
    static let lift = """
        CREATE TEMP TABLE strict AS SELECT name, sql FROM main.sqlite_schema
        WHERE type = 'table' AND sql LIKE '% STRICT';
        PRAGMA writable_schema = ON;
        UPDATE main.sqlite_schema SET sql = substr(sql, 1, length(sql) - iif(sql LIKE '%, STRICT', 8, 7))
        WHERE name IN (SELECT name FROM temp.strict);
        PRAGMA writable_schema = RESET;
        """
    static let lower = """
        PRAGMA writable_schema = ON;
        UPDATE main.sqlite_schema AS m SET sql = (SELECT s.sql FROM temp.strict s WHERE s.name = m.name)
        WHERE name IN (SELECT name FROM temp.strict);
        PRAGMA writable_schema = RESET;
        """

    /// Copies the folder of the gateway that has ended, and damages the copy's store; nil when no row can be damaged
    /// so.
    private static func plant(_ damage: Damage, number: Int, _ rig: SandboxRig) async throws -> URL? {
        let name = rig.folder.lastPathComponent + "-\(number)"
        let copy = rig.folder.deletingLastPathComponent().appending(path: name)
        try FileManager.default.copyItem(at: rig.folder, to: copy)
        let config = copy.appending(path: "chapar.yaml").path
        let text = try String(contentsOfFile: config, encoding: .utf8)
        try text.replacing(rig.folder.path, with: copy.path).write(toFile: config, atomically: true, encoding: .utf8)
        if let sql = damage.sql {
            let script = "sqlite3 chapar.db <<'SQL'\n\(Self.lift)\n\(sql);\nSELECT changes();\n\(Self.lower)\nSQL\n"
            let changed = try await Script.run(script, in: copy, path: "/usr/bin:/bin")
            guard let count = Int(changed.trimmingCharacters(in: .whitespacesAndNewlines)), count > 0 else {
                try FileManager.default.removeItem(at: copy)
                return nil
            }
        }
        if let bytes = damage.bytes {
            let file = copy.appending(path: "chapar.db")
            var data = try Data(contentsOf: file)
            bytes(&data)
            try data.write(to: file)
        }
        return copy
    }

    /// Starts a gateway on a damaged store: it ends with a sentence, or answers, and ends when it is told to.
    private static func judge(_ damage: Damage, in folder: URL, _ ids: [String]) async throws {
        let child = try Child(["serve", "--config", folder.appending(path: "chapar.yaml").path])
        defer { child.kill() }
        let start = try await Program.wait("a start or an end") { () -> Start? in
            if let end = try? await child.end(within: .zero) { return .ended(end) }
            return SandboxRig.port(in: child.errors).map { .listens(port: $0) }
        }
        let port: Int
        switch start {
        case .ended(let end):
            #expect(end.status == 75, "\(damage.name): \(end.status) \(end.errors)")
            #expect(end.errors.contains("chapar.db"), "\(damage.name): \(end.errors)")
            return
        case .listens(let listening): port = listening
        }
        let client = try ServedGateway(child: child, port: port).client()
        do {
            try await ask(client, ids, damage.name)
            await client.close()
        } catch {
            await client.close()
            // It may find while it runs that it cannot go on; a signal is no such end.
            let end = try await child.end(within: .seconds(4))
            #expect(end.status == 75, "\(damage.name): \(error), \(end.status) \(end.errors)")
            return
        }
        child.send(SIGTERM)
        // `queue.drain` is a second.
        let end = try await child.end(within: .seconds(4))
        #expect([0, 75].contains(end.status), "\(damage.name): \(end.status) \(end.errors)")
    }

    /// Asks for everything that a reader can ask for; throws when there is no answer.
    private static func ask(_ client: GatewayClient, _ ids: [String], _ damage: String) async throws {
        let ofMessages = ids.flatMap { ["/v1/notifications/\($0)", "/v1/notifications/\($0)/deliveries"] }
        let paths: [String] =
            ["/healthz", "/readyz", "/metrics", "/v1/backends", "/v1/devices", "/v1/devices?user=ada"]
            + ["/v1/devices/phone-1", "/v1/devices/phone-1/operations", "/v1/invalidations"]
            + ofMessages
        for path in paths {
            let answer = try await client.get(path)
            #expect([200, 404, 503].contains(answer.status), "\(damage): \(path) \(answer.status)")
        }
    }

    @Test("Each ends with 75 and a sentence or answers requests, and SIGTERM ends it within queue.drain and 3 s")
    func many() async throws {
        try await SandboxRig.run { rig in
            try rig.append("queue: { drain: 1 }\n")
            let ids = try await Self.fill(rig)
            var planted: [(damage: Damage, folder: URL)] = []
            defer { for (_, folder) in planted { try? FileManager.default.removeItem(at: folder) } }
            for (number, damage) in Self.damages.enumerated() {
                guard let folder = try await Self.plant(damage, number: number, rig) else { continue }
                planted.append((damage, folder))
            }
            #expect(planted.count >= 20, "\(planted.map { $0.damage.name })")
            await withTaskGroup(of: Void.self) { group in
                for (number, (damage, folder)) in planted.enumerated() {
                    if number >= 4 { await group.next() }
                    group.addTask {
                        do {
                            try await Self.judge(damage, in: folder, ids)
                        } catch {
                            Issue.record("\(damage.name): \(error)")
                        }
                    }
                }
            }
        }
    }
}
