import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Foundation
import HTTPTypes
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The questions that the operator's page and shell ask before they offer or do something.
@Suite("The operator's questions", .timeLimit(.minutes(2)))
struct APIOperatorPageTests {
    private static func number(_ value: JSONValue?) -> Double? {
        switch value {
        case .integer(let number)?: Double(number)
        case .double(let number)?: number
        default: nil
        }
    }

    // MARK: Keys

    private static let keys: [GatewayConfiguration.APIKey] = {
        var kiosk = APIHarness.key("kiosk", [.send, .readAll], notAfter: Date(timeIntervalSince1970: 1_900_000_000))
        (kiosk.app, kiosk.queueShare, kiosk.maximumAudience) = (AppName(rawValue: "kiosk"), 0.25, 500)
        return [
            APIHarness.key("root", [.admin]), kiosk, APIHarness.key("droid", [.read], backends: ["android"]),
            APIHarness.key("pulse", [.metrics]),
        ]
    }()

    @Test(
        "A key of any scope sees its own rights and limits, and an absent list means all",
        arguments: [
            (
                "root",
                #"{"name":"root","scopes":["admin","broadcast","devices","metrics","read","read_all","read_content","#
                    + #""send","webhooks"],"queue_share":0.5}"#
            ),
            (
                "kiosk",
                #"{"name":"kiosk","scopes":["metrics","read","read_all","send"],"apps":["kiosk"],"backends":["ios"],"#
                    + #""not_after":"2030-03-17T17:46:40.000Z","max_audience":500,"queue_share":0.25}"#
            ),
            (
                "droid",
                #"{"name":"droid","scopes":["metrics","read"],"apps":["default"],"backends":["android"],"#
                    + #""queue_share":0.5}"#
            ), ("pulse", #"{"name":"pulse","scopes":["metrics"],"queue_share":0.5}"#),
        ]
    )
    func ownKey(name: String, answer: String) async throws {
        let harness = APIHarness(apps: ["ios": AppName(rawValue: "kiosk")], keys: Self.keys)
        let reply = try await harness.send(.get, "/v1/key", headers: APIHarness.bearer(name))
        #expect(reply.status == 200 && reply.text == answer, "\(reply.text)")
        #expect(try await harness.send(.get, "/v1/key?x=1", headers: APIHarness.bearer(name)).status == 400)
    }

    @Test("Without keys everything is allowed, and no key has no name")
    func keyless() async throws {
        let reply = try await APIHarness().send(.get, "/v1/key")
        #expect(reply.json["name"] == "" && reply.json["scopes"]?.arrayValue?.count == 9, "\(reply.text)")
        let closed = try await APIHarness(keys: Self.keys).send(.get, "/v1/key")
        #expect(closed.status == 401)
    }

    @Test("The list of keys has what each has waiting, its share of that, and the age of the oldest")
    func shares() async throws {
        let harness = APIHarness(keys: [
            APIHarness.key("root", [.admin]), APIHarness.key("shop", [.send]), APIHarness.key("news", [.send]),
        ])
        for key in ["shop", "shop", "shop", "news"] {
            let reply = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer(key))
            #expect(reply.status == 202, "\(reply.text)")
            harness.time.advance(by: .seconds(2))
        }
        let reply = try await harness.send(.get, "/v1/keys", headers: APIHarness.bearer("root"))
        func values(_ name: String) -> [JSONValue?] { (reply.json["keys"]?.arrayValue ?? []).map { $0[name] } }
        #expect(values("waiting") == [0, 3, 1], "\(reply.text)")
        #expect(values("share").map(Self.number) == [0, 0.75, 0.25], "\(reply.text)")
        #expect(values("oldest_age").map(Self.number) == [nil, 8, 2], "\(reply.text)")
        #expect(values("queue_share").map(Self.number) == [0.5, 0.5, 0.5], "\(reply.text)")
    }

    // MARK: Counts

    @Test("Notifications are counted by state, each once for a state, and their deliveries beside them")
    func counts() async throws {
        let harness = APIHarness()
        for id in ["phone", "tablet"] { try await APISearchTests.register(harness, id, user: "ali") }
        try await APISearchTests.register(harness, "other", user: "sara")
        _ = try await APISearchTests.send(harness, .failed)
        _ = try await APISearchTests.send(harness, to: #""users":["sara"]"#, .acceptedByPlatform)
        let waiting = try await APISearchTests.send(harness, to: #""users":["ali","sara"]"#)
        for (query, states, notifications, deliveries) in [
            ("", #"{"queued":1,"accepted_by_platform":1,"failed":1}"#, 3, 6),
            ("?user=ali", #"{"queued":1,"failed":1}"#, 2, 4), ("?state=failed", #"{"failed":1}"#, 1, 2),
            ("?id=\(waiting)", #"{"queued":1}"#, 1, 3), ("?user=nobody", "{}", 0, 0),
            ("?backend=ios&since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z", "{}", 0, 0),
        ] as [(String, String, Int64, Int64)] {
            let reply = try await harness.send(.get, "/v1/notifications/counts\(query)")
            #expect(reply.status == 200, "\(query): \(reply.text)")
            let expected = try JSONValue(parsing: Array(states.utf8))
            #expect(reply.json["states"] == expected, "\(query): \(reply.text)")
            #expect(reply.json["notifications"]?.integerValue == notifications, "\(query): \(reply.text)")
            let sum = (reply.json["deliveries"]?.objectValue?.members ?? []).reduce(0) { $0 + ($1.1.integerValue ?? 0) }
            #expect(sum == deliveries && reply.json["next"] == .null, "\(query): \(reply.text)")
        }
        let vague = try await harness.send(.get, "/v1/notifications/counts?backend=ios")
        #expect(vague.errors == ["#/since since_missing"], "\(vague.text)")
        let unknown = try await harness.send(.get, "/v1/notifications/counts?by=state")
        #expect(unknown.errors == ["#/by unknown_filter"], "\(unknown.text)")
    }

    // MARK: Dry runs

    @Test("A dry run of a cancellation has the numbers of the cancellation after it, and changes nothing")
    func dryCancellation() async throws {
        let harness = APIHarness()
        for id in ["phone", "tablet", "watch"] { try await APISearchTests.register(harness, id, user: "ali") }
        let id = try await APISearchTests.send(harness)
        let claimed = try await harness.store.claim(backend: "ios", limit: 2, wait: .zero)
        try await harness.store.record([Resolution(of: claimed[0], .end(.failed))])
        let before = try await harness.send(.get, "/v1/notifications/\(id)")
        let dry = try await harness.send(.delete, "/v1/notifications/\(id)?dry_run=true")
        #expect(dry.status == 200 && dry.json["dry_run"] == true, "\(dry.text)")
        #expect(try await harness.send(.get, "/v1/notifications/\(id)").text == before.text)
        let real = try await harness.send(.delete, "/v1/notifications/\(id)")
        #expect(real.json["dry_run"] == nil && real.json["cancelled"] == 1, "\(real.text)")
        for name in ["id", "cancelled", "too_late", "in_flight"] {
            #expect(dry.json[name] == real.json[name], "\(name): \(dry.text), \(real.text)")
        }
        #expect(try await harness.send(.delete, "/v1/notifications/\(id)?dry_run=yes").status == 400)
        #expect(try await harness.send(.delete, "/v1/notifications/0000000000000?dry_run=true").status == 404)
    }

    @Test("A dry run of the cancellation of a key counts what it has waiting and under way")
    func dryCancellationOfKey() async throws {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send]), APIHarness.key("news", [.send])])
        let shop = APIHarness.bearer("shop")
        for key in ["shop", "shop", "shop", "news"] {
            _ = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer(key))
        }
        _ = try await harness.store.claim(backend: "ios", limit: 1, wait: .zero)
        let dry = try await harness.send(.delete, "/v1/notifications?key=shop&dry_run=true", headers: shop)
        let expected = #"{"key":"shop","cancelled":2,"in_flight":1,"complete":true,"dry_run":true}"#
        #expect(dry.status == 200 && dry.text == expected, "\(dry.text)")
        let real = try await harness.send(.delete, "/v1/notifications?key=shop", headers: shop)
        #expect(real.json["cancelled"] == 2 && real.json["in_flight"] == 1, "\(real.text)")
        let other = try await harness.send(.delete, "/v1/notifications?key=news&dry_run=true", headers: shop)
        #expect(other.status == 403)
    }

    // MARK: Backends

    @Test("A diagnosis has the steps of doctor, as the backend finds them, and says whether one failed")
    func diagnosis() async throws {
        var ios = StubBackend.ios
        ios.diagnosis = {
            [
                Diagnosis("key", .ok, "the key signs"),
                Diagnosis("clock", .warning, "5 s behind", fix: "Set the clock."),
                Diagnosis("reachability", .failure, "refused", fix: "Open port 443."),
            ]
        }
        let harness = APIHarness(
            backends: [ios, .android],
            keys: [
                APIHarness.key("root", [.admin]), APIHarness.key("droid", [.admin], backends: ["android"]),
            ]
        )
        func ask(_ name: String, _ key: String, _ body: String = "{}") async throws -> APIHarness.Reply {
            let path = "/v1/backends/\(name)/diagnose"
            return try await harness.send(.post, path, body, headers: APIHarness.bearer(key))
        }
        let reply = try await ask("ios", "root")
        let steps =
            #"[{"name":"key","verdict":"ok","ok":true,"text":"the key signs"},"#
            + #"{"name":"clock","verdict":"warning","ok":true,"text":"5 s behind","fix":"Set the clock."},"#
            + #"{"name":"reachability","verdict":"failure","ok":false,"text":"refused","fix":"Open port 443."}]"#
        #expect(reply.text == #"{"backend":"ios","ok":false,"seconds":0.0,"steps":\#(steps)}"#, "\(reply.text)")
        let nothing = try await ask("android", "root")
        #expect(
            nothing.json["ok"] == true && nothing.json["steps"]?.arrayValue?.first?["name"] == "checks",
            "\(nothing.text)"
        )
        #expect(try await ask("ios", "droid").status == 404)
        #expect(try await ask("web", "root").status == 404)
        #expect(try await ask("ios", "root", #"{"x":1}"#).status == 422)
    }

    @Test("A diagnosis ends at its deadline, and a second one of the same backend is refused meanwhile")
    func slowDiagnosis() async throws {
        var ios = StubBackend.ios
        ios.diagnosis = {
            try? await Task.sleep(for: .seconds(3600))  // Until it is cancelled.
            return []
        }
        let harness = APIHarness(backends: [ios])
        let first = Task { try await harness.send(.post, "/v1/backends/ios/diagnose", "{}") }
        while harness.time.sleeping == 0 { await Task.yield() }
        let second = try await harness.send(.post, "/v1/backends/ios/diagnose", "{}")
        #expect(second.status == 409 && second.code == "diagnosis_runs", "\(second.text)")
        harness.time.advance(by: .seconds(25))
        let reply = try await first.value
        #expect(reply.json["ok"] == false && Self.number(reply.json["seconds"]) == 25, "\(reply.text)")
        #expect(reply.json["steps"]?.arrayValue?.first?["text"] == "no result within 25 s", "\(reply.text)")
        let third = Task { try await harness.send(.post, "/v1/backends/ios/diagnose", "{}") }
        while harness.time.sleeping == 0 { await Task.yield() }
        harness.time.advance(by: .seconds(25))
        #expect(try await third.value.status == 200)
    }

    @Test("A backend with a rate shows it, and how much of it is used")
    func quota() async throws {
        let reply = try await APIHarness().send(.get, "/v1/backends")
        let backends = reply.json["backends"]?.arrayValue ?? []
        let quota = backends.first?["worker"]?["quota"]
        #expect(Self.number(quota?["per_second"]) == 100, "\(reply.text)")
        #expect(Self.number(quota?["used"]) == 0.412, "\(reply.text)")
        #expect(backends.last?["worker"]?["quota"] == nil, "\(reply.text)")
    }
}
