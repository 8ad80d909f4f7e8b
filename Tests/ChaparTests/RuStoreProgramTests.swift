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

    private static func register(_ names: [String], _ client: GatewayClient) async throws {
        for name in names {
            let device: JSONValue = ["platform": "android", "tokens": ["android-rustore": .string("sim-dead-\(name)")]]
            #expect(try await client.put("/v1/devices/\(name)", device.bytes).status == 201)
        }
    }

    private static func tokensAlive(_ names: [String], _ client: GatewayClient) async throws -> Int {
        var count = 0
        for name in names {
            let device = try await client.get("/v1/devices/\(name)").json
            if device["tokens"]?["android-rustore"]?["alive"] == true { count += 1 }
        }
        return count
    }

    @Test("A storm of 404 trips the guard: every token stays valid until an operator decides")
    func storm() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let names = (0..<60).map { "storm-\($0)" }
            try await Self.register(names, client)
            let request: JSONValue = [
                "to": ["devices": .array(names.map { .string($0) })], "content": ["title": "Order 42"],
                "backend": "rustore",
            ]
            let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: UUID().uuidString)
            #expect(answer.status == 202, "\(answer.json.text)")
            try await Program.wait("the guard") {
                gateway.child.errors.contains("invalidations are quarantined") ? true : nil
            }
            // The guard undoes what went before it within a moment.
            try await Program.wait("all tokens") {
                try await Self.tokensAlive(names, client) == names.count ? true : nil
            }
            await client.close()
        }
    }

    @Test("A token that RuStore calls dead leaves the device to Huawei, by the route's plan", .about("hms"))
    func fallback() async throws {
        try await SandboxRig.run { rig in
            try rig.append("routes: [ { match: { platform: android }, use: { fallback: [rustore, huawei] } } ]\n")
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let tokens: JSONValue = ["android-rustore": "sim-dead-phone", "android-huawei": "phone-huawei"]
            let device: JSONValue = ["platform": "android", "tokens": tokens]
            #expect(try await client.put("/v1/devices/phone", device.bytes).status == 201)
            let request: JSONValue = ["to": ["devices": ["phone"]], "content": ["title": "Order 42", "body": "now"]]
            let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: UUID().uuidString)
            #expect(answer.status == 202, "\(answer.json.text)")
            let taken = try await Program.wait("the message") { rig.sandbox.hms.inbox().first }
            #expect(taken.token == "phone-huawei" && rig.sandbox.ruStore.inbox.isEmpty)
            try await Program.wait("the verdict on the token") {
                let shown = try await client.get("/v1/devices/phone").json["tokens"]
                return shown?["android-rustore"]?["alive"] == false && shown?["android-huawei"]?["alive"] == true
                    ? true : nil
            }
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
