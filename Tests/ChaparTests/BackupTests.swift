import Foundation
import ChaparCore
import ChaparSandbox
import Synchronization
import Testing

@testable import ChaparCommands

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
            let before = Mutex<[Load.Accepted]>([])
            try await load.run(through: gateway, until: .milliseconds(200)) {
                _ = try await Program.wait("some load") { () -> Bool? in load.accepted.count > 5 ? true : nil }
                before.withLock { $0 = load.accepted }
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
            let promised = before.withLock { $0 }
            #expect(promised.count > 5)
            for accepted in promised {
                let status = try await client.get("/v1/notifications/\(accepted.id)").status
                #expect(status == 200, "\(accepted.id) was accepted before the copy was begun")
            }
            try await Self.wait(for: promised, at: client)
            await client.close()
        }
    }

    @Test(
        "After a restoration what waited at the backup is sent again, under the same id, and nothing from before it is lost"
    )
    func rehearsal() async throws {
        try await SandboxRig.run { rig in
            try rig.append("queue: { first_retry: 0.2, max_retry: 0.5 }\n")
            let store = rig.folder.appending(path: "chapar.db").path
            let copy = rig.folder.appending(path: "copy.db").path
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            // Delivered before the backup; waiting in it and delivered after it; accepted and delivered after it.
            let before = try await Self.post(0..<12, to: client)
            let sendAt = Date() + 5
            let between = try await Self.post(12..<27, to: client, sendAt: sendAt)
            try await Self.wait(for: before, at: client)
            let backup = try await Program.run(["backup", copy, "--config", rig.config, "--json"])
            #expect(
                try JSONValue(parsing: Array(backup.output.utf8))["waiting"]?.integerValue == 15,
                "\(backup.errors)"
            )
            #expect(Date() < sendAt, "the machine is too slow for this test")
            let after = try await Self.post(27..<34, to: client)
            try await Self.wait(for: between + after, at: client)
            await client.close()
            gateway.child.kill()
            _ = try await gateway.child.end()
            let first = Dictionary(grouping: rig.sandbox.apns.inbox, by: \.token).mapValues { $0.map(\.apnsID) }
            #expect(first.count == 34 && first.values.allSatisfy { $0.count == 1 })

            let restored = try await Program.run(["restore", copy, "--config", rig.config, "--store", store])
            #expect(restored.status == 0, "\(restored.errors)")
            #expect(
                restored.output.contains(
                    "15 deliveries wait in it and will be sent when the gateway starts, also what was sent"
                )
            )
            let back = try await rig.serve()
            defer { back.child.kill() }
            let again = try back.client()
            try await Self.wait(for: before + between, at: again)
            for one in after { #expect(try await again.get("/v1/notifications/\(one.id)").status == 404) }
            let sent = Dictionary(grouping: rig.sandbox.apns.inbox, by: \.token).mapValues { $0.map(\.apnsID) }
            for one in before + after { #expect(sent[one.token] == first[one.token], "sent once") }
            for one in between {
                let ids = try #require(sent[one.token])
                #expect(ids.count == 2 && Set(ids).count == 1, "sent again under the same id: \(ids)")
            }
            let counters = rig.sandbox.apns.counters
            #expect(counters.duplicateContents == 15 && counters.doubledOnDevice == 0, "the device shows them once")
            // What the restored store does not know is sent again when the caller repeats it.
            let repeated = try await Self.post(27..<34, to: again)
            try await Self.wait(for: repeated, at: again)
            #expect(Set(repeated.map(\.id)).isDisjoint(with: after.map(\.id)))
            #expect(rig.sandbox.apns.counters.duplicateContents == 22)
            await again.close()
        }
    }

    /// Posts a message to each of some tokens.
    private static func post(
        _ numbers: Range<Int>,
        to client: GatewayClient,
        sendAt: Date? = nil
    ) async throws -> [Load.Accepted] {
        var accepted: [Load.Accepted] = []
        for number in numbers {
            let token = SandboxRig.token(number)
            let request: JSONValue = [
                "to": ["tokens": [["token": .string(token), "service": "ios-apns"]]],
                "content": ["body": .string("message \(number)")],
                "options": sendAt.map { ["send_at": .string(RFC3339.string($0))] } ?? [:],
            ]
            let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: "\(number)")
            try #require(answer.status == 202, "\(answer.json)")
            accepted.append(Load.Accepted(id: answer.json["id"]?.stringValue ?? "", token: token))
        }
        return accepted
    }

    /// Waits until the platform has taken some messages.
    private static func wait(for accepted: [Load.Accepted], at client: GatewayClient) async throws {
        for one in accepted {
            try await Program.wait("the delivery of \(one.id)") { () -> Bool? in
                let status = try await client.get("/v1/notifications/\(one.id)").json["status"]?.stringValue
                return status == "accepted_by_platform" ? true : nil
            }
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
