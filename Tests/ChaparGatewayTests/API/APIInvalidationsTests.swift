import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Held invalidations", .timeLimit(.minutes(1)))
struct APIInvalidationsTests {
    /// A gateway where 60 of 60 answers of the backend `ios` declared a token dead; its desk runs while `body` does.
    private static func uncertain(
        keys: [GatewayConfiguration.APIKey] = [],
        _ body: (APIHarness) async throws -> Void
    ) async throws {
        let harness = APIHarness(keys: keys)
        let now = harness.time.now
        let tokens = (0..<60).map { DeviceToken("t\($0)", service: .iOSAPNs) }
        for (place, token) in tokens.enumerated() {
            let registered = RegisteredToken(token, registeredAt: now.addingTimeInterval(-60))
            _ = try await harness.devices.put([Device(id: "d\(place)", tokens: [registered], createdAt: now)])
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [desk = harness.desk] in await desk.run() }
            let watch = await harness.desk.watch("ios", GatewayConfiguration.InvalidationGuard())
            let refusals = tokens.map {
                TokenRefusal($0, asOf: now, at: now, backend: "ios", reason: "Unregistered")
            }
            #expect(harness.desk.receive(refusals, answers: 60, watch, at: TimeReading(now)) == .all)
            while harness.desk.backlog > 0 { await Task.yield() }
            let result: Result<Void, any Error>
            do {
                try await body(harness)
                result = .success(())
            } catch {
                result = .failure(error)
            }
            harness.desk.finish()
            try await group.waitForAll()
            try result.get()
        }
    }

    @Test("are shown with why they are quarantined, and device by device")
    func show() async throws {
        try await Self.uncertain { harness in
            let all = try await harness.send(.get, "/v1/invalidations")
            #expect(all.status == 200)
            let ios = all.json["backends"]?.arrayValue?.first
            #expect(ios?["backend"] == "ios")
            #expect(ios?["quarantined"] == 60)
            #expect(ios?["held"] == 60, "the old name")
            #expect(ios?["reasons"]?["Unregistered"] == 60)
            #expect(ios?["stopped"] == true)
            #expect(ios?["explanation"]?.stringValue?.contains("wrong environment") == true)
            var devices: Set<String> = []
            var cursor = ""
            repeat {
                let page = try await harness.send(.get, "/v1/invalidations?backend=ios&limit=25\(cursor)")
                for item in page.json["items"]?.arrayValue ?? [] {
                    #expect(item["token"] == nil)
                    devices.insert(item["device"]?.stringValue ?? "")
                }
                cursor = page.json["next"]?.stringValue.map { "&cursor=\($0)" } ?? ""
            } while !cursor.isEmpty
            #expect(devices.count == 60)
            #expect(try await harness.send(.get, "/v1/invalidations?backend=ios&cursor=no").status == 400)
            #expect(try await harness.send(.get, "/v1/invalidations?backnd=ios").status == 400)
        }
    }

    @Test("are settled by an action, which may be repeated", arguments: [("release", 0), ("discard", 60)])
    func settle(action: String, alive: Int) async throws {
        try await Self.uncertain { harness in
            let dryBody = #"{"action":"\#(action)","dry_run":true}"#
            let dry = try await harness.send(.post, "/v1/backends/ios/invalidations", dryBody)
            #expect(dry.json["tokens"] == 60 && dry.json["dry_run"] == true, "\(dry.text)")
            #expect(harness.desk.trippedGuards.count == 1, "a dry run settles nothing")
            let body = #"{"action":"\#(action)"}"#
            let first = try await harness.send(.post, "/v1/backends/ios/invalidations", body)
            #expect(first.status == 200)
            #expect(first.json["tokens"] == 60)
            let devices = try await harness.devices.devices((0..<60).map { "d\($0)" })
            #expect(devices.values.count { $0.liveToken(of: .iOSAPNs) != nil } == alive)
            let again = try await harness.send(.post, "/v1/backends/ios/invalidations", body)
            #expect(again.status == 200)
            #expect(again.json["tokens"] == 0)
            #expect(try await harness.send(.get, "/v1/invalidations").json["backends"]?.arrayValue?.isEmpty == true)
        }
    }

    @Test(
        "are not settled by a wrong request",
        arguments: [
            ("ios", #"{"action":"releas"}"#, 422, "#/action unknown_action"), ("ios", "{}", 422, "#/action missing"),
            ("ios", #"{"action":"release","x":1}"#, 422, "#/x unknown_field"),
            ("ios", #"{"action":"release","dry_run":"yes"}"#, 422, "#/dry_run wrong_type"),
            ("ios", #"{"dry_run":true}"#, 422, "#/action missing"),
            ("iso", #"{"action":"release"}"#, 404, ""),
            ("ios", "no", 400, ""), ("ios", "[]", 422, "# wrong_type"),
        ]
    )
    func wrong(backend: String, body: String, status: Int, error: String) async throws {
        try await Self.uncertain { harness in
            let reply = try await harness.send(.post, "/v1/backends/\(backend)/invalidations", body)
            #expect(reply.status == status)
            if !error.isEmpty { #expect(reply.errors.contains(error)) }
            #expect(harness.desk.trippedGuards.count == 1)
        }
    }

    @Test("may be seen with the scope read, and settled with admin only")
    func scopes() async throws {
        let keys = [APIHarness.key("reader", [.read]), APIHarness.key("root", [.admin])]
        try await Self.uncertain(keys: keys) { (harness) async throws in
            let reader = APIHarness.bearer("reader")
            #expect(try await harness.send(.get, "/v1/invalidations", headers: reader).status == 200)
            let path = "/v1/backends/ios/invalidations"
            let body = #"{"action":"discard"}"#
            #expect(try await harness.send(.post, path, body, headers: reader).status == 403)
            #expect(try await harness.send(.post, path, body, headers: APIHarness.bearer("root")).status == 200)
        }
    }
}
