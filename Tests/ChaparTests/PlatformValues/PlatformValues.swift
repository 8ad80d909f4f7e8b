import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// The options of single platforms, sent through a gateway as the JSON of their Swift values.
enum PlatformValues {
    static func run(_ body: (SandboxRig, GatewayClient) async throws -> Void) async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            try await body(rig, client)
            await client.close()
        }
    }

    /// A request to one token, with a notification's title and overrides.
    static func request(_ notification: PushNotification, _ token: String, _ service: String) -> JSONValue {
        var request: JSONObject = ["to": ["tokens": [["token": .string(token), "service": .string(service)]]]]
        if let title = notification.title { request["content"] = ["title": .string(title.resolved(for: nil))] }
        var overrides = JSONObject()
        for (kind, object) in notification.overrides { overrides[kind] = .object(object) }
        request["overrides"] = .object(overrides)
        return .object(request)
    }

    /// Sends a notification to one token, and waits until the platform has taken it.
    static func send(
        _ notification: PushNotification,
        to token: String,
        _ service: String,
        _ client: GatewayClient
    ) async throws {
        let body = request(notification, token, service).bytes
        let answer = try await client.post("/v1/notifications", body, idempotencyKey: "\(UUID())")
        let id = try #require(answer.json["id"]?.stringValue, "\(answer)")
        _ = try await Program.wait("the platform's word") { () -> Bool? in
            let counts = try await client.get("/v1/notifications/\(id)").json["counts"]
            let done =
                (counts?["accepted_by_platform"]?.integerValue ?? 0) + (counts?["delivered"]?.integerValue ?? 0)
            return done == 1 ? true : nil
        }
    }
}
