import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

@Suite("RuStore through the program", .timeLimit(.minutes(2)), .about("rustore"))
struct RuStoreProgramTests {
    @Test("A dry run shows the request and no service token, which the universal API has in the body")
    func dryRun() async throws {
        try await SandboxRig.run { rig in
            let file = rig.folder.appending(path: "rustore.yaml").path
            let section =
                "backends: { rustore: { kind: rustore, mode: universal, project_id: aabbcc, service_token: hidden-token } }"
            try section.write(toFile: file, atomically: true, encoding: .utf8)
            let to = ["--to", "android-rustore-universal:bk3RNwTe3H"]
            let words = ["send", "--config", file, "--title", "hi", "--body", "there", "--dry-run", "--json"]
            let result = try await Program.run(words + to)
            #expect(result.status == 0, "\(result.output)\(result.errors)")
            #expect(!result.output.contains("hidden-token"))
            let body = try JSONValue(parsing: Array(result.output.utf8))["request"]?["body"]
            #expect(body?["providers"]?["rustore"] == ["project_id": "aabbcc", "auth_token": "<secret>"])
            #expect(body?["tokens"]?["rustore"] == ["bk3RNwTe3H"])
        }
    }

    @Test("A token of either service goes to the backend of its mode and never to the other", arguments: [0, 1])
    func modes(index: Int) async throws {
        let (service, listener) = [
            ("android-rustore", RuStoreListener.direct), ("android-rustore-universal", .universal),
        ][index]
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let request: JSONValue = [
                "to": ["tokens": [["token": "rustore-mode", "service": .string(service)]]],
                "content": ["title": "Order 42", "body": "is on its way"], "options": ["ttl": 30],
            ]
            let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: UUID().uuidString)
            #expect(answer.status == 202, "\(answer.json.text)")
            let delivery = try await Program.wait("the message") { rig.sandbox.ruStore.inbox.first }
            #expect(delivery.listener == listener && (1...30).contains(delivery.timeToLive))
            await client.close()
        }
    }

    @Test(
        "Altcraft's provider of that name: a device registers its token, and is subscribed with it",
        .about("altcraft")
    )
    func altcraft() async throws {
        try await SandboxRig.run { rig in
            let text = try String(contentsOfFile: rig.config, encoding: .utf8).components(separatedBy: "\n")
                .filter { !$0.contains("register_devices:") }
                .map { ["  campaigns:", "  idpush:"].contains($0) ? $0 + "\n    register_devices: false" : $0 }
                .joined(separator: "\n")
            try text.write(toFile: rig.config, atomically: true, encoding: .utf8)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let device = #"{"platform":"android","tokens":{"android-rustore":"bk3RNwTe3H"}}"#
            let registered = try await client.put("/v1/devices/phone", Array(device.utf8))
            #expect(registered.status == 201, "\(registered.json.text)")
            let change = #"{"status":"subscribed","backend":"crm"}"#
            let done = try await client.put("/v1/devices/phone/subscription?wait=30", Array(change.utf8))
            #expect(done.json["operations"]?.arrayValue?.first?["status"] == "done", "\(done.json.text)")
            let profile = try #require(rig.sandbox.altcraft.profile("custom device_id/phone", in: 11))
            #expect(profile.subscriptions.map(\.provider) == ["android-rustore"])
            #expect(profile.subscriptions.map(\.token) == ["bk3RNwTe3H"])
            await client.close()
        }
    }
}
