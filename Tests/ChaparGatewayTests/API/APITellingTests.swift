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

@Suite("Telling platforms about devices over HTTP", .timeLimit(.minutes(1)))
struct APITellingTests {
    private static let device = #"{"user":"ali","tokens":{"ios-apns":"4f1c"}}"#

    /// A harness with a platform under the name `crm`, and a device `a`.
    private func harness(
        _ platform: ScriptedPlatform = ScriptedPlatform(),
        others: [any PushBackend] = []
    ) async throws -> APIHarness {
        let harness = APIHarness(platforms: [("ios", StubBackend.ios), ("crm", platform)])
        #expect(try await harness.send(.put, "/v1/devices/a", Self.device).status == 201)
        _ = try await harness.devices.cancelEntries(of: "crm", device: nil)
        return harness
    }

    @Test("A registered device is told of, with its attributes")
    func registered() async throws {
        let platform = ScriptedPlatform()
        let harness = APIHarness(platforms: [("crm", platform)])
        let body =
            #"{"tokens":{"ios-apns":"4f1c"},"tags":["vip"],"attributes":{"model":"iPhone","allowed":true,"n":1.5}}"#
        let reply = try await harness.send(.put, "/v1/devices/a", body)
        #expect(reply.status == 201)
        #expect(reply.json["attributes"] == ["model": "iPhone", "allowed": true, "n": 1.5])
        let waiting = try await harness.send(.get, "/v1/devices/a/operations")
        #expect(waiting.json["items"]?.arrayValue?.map { $0["kind"]?.stringValue } == ["register", "tags"])
        #expect(waiting.json["items"]?.arrayValue?.last?["due"] == .null, "it waits for the first")
        let patched = try await harness.send(.patch, "/v1/devices/a", #"{"attributes":{"model":null,"os":"17"}}"#)
        #expect(patched.json["attributes"] == ["allowed": true, "n": 1.5, "os": "17"])
        let batch = #"{"devices":[{"id":"b","tokens":{"ios-apns":"5f1c"}}]}"#
        #expect(try await harness.send(.post, "/v1/devices/batch", batch).status == 200)
        let kinds = try await harness.devices.entries(ofDevice: "a", limit: 9).map(\.operation.kind)
        #expect(kinds == [.register, .tags, .register])
        #expect(try await harness.send(.delete, "/v1/devices/b").status == 204)
        let left = try await harness.devices.entries(ofDevice: "b", limit: 9)
        #expect(left.map(\.operation.kind) == [.register, .remove])
    }

    @Test("Waiting operations are listed for a deleted device too; a malformed id is refused")
    func listing() async throws {
        let harness = APIHarness(platforms: [("crm", ScriptedPlatform())])
        #expect(try await harness.send(.get, "/v1/devices/gone/operations").json["items"] == [])
        for id in [String(repeating: "a", count: 129), "a%20b", "%08"] {
            let reply = try await harness.send(.get, "/v1/devices/\(id)/operations")
            #expect(reply.status == 400 && reply.json["code"] == "bad_device_id", "\(reply.text)")
        }
    }

    @Test(
        "A wrong attribute is named",
        arguments: [
            (#"{"attributes":[]}"#, "#/attributes wrong_type"),
            (#"{"attributes":{"a":{}}}"#, "#/attributes/a wrong_type"),
            (#"{"attributes":{"":1}}"#, "#/attributes/ bad_name"),
            ("{\"attributes\":{\"a\":\"\(String(repeating: "x", count: 4_096))\"}}", "#/attributes too_large"),
            (
                "{\"attributes\":{\((0...50).map { "\"a\($0)\":1" }.joined(separator: ","))}}",
                "#/attributes too_many_attributes"
            ),
        ]
    )
    func wrongAttributes(body: String, error: String) async throws {
        let reply = try await APIHarness().send(.put, "/v1/devices/a", body)
        #expect(reply.status == 422 && reply.errors == [error], "\(reply.text)")
    }

    @Test("Attributes that join others keep the bound")
    func attributesTogether() async throws {
        let harness = try await harness()
        func body(_ range: ClosedRange<Int>) -> String {
            "{\"attributes\":{\(range.map { "\"a\($0)\":1" }.joined(separator: ","))}}"
        }
        #expect(try await harness.send(.patch, "/v1/devices/a", body(1...30)).status == 200)
        let reply = try await harness.send(.patch, "/v1/devices/a", body(31...60))
        #expect(reply.errors == ["#/attributes too_many_attributes"])
    }

    @Test("A subscription is accepted, carried out, and its outcome told to who waits")
    func subscription() async throws {
        let platform = ScriptedPlatform()
        let harness = try await harness(platform)
        let body = #"{"status":"suspended","backend":"crm","options":{"sync":true}}"#
        let accepted = try await harness.send(.put, "/v1/devices/a/subscription", body)
        #expect(accepted.status == 202, "\(accepted.text)")
        #expect(accepted.json["operations"]?.arrayValue?.first?["status"] == "waiting")
        let waiting = try await harness.devices.entries(ofDevice: "a", limit: 9)
        #expect(waiting.map(\.operation.body) == [["status": "suspended", "options": ["sync": true]]])
        #expect(waiting.first?.operation.user == "ali")
        try await harness.operating {
            let reply = try await harness.send(.put, "/v1/devices/a/subscription?wait=30", #"{"status":"subscribed"}"#)
            #expect(reply.status == 200, "\(reply.text)")
            let operation = reply.json["operations"]?.arrayValue?.first
            #expect(operation?["status"] == "done" && operation?["detail"] == ["answer": "taken"])
        }
        let statuses = platform.calls.filter { $0.kind == .subscription }.map { $0.detail["status"]?.stringValue }
        #expect(statuses == ["suspended", "subscribed"])
    }

    @Test("Who waits for an operation that fails learns why")
    func failure() async throws {
        let platform = ScriptedPlatform { call, _ throws(PushError) in
            guard call.kind == .subscription else { return }
            throw PushError(.invalidRequest, "no such list", reason: "433")
        }
        let harness = try await harness(platform)
        try await harness.operating {
            let reply = try await harness.send(.put, "/v1/devices/a/subscription?wait=30", #"{"status":"subscribed"}"#)
            let operation = reply.json["operations"]?.arrayValue?.first
            #expect(reply.status == 200 && operation?["status"] == "failed")
            #expect(operation?["error"] == ["code": "invalid_request", "reason": "433", "message": "no such list"])
        }
    }

    static let mistakes: [(HTTPRequest.Method, String, String, [String])] = [
        (.put, "/v1/devices/a/subscription", "{}", ["#/status missing"]),
        (
            .put, "/v1/devices/a/subscription", #"{"status":"on","statu":1}"#,
            ["#/status unknown_status", "#/statu unknown_field"]
        ),
        (.put, "/v1/devices/a/subscription", #"{"status":"subscribed","options":{}}"#, ["#/options needs_backend"]),
        (
            .put, "/v1/devices/a/subscription", #"{"status":"subscribed","backend":"cmr"}"#,
            ["#/backend unknown_backend"]
        ),
        (.put, "/v1/devices/a/subscription", #"{"status":"subscribed","backend":"ios"}"#, ["#/backend unsupported"]),
        (
            .put, "/v1/devices/a/subscription", #"{"status":"subscribed","backend":"crm","options":{"cats":1}}"#,
            ["#/options/cats bad_cats"]
        ),
        (.patch, "/v1/devices/a/tags", "{}", ["#/tags missing"]),
        (.patch, "/v1/devices/a/tags", #"{"tags":{}}"#, ["#/tags empty"]),
        (.patch, "/v1/devices/a/tags", #"{"tags":{"bad":1}}"#, ["#/tags/bad bad_tag"]),
        (.patch, "/v1/devices/a/tags", #"{"tags":[]}"#, ["#/tags wrong_type"]),
        (.post, "/v1/devices/a/events", "{}", ["#/event missing", "# one_message"]),
        (.post, "/v1/devices/a/events", #"{"event":"read","payload":{}}"#, ["#/event unknown_event"]),
        (.post, "/v1/devices/a/events", #"{"event":"opened","payload":{}}"#, ["#/payload unknown_message"]),
        (.post, "/v1/devices/a/events", #"{"event":"custom"}"#, ["#/name missing"]),
        (.post, "/v1/devices/a/events", #"{"event":"custom","name":""}"#, ["#/name empty"]),
        (.post, "/v1/devices/a/events", #"{"event":"custom","name":"buy","data":[]}"#, ["#/data wrong_type"]),
        (
            .post, "/v1/devices/a/events", #"{"event":"custom","name":"buy","payload":{}}"#,
            ["#/payload unsupported"]
        ),
        (
            .post, "/v1/devices/a/events", #"{"event":"opened","name":"buy","payload":{}}"#,
            ["#/name unsupported"]
        ),
        (.post, "/v1/devices/a/events", #"{"event":"custom","name":"buy","data":{"bad":1}}"#, ["#/data/bad bad_value"]),
        (
            .post, "/v1/devices/a/events", #"{"event":"custom","name":"buy","backend":"ios"}"#,
            ["#/backend unsupported"]
        ),
        (
            .post, "/v1/devices/a/events", #"{"event":"custom","name":"buy","backend":"crn"}"#,
            ["#/backend unknown_backend"]
        ),
        (.post, "/v1/devices/a/events", #"{"event":"opened","payload":{"_crm":1}}"#, ["#/payload no_message_id"]),
        (.post, "/v1/devices/a/events", #"{"event":"opened","notification":"?"}"#, ["#/notification bad_id"]),
        (.post, "/v1/devices/a/events", #"{"event":"opened","delivery":"?"}"#, ["#/delivery bad_id"]),
        (
            .post, "/v1/devices/a/events", #"{"event":"opened","at":"2099-01-01T00:00:00Z","payload":{}}"#,
            ["#/at time_in_the_future"]
        ),
        (.post, "/v1/users/ali/switch", "{}", ["#/device missing"]),
        (.post, "/v1/users/ali/switch", #"{"device":"nobody"}"#, ["#/device unknown_device"]),
    ]

    @Test("Each wrong field is named, and nothing is stored", arguments: mistakes)
    func wrong(method: HTTPRequest.Method, path: String, body: String, errors: [String]) async throws {
        let harness = try await harness()
        #expect(try await harness.send(.put, "/v1/devices/tokenless", "{}").status == 201)
        let reply = try await harness.send(method, path, body)
        #expect(reply.status == 422 && reply.errors == errors, "\(reply.text)")
        #expect(try await harness.devices.outboxDepths().isEmpty)
    }

    @Test("A device that is not there is not found")
    func unknownDevice() async throws {
        let harness = try await harness()
        let bodies: [(HTTPRequest.Method, String, String?)] = [
            (.put, "subscription", #"{"status":"subscribed"}"#), (.get, "subscription", nil),
            (.patch, "tags", #"{"tags":{"a":1}}"#), (.post, "events", #"{"event":"opened","payload":{}}"#),
        ]
        for (method, what, body) in bodies {
            #expect(try await harness.send(method, "/v1/devices/nobody/\(what)", body).status == 404, "\(what)")
        }
        #expect(try await harness.send(.get, "/v1/devices/a/b/c").status == 404)
    }

    static let queries: [(String, String)] = [
        ("", "current"), ("?query=latest", "latest"), ("?query=latest&service=ios-apns", "ios-apns"),
        ("?backend=crm&query=latest&service=current", "latestOf(nil)"),
    ]

    @Test("The platform is asked how a subscription stands", arguments: queries)
    func asked(query: String, word: String) async throws {
        let harness = try await harness()
        let reply = try await harness.send(.get, "/v1/devices/a/subscription" + query)
        #expect(reply.status == 200 && reply.json["status"] == "suspended", "\(reply.text)")
        #expect(reply.json["detail"]?["query"]?.stringValue?.contains(word) == true, "\(reply.text)")
    }

    @Test("A question that means nothing is refused", arguments: ["backend=ios", "query=x", "service=ios-apns", "q=1"])
    func refusedQuestion(query: String) async throws {
        let reply = try await harness().send(.get, "/v1/devices/a/subscription?" + query)
        #expect(reply.status == 400 && reply.code == "invalid_parameter")
    }

    @Test("Tags go to the platform, a null removes")
    func tags() async throws {
        let platform = ScriptedPlatform()
        let harness = try await harness(platform)
        try await harness.operating {
            let body = #"{"tags":{"plan":"pro","trial":null}}"#
            let reply = try await harness.send(.patch, "/v1/devices/a/tags?wait=30", body)
            #expect(reply.status == 200, "\(reply.text)")
        }
        #expect(platform.calls.last { $0.kind == .tags }?.detail == ["plan": "pro", "trial": nil])
    }

    @Test("An event of a platform's message is told it once, with the same id when it comes again")
    func events() async throws {
        let platform = ScriptedPlatform()
        let harness = try await harness(platform)
        let body = #"{"event":"opened","at":"2027-01-15T07:59:00Z","payload":{"_crm":"1","_uid":"u-7"}}"#
        let first = try await harness.send(.post, "/v1/devices/a/events", body)
        #expect(first.status == 202 && first.json["operations"]?.arrayValue?.count == 1, "\(first.text)")
        let again = try await harness.send(.post, "/v1/devices/a/events", body)
        #expect(again.status == 202 && again.json["repeated"] == 1)
        let waiting = try await harness.devices.entries(ofDevice: "a", limit: 9)
        #expect(waiting.map(\.operation.body) == [["event": "opened", "message": "u-7"]])
        #expect(waiting.first.map { RFC3339.string($0.operation.at) } == "2027-01-15T07:59:00.000Z")
        harness.time.advance(by: .seconds(86_401))
        let later = try await harness.send(.post, "/v1/devices/a/events", body)
        #expect(
            later.json["operations"]?.arrayValue?.first?["id"] == first.json["operations"]?.arrayValue?.first?["id"]
        )
    }

    @Test("An event of the app's own goes to the platform once for each time at which it happened")
    func customEvents() async throws {
        let platform = ScriptedPlatform()
        let harness = try await harness(platform)
        func post(_ more: String) async throws -> APIHarness.Reply {
            let body = #"{"event":"custom","name":"buy","data":{"price":990}\#(more)}"#
            return try await harness.send(.post, "/v1/devices/a/events", body)
        }
        let at = #","at":"2027-01-15T07:59:00Z","backend":"crm""#
        let first = try await post(at)
        #expect(first.status == 202 && first.json["operations"]?.arrayValue?.count == 1, "\(first.text)")
        #expect(first.json["deliveries"] == [] && first.json["repeated"] == 0)
        #expect(try await post(at).json["repeated"] == 1)
        for _ in 0..<2 { #expect(try await post("").json["repeated"] == 0, "without a time each is another event") }
        let waiting = try await harness.devices.entries(ofDevice: "a", limit: 9).map(\.operation)
        let body: JSONObject = ["custom": "buy", "data": ["price": 990], "options": [:]]
        #expect(waiting.map(\.kind) == [.event, .event, .event] && waiting.allSatisfy { $0.body == body })
        #expect(Set(waiting.map(\.id)).count == 3)
        try await harness.operating {
            let reply = try await harness.send(
                .post,
                "/v1/devices/a/events?wait=5",
                #"{"event":"custom","name":"last","options":{"x":1}}"#
            )
            #expect(reply.status == 200, "\(reply.text)")
            #expect(reply.json["operations"]?.arrayValue?.first?["detail"] == ["taken": "last"])
        }
        #expect(platform.calls.compactMap { $0.detail["name"] } == ["buy", "buy", "buy", "last"])
    }

    @Test("Where two platforms take such events the request names one")
    func twoOfCustom() async throws {
        let harness = APIHarness(platforms: [("one", ScriptedPlatform()), ("two", ScriptedPlatform())])
        #expect(try await harness.send(.put, "/v1/devices/a", Self.device).status == 201)
        let reply = try await harness.send(.post, "/v1/devices/a/events", #"{"event":"custom","name":"buy"}"#)
        #expect(reply.status == 422 && reply.errors == ["#/backend backend_missing"], "\(reply.text)")
    }

    @Test("A switch sets the user and resumes what it has; who has nothing is subscribed")
    func switching() async throws {
        let reports: [(Result<SubscriptionReport?, PushError>, JSONValue, subscribes: Bool)] = [
            (.success(SubscriptionReport(.subscribed, detail: ["id": 7])), "subscribed", false),
            (.success(SubscriptionReport(nil)), .null, true), (.success(nil), .null, false),
            (.failure(PushError(.unavailable, "down")), .null, false),
        ]
        for (result, status, subscribes) in reports {
            let platform = ScriptedPlatform(resumption: result)
            let harness = try await harness(platform)
            let body = #"{"device":"a","options":{"sync":true}}"#
            let reply = try await harness.send(.post, "/v1/users/sara/switch", body)
            #expect(reply.status == 200 && reply.json["user"] == "sara", "\(reply.text)")
            let backend = reply.json["backends"]?.arrayValue?.first
            #expect(backend?["backend"] == "crm" && backend?["status"] == status)
            #expect(backend?["subscribing"] == .bool(subscribes))
            if case .failure = result { #expect(backend?["error"]?["code"] == "backend_unavailable") }
            #expect(platform.resumed.map(\.user) == ["sara"])
            #expect(try await harness.devices.device("a")?.user == "sara")
            let kinds = try await harness.devices.entries(ofDevice: "a", limit: 9).map(\.operation)
            #expect(kinds.map(\.kind) == (subscribes ? [.register, .subscription] : [.register]))
            #expect(kinds.allSatisfy { $0.user == "sara" })
            if subscribes { #expect(kinds.last?.body["options"] == ["sync": true]) }
        }
    }

    @Test("A switch to anonymous is a log-out")
    func loggedOut() async throws {
        let platform = ScriptedPlatform()
        let harness = try await harness(platform)
        let reply = try await harness.send(.post, "/v1/users/anonymous/switch", #"{"device":"a"}"#)
        #expect(reply.json["user"] == .null)
        #expect(platform.resumed.map(\.user) == [nil])
        #expect(try await harness.devices.device("a")?.user == nil)
    }

    @Test("Clearing cancels what waits and lets the backend forget")
    func cleared() async throws {
        let platform = ScriptedPlatform()
        let harness = try await harness(platform)
        for _ in 1...3 {
            _ = try await harness.send(.put, "/v1/devices/a/subscription", #"{"status":"subscribed"}"#)
        }
        #expect(try await harness.send(.post, "/v1/backends/crm/clear", #"{"device":"b"}"#).json["removed"] == 0)
        #expect(try await harness.send(.post, "/v1/backends/crm/clear", "{}").json["removed"] == 3)
        #expect(platform.forgotten == ["b", nil])
        #expect(try await harness.send(.post, "/v1/backends/other/clear", "{}").status == 404)
        let left = OutboxEntry(backend: "gone", device: "a", kind: .tags, at: harness.time.now)
        try await harness.devices.enqueue([left])
        #expect(try await harness.send(.post, "/v1/backends/gone/clear", "{}").json["removed"] == 1)
    }

    @Test("Waiting operations are counted in /v1/backends and /metrics")
    func shown() async throws {
        let harness = try await harness()
        _ = try await harness.send(.put, "/v1/devices/a/subscription", #"{"status":"subscribed"}"#)
        let backends = try await harness.send(.get, "/v1/backends").json["backends"]?.arrayValue
        #expect(backends?.map { $0["operations"]?["waiting"]?.integerValue } == [0, 1])
        let metrics = try PrometheusSamples(try await harness.send(.get, "/metrics").text)
        #expect(metrics["chapar_operations_waiting{backend=\"crm\"}"] == 1)
        #expect(metrics["chapar_device_changes_unplanned"] == 0)
    }
}
