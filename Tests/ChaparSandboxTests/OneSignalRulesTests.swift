import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSimulator
import ChaparTesting
import Testing

@testable import ChaparOneSignalSimulator

/// The rules that a well-behaved client never meets: specs/idpush-onesignal.md section 23.
@Suite("OneSignal and IDPush simulators: strictness", .timeLimit(.minutes(1)))
struct OneSignalRulesTests {
    private func run(
        _ rules: OneSignalSimulator.Rules = .init(),
        time: any TimeSource = SystemTime(),
        _ body: (OneSignalSimulator, _ api: any HTTPPool, _ idPush: any HTTPPool) async throws -> Void
    ) async throws {
        try await OneSignalSimulator.run(rules, time: time) { simulator in
            let transport = NIOTransport(logger: Logger(label: "test"))
            func pool(_ url: String) throws -> any HTTPPool {
                let base = try #require(HTTPBaseURL(url: url))
                var configuration = HTTPPoolConfiguration(endpoint: base.endpoint, version: .http1)
                configuration.extraTrustPEM = simulator.certificatePEM
                return try transport.pool(configuration)
            }
            do {
                try await body(simulator, try pool(simulator.apiURL), try pool(simulator.idPushURL))
                await transport.shutdown(grace: .milliseconds(100))
            } catch {
                await transport.shutdown(grace: .milliseconds(100))
                throw error
            }
        }
    }

    private func call(
        _ method: String,
        _ path: String,
        _ body: String = "",
        type: String = "application/json",
        key: String? = "Key os_v2_app_sandbox"
    ) -> HTTPCall {
        var headers = [HTTPHeader("content-type", type)]
        if let key { headers.append(HTTPHeader("authorization", key)) }
        return HTTPCall(HTTPCallTemplate(method: method, headers: headers), path: path, body: Array(body.utf8))
    }

    static let app = #""app_id":"8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77""#
    static let text = #""contents":{"en":"x"}"#
    static let one = #""include_subscription_ids":["5b1d6c0e-93f4-4c2b-8a7e-2f60d1c4e9ab"]"#

    static let messages: [(String, Int, String)] = [
        ("{\(text),\(one)}", 400, "app_id"), (#"{"app_id":"x",\#(text),\#(one)}"#, 400, "app_id"),
        ("{\(app),\(text)}", 400, "You must include"),
        ("{\(app),\(text),\(one),\"included_segments\":[\"All\"]}", 400, "one kind"),
        (#"{\#(app),\#(text),"include_subscription_ids":["a","b"]}"#, 400, "a, b"),
        (#"{\#(app),\#(text),"include_player_ids":["a"]}"#, 400, "player_id"),
        (#"{\#(app),"contents":{"fa":"x"},\#(one)}"#, 400, "English"),
        (#"{\#(app),"contents":{"en":"x"},"headings":{"fa":"y"},\#(one)}"#, 400, "headings"),
        (#"{\#(app),\#(text),"include_aliases":{"external_id":["a"]}}"#, 400, "target_channel"),
        (#"{\#(app),\#(text),\#(one),"priority":7}"#, 400, "priority"),
        (#"{\#(app),\#(text),\#(one),"ttl":9999999}"#, 400, "ttl"),
        (#"{\#(app),\#(text),\#(one),"ios_badgeType":"set_to"}"#, 400, "ios_badgeType"),
        (#"{\#(app),\#(text),\#(one),"idempotency_key":"x"}"#, 400, "UUID"),
        (#"{\#(app),\#(text),"filters":[{"operator":"OR"}]}"#, 400, "filters"),
        (#"{\#(app),\#(text),"filters":[{"field":"tag","key":"a","relation":"=","value":1}]}"#, 400, "filters"),
        (#"{\#(app),\#(text),\#(one)}"#, 200, "not subscribed"), ("[]", 400, "JSON"), ("{", 400, "JSON"),
    ]

    @Test("A message that breaks a rule is refused with the rule", arguments: messages)
    func refusesMessages(body: String, status: Int, word: String) async throws {
        try await run { simulator, api, _ in
            let answer = try await api.send(call("POST", "/notifications", body))
            #expect(answer.status == status)
            let text = String(decoding: answer.body, as: UTF8.self)
            #expect(text.contains(word), "\(text)")
            #expect(simulator.counters.created == 0)
        }
    }

    @Test("Unsubscribed aliases are listed under their label; unknown ones are not")
    func invalidAliases() async throws {
        try await run { simulator, api, _ in
            let path = "/apps/8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77/users"
            let on = #"{"type":"AndroidPush","token":"a"}"#
            let off = #"{"type":"AndroidPush","token":"b","enabled":false,"notification_types":-31}"#
            for (identity, subscription) in [(#"{"external_id":"ada"}"#, on), (#"{"crm":"bo"}"#, off)] {
                let body = #"{"identity":\#(identity),"subscriptions":[\#(subscription)]}"#
                #expect(try await api.send(call("POST", path, body)).status == 201)
            }
            let to = #""target_channel":"push","include_aliases":{"external_id":["ada","cy"],"crm":["bo"]}"#
            let answer = try await api.send(call("POST", "/notifications", "{\(Self.app),\(Self.text),\(to)}"))
            let errors = try JSONValue(parsing: answer.body)["errors"]
            #expect(errors == ["invalid_aliases": ["crm": ["bo"]]])
            #expect(simulator.counters.delivered == 1)
        }
    }

    static let keys: [(String?, Int)] = [
        (nil, 401), ("Key wrong", 403), ("Bearer os_v2_app_sandbox", 403), ("Basic os_v2_app_sandbox", 403),
        ("Key os_v2_app_sandbox", 200), ("key os_v2_app_sandbox", 200), ("Basic sandbox-legacy-key", 200),
    ]

    @Test("Keys are checked as OneSignal does", arguments: keys)
    func checksKeys(key: String?, status: Int) async throws {
        try await run { _, api, _ in
            let path = "/notifications?app_id=8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77"
            let answer = try await api.send(call("GET", path, key: key))
            #expect(answer.status == status)
        }
    }

    @Test("Quotas are held, with Retry-After")
    func quotas() async throws {
        var rules = OneSignalSimulator.Rules()
        rules.createsPerSecond = 3
        // Its clock stands still, so that a slow machine stays above the quota too.
        try await run(rules, time: ManualTime()) { simulator, api, _ in
            let id = simulator.addPlayers(1)[0]
            let body = #"{\#(Self.app),\#(Self.text),"include_subscription_ids":["\#(id)"]}"#
            var refused: [HTTPAnswer] = []
            for _ in 0..<40 where refused.isEmpty {
                let answer = try await api.send(call("POST", "/notifications", body))
                if answer.status == 429 { refused.append(answer) }
            }
            #expect(refused.first?.header("retry-after") != nil)
            let path = "/notifications?app_id=8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77"
            var statuses: Set<Int> = []
            for _ in 0..<40 where !statuses.contains(429) {
                statuses.insert(try await api.send(call("GET", path)).status)
            }
            #expect(statuses == [200, 429])
        }
    }

    static let form = "application/x-www-form-urlencoded"
    static let shared = "project_id=7Qm2xV9kLr&device_type=0&game_version=1&device_model=m&device_os=17"
    static let add = "\(shared)&identifier=t&notification_types=1&test_type=2"
    static let forms: [(String, String, String, String, Int, Int)] = [
        ("GET", "device/add", form, "", 405, 0), ("POST", "device/add", "application/json", "{}", 422, 0),
        ("POST", "device/add", form, "project_id=7Qm2xV9kLr", 422, 0), ("POST", "device/add", form, shared, 422, 0),
        ("POST", "device/add", form, add, 200, 1),
        ("POST", "device/add", form, add.replacing("7Qm2xV9kLr", with: "other"), 200, 0),
        ("POST", "device/add", form, add.replacing("device_type=0", with: "device_type=99"), 422, 0),
        ("POST", "device/edit/nobody", form, "\(shared)&player_id=nobody", 200, 0),
        ("POST", "device/edit/nobody", form, shared, 422, 0), ("POST", "device/remove", form, add, 404, 0),
    ]

    @Test("IDPush takes forms by POST, with everything in them", arguments: forms)
    func idPush(method: String, path: String, type: String, body: String, status: Int, word: Int) async throws {
        try await run { _, _, idPush in
            let answer = try await idPush.send(call(method, "/api/v1/\(path)", body, type: type, key: nil))
            #expect(answer.status == status)
            #expect(try JSONValue(parsing: answer.body)["status"] == .integer(Int64(word)))
        }
    }

    @Test("The same token of the same project is the same player")
    func sameToken() async throws {
        try await run { simulator, _, idPush in
            var ids: Set<String> = []
            for _ in 0..<3 {
                let answer = try await idPush.send(
                    call("POST", "/api/v1/device/add", Self.add, type: Self.form, key: nil)
                )
                ids.insert(try #require(try JSONValue(parsing: answer.body)["player_id"]?.stringValue))
            }
            #expect(ids.count == 1 && simulator.players.count == 1)
        }
    }

    @Test("The control API shows players and messages, and takes faults")
    func control() async throws {
        try await run { simulator, api, _ in
            func control(_ method: String, _ target: String, _ body: String = "") throws -> JSONValue {
                try simulator.control(ControlRequest(method: method, target: target, body: Array(body.utf8)))
            }
            let ids = try control("POST", "/players", #"{"count":2}"#)["ids"]?.arrayValue
            let id = try #require(ids?.first?.stringValue)
            _ = try control("POST", "/subscribed", #"{"id":"\#(id)","subscribed":false}"#)
            #expect(try control("GET", "/players")["players"]?.arrayValue?.count == 2)
            #expect(simulator.player(id)?.isSubscribed == false)
            let rule =
                #"{"match":{"count":1},"steps":[{"do":"answer","status":503,"retry_after":4,"headers":{"Retry-After":"soon"}}]}"#
            #expect(try control("POST", "/rules", rule)["added"] == 1)
            let faulty = try await api.send(call("GET", "/notifications"))
            #expect(faulty.status == 503)
            #expect(faulty.header("retry-after") == "soon", "a field of the rule stands in place of the answer's own")
            #expect(try control("GET", "/counters")["faults_injected"] == 1)
            #expect(try control("GET", "/messages")["messages"] == [])
            #expect(throws: ControlError.self) { try control("GET", "/nothing") }
        }
    }
}
