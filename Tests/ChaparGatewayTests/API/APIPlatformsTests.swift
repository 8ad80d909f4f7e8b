import Foundation
import HTTPTypes
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The abilities of single platforms: topics, channels, tokens, messages taken back.
@Suite("Platforms' topics, channels, tokens and messages, over HTTP", .timeLimit(.minutes(1)))
struct APIPlatformsTests {
    private static let shop = AppName(rawValue: "shop")

    private let platform = KeepingPlatform()
    private let harness: APIHarness

    init() {
        let key = GatewayConfiguration.APIKey(
            name: "seller",
            hashes: [APIHarness.hash(of: "seller")],
            scopes: [.send, .devices, .admin],
            app: Self.shop
        )
        harness = APIHarness(
            platforms: [("ios", StubBackend.ios), ("android", platform), ("other", KeepingPlatform())],
            apps: ["other": Self.shop],
            keys: [
                APIHarness.key("boss", [.admin]), APIHarness.key("app", [.devices]), APIHarness.key("sender", [.send]),
                APIHarness.key("apple", [.devices, .admin], backends: ["ios"]), key,
            ]
        )
    }

    private func send(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: String? = nil,
        as key: String = "boss"
    ) async throws -> APIHarness.Reply {
        try await harness.send(method, "/v1/backends/" + path, body, headers: APIHarness.bearer(key))
    }

    private func register(_ id: String, _ tokens: String, user: String = "ali") async throws {
        let body = #"{"user":"\#(user)","tokens":{\#(tokens)}}"#
        let reply = try await harness.send(
            .put,
            "/v1/devices/\(id)?app=default",
            body,
            headers: APIHarness.bearer("boss")
        )
        #expect(reply.status == 201, "\(reply.text)")
    }

    // MARK: Access

    /// Every route, with a body that is right.
    static let calls: [(method: HTTPRequest.Method, path: String, body: String?)] = [
        (.post, "topics/news/subscribe", #"{"tokens":["t1"]}"#),
        (.post, "topics/news/unsubscribe", #"{"tokens":["t1"]}"#), (.get, "topics?device=a", nil),
        (.post, "topics/lookup", #"{"token":"t1"}"#), (.get, "channels", nil),
        (.post, "channels", #"{"message_storage":"none"}"#), (.get, "channels/c", nil), (.delete, "channels/c", nil),
        (.post, "tokens/lookup", #"{"token":"t1"}"#),
        (.post, "tokens/import", #"{"tokens":["4f1c"],"application":"com.example.app"}"#),
        (.post, "messages/cancel", #"{"ids":["m1"]}"#),
    ]

    @Test("A backend that is unknown, of another app, not the key's, or unable is refused", arguments: calls)
    func guards(method: HTTPRequest.Method, path: String, body: String?) async throws {
        let unknown = try await send(method, "nothing/" + path, body)
        #expect(unknown.status == 404 && unknown.code == "not_found", "\(unknown.text)")
        let foreign = try await send(method, "android/" + path, body, as: "seller")
        #expect(foreign.status == 404 && foreign.code == "not_found", "\(foreign.text)")
        let app = path.contains("?") ? "&app=shop" : "?app=shop"
        #expect(try await send(method, "android/" + path + app, body).errors == ["#/backend other_app"])
        let notKeys = try await send(method, "android/" + path, body, as: "apple")
        #expect(notKeys.status == 404 && notKeys.code == "not_found")
        let unable = try await send(method, "ios/" + path, body)
        #expect(unable.status == 422 && unable.errors == ["#/backend unsupported"])
        let detail = unable.json["errors"]?.arrayValue?.first?["detail"]?.stringValue ?? ""
        #expect(detail.hasPrefix("The backend ios (apns) "), "\(detail)")
        #expect(detail.hasSuffix("; of those configured here: android, other."), "\(detail)")
        #expect(platform.calls.isEmpty)
    }

    @Test("A platform's failure decides the status of the answer", arguments: calls)
    func failures(method: HTTPRequest.Method, path: String, body: String?) async throws {
        try await register("a", #""android-firebase":"t1""#)
        let cases: [(PushError, Int, String)] = [
            (PushError(.rateLimited, "slow down", retryAfter: .seconds(30)), 503, "rate_limited"),
            (PushError(.unavailable, "busy"), 503, "backend_unavailable"),
            (PushError(.credentialsRefused, "no right", reason: "http_401"), 502, "credentials_refused"),
            (PushError(.badAnswer, "nonsense"), 502, "bad_answer"),
            (PushError(.invalidRequest, "no such name", reason: "BAD"), 422, "invalid_request"),
        ]
        for (error, status, code) in cases {
            platform.failure.withLock { $0 = error }
            let reply = try await send(method, "android/" + path, body)
            #expect(reply.status == status && reply.code == code, "\(error): \(reply.text)")
            #expect(reply.json["detail"]?.stringValue?.hasPrefix(error.message) == true)
            if status == 503 {
                #expect(reply.headers[.retryAfter] == (error.retryAfter == nil ? "5" : "30"))
            }
        }
    }

    // MARK: Topics

    @Test("A token that a list has twice is used once, and a warning counts the repeats")
    func repeatedTokens() async throws {
        let joined = try await send(.post, "android/topics/n/subscribe", #"{"tokens":["a","b","a","b"]}"#, as: "app")
        #expect(joined.status == 200 && joined.json["tokens"] == 2, "\(joined.text)")
        #expect(platform.members.withLock { $0["n"] } == ["android-firebase a", "android-firebase b"])
        let warnings = joined.json["warnings"]?.arrayValue ?? []
        #expect(warnings.count == 1 && warnings.first?["pointer"] == "#/tokens/2", "\(joined.text)")
        #expect(warnings.first?["code"] == "repeated_token")
        let list = #"{"tokens":["aa","aa"],"application":"com.example.app"}"#
        let imported = try await send(.post, "android/tokens/import", list)
        #expect(imported.status == 200, "\(imported.text)")
        #expect(imported.json["warnings"]?.arrayValue?.count == 1, "\(imported.text)")
        #expect(imported.json["imported"]?.arrayValue?.count == 1, "\(imported.text)")
    }

    @Test("Tokens of a request join a topic, each with its outcome")
    func topics() async throws {
        platform.dead.withLock { $0 = ["gone"] }
        let body =
            #"{"tokens":["t1",{"token":"gone","service":"ios-firebase"},{"token":"t2"}]}"#
        let reply = try await send(.post, "android/topics/my%20news/subscribe", body, as: "app")
        #expect(reply.status == 200, "\(reply.text)")
        #expect(platform.members.withLock { $0["my news"] } == ["android-firebase t1", "android-firebase t2"])
        #expect(reply.json["backend"] == "android" && reply.json["topic"] == "my news")
        #expect(reply.json["tokens"] == 3 && reply.json["done"] == 2 && reply.json["without_token"] == 0)
        let fingerprint = TokenFingerprint.of("gone")
        #expect(
            reply.json["refused"] == [
                [
                    "index": 1, "service": "ios-firebase", "fingerprint": .string(fingerprint), "reason": "NOT_FOUND",
                    "dead": true, "retryable": false,
                ]
            ]
        )
        let left = try await send(.post, "android/topics/my%20news/unsubscribe", #"{"tokens":["t1"]}"#)
        #expect(left.json["done"] == 1)
        #expect(platform.members.withLock { $0["my news"] } == ["android-firebase t2"])
    }

    @Test("Users with more devices than a request may have are refused, and not served in part")
    func tooManyDevices() async throws {
        let now = harness.time.now
        for part in 0..<11 {
            _ = try await harness.devices.put(
                (0..<1000).map { number in
                    // Half of them are of another service.
                    let service = number % 2 == 0 ? TokenService.androidFirebase : .iOSAPNs
                    let token = RegisteredToken(DeviceToken("\(part)-\(number)", service: service), registeredAt: now)
                    return Device(id: "d\(part)-\(number)", user: "crowd", tokens: [token], createdAt: now)
                }
            )
        }
        let reply = try await send(.post, "android/topics/news/subscribe", #"{"users":["crowd"]}"#)
        #expect(reply.status == 422 && reply.errors == ["#/users too_many_recipients"], "\(reply.text)")
        #expect(platform.members.withLock { $0["news"] } == nil)
    }

    @Test("Devices and users stand for their live tokens that the backend takes and has not refused")
    func registry() async throws {
        try await register("a", #""android-firebase":"t1","ios-apns":"apple""#)
        try await register("b", #""android-firebase":"t2","ios-firebase":"t3""#)
        try await register("c", #""ios-apns":"apple2""#)
        try await register("d", #""android-firebase":"t4""#, user: "sara")
        _ = try await harness.devices.record([
            TokenRefusal(
                DeviceToken("t2", service: .androidFirebase),
                asOf: harness.time.now,
                at: harness.time.now,
                backend: "android",
                reason: "SENDER_ID_MISMATCH",
                isCertain: false,
                alternatives: ["other"]
            )
        ])
        let reply = try await send(.post, "android/topics/news/subscribe", #"{"users":["ali","nobody"]}"#)
        #expect(reply.json["done"] == 2 && reply.json["without_token"] == 1, "\(reply.text)")
        #expect(platform.members.withLock { $0["news"] } == ["android-firebase t1", "ios-firebase t3"])
        platform.dead.withLock { $0 = ["t4"] }
        let one = try await send(.post, "android/topics/news/subscribe", #"{"devices":["a","d"]}"#)
        #expect(one.json["refused"]?.arrayValue?.first?["device"] == "d")
        #expect(one.json["refused"]?.arrayValue?.first?["index"] == 1)
        let shown = try await send(.get, "android/topics?device=b", as: "app")
        #expect(
            shown.json["tokens"] == [
                [
                    "service": "ios-firebase", "fingerprint": .string(TokenFingerprint.of("t3")), "known": true,
                    "topics": [["name": "news", "since": "2026-11-21"]],
                ]
            ],
            "\(shown.text)"
        )
        let found = try await send(.post, "android/topics/lookup", #"{"token":"t1"}"#, as: "app")
        #expect(found.json["topics"] == [["name": "news", "since": "2026-11-21"]])
        let unknown = try await send(.post, "android/topics/lookup", #"{"token":"t9"}"#, as: "app")
        #expect(unknown.json["known"] == false && unknown.json["topics"] == [])
        #expect(try await send(.get, "android/topics?device=nobody").status == 404)
        #expect(try await send(.get, "android/topics").code == "invalid_parameter")
    }

    @Test(
        "A wrong request names the field",
        arguments: [
            ("topics/n/subscribe", "{}", ["# audience_missing"]),
            ("topics/n/subscribe", #"{"tokens":["a"],"users":["b"]}"#, ["# audience_ambiguous"]),
            ("topics/n/subscribe", #"{"tokens":[]}"#, ["#/tokens audience_empty"]),
            ("topics/n/subscribe", #"{"tokens":["a",1,""]}"#, ["#/tokens/1 wrong_type", "#/tokens/2 empty"]),
            ("topics/n/subscribe", #"{"tokens":["bad"]}"#, ["#/tokens/0 malformed_token"]),
            (
                "topics/n/subscribe", #"{"tokens":[{"token":"a","service":"ios-apns"},{"service":"x"}]}"#,
                ["#/tokens/0/service wrong_service", "#/tokens/1/service unknown_service", "#/tokens/1/token missing"]
            ), ("topics/n/subscribe", #"{"devices":["nobody"]}"#, ["#/devices/0 unknown_device"]),
            ("topics/n/subscribe", #"{"users":["nobody"]}"#, ["#/users audience_empty"]),
            ("topics/n/subscribe", #"{"devices":[7],"x":1}"#, ["#/devices/0 wrong_type", "#/x unknown_field"]),
            ("topics/lookup", "{}", ["#/token missing"]), ("channels", "{}", ["#/message_storage missing"]),
            ("channels", #"{"message_storage":"all"}"#, ["#/message_storage unknown_storage"]),
            ("tokens/lookup", #"{"token":1}"#, ["#/token wrong_type"]),
            ("tokens/import", "{}", ["#/tokens missing", "#/application missing"]),
            (
                "tokens/import", #"{"tokens":["a"],"application":"b","environment":"unknown"}"#,
                ["#/environment unknown_environment"]
            ),
            (
                "tokens/import", #"{"tokens":[{"token":"a","service":"ios-firebase"}],"application":"b"}"#,
                ["#/tokens/0/service wrong_service"]
            ), ("messages/cancel", "{}", ["#/ids missing"]), ("messages/cancel", #"{"ids":[]}"#, ["#/ids empty"]),
            ("messages/cancel", #"{"ids":["a"],"user":"u"}"#, ["#/user unsupported"]),
        ]
    )
    func mistakes(path: String, body: String, errors: [String]) async throws {
        let reply = try await send(.post, "android/" + path, body)
        #expect(reply.status == 422)
        #expect(reply.errors.sorted() == errors.sorted(), "\(reply.text)")
        #expect(platform.calls.isEmpty)
    }

    @Test("More tokens than a request may name are refused; as many as it may are taken")
    func many() async throws {
        func body(_ count: Int) -> String {
            "{\"tokens\":[" + (0..<count).map { "\"token-\($0)\"" }.joined(separator: ",") + "]}"
        }
        let most = try await send(.post, "android/topics/n/subscribe", body(10_000))
        #expect(most.json["done"] == 10_000)
        let more = try await send(.post, "android/topics/n/subscribe", body(10_001))
        #expect(more.errors == ["#/tokens too_many_recipients"])
    }

    // MARK: Channels

    @Test("A channel is made, found at its address, listed and deleted")
    func channels() async throws {
        let made = try await send(.post, "android/channels", #"{"message_storage":"none"}"#)
        #expect(made.status == 201)
        let id = try #require(made.json["id"]?.stringValue)
        #expect(id.contains("/") && id.contains("="), "an id that must be encoded")
        let location = try #require(made.headers[.location])
        let shown = try await harness.send(.get, location, headers: APIHarness.bearer("sender"))
        #expect(shown.json == made.json)
        #expect(made.json == ["backend": "android", "id": .string(id), "message_storage": "none"])
        #expect(try await send(.get, "android/channels", as: "sender").json["channels"] == [.string(id)])
        #expect(try await send(.delete, "android/channels/x", as: "sender").status == 403)
        #expect(try await harness.send(.delete, location, headers: APIHarness.bearer("boss")).status == 204)
        for method in [HTTPRequest.Method.get, .delete] {
            #expect(try await harness.send(method, location, headers: APIHarness.bearer("boss")).status == 404)
        }
    }

    // MARK: Tokens

    @Test("A token is looked up, and tokens of another platform are imported")
    func tokens() async throws {
        let known = try await send(.post, "android/tokens/lookup", #"{"token":"t1","service":"ios-firebase"}"#)
        #expect(
            known.json == [
                "backend": "android", "known": true, "application": "com.example.app", "platform": "ANDROID",
                "topics": [],
            ]
        )
        let unknown = try await send(.post, "android/tokens/lookup", #"{"token":"nobody's"}"#)
        #expect(unknown.json == ["backend": "android", "known": false])
        #expect(try await send(.post, "android/tokens/lookup", #"{"token":"t1"}"#, as: "app").status == 403)
        platform.dead.withLock { $0 = ["bb"] }
        let reply = try await send(
            .post,
            "android/tokens/import",
            #"{"tokens":["aa","bb"],"application":"com.example.app","environment":"development"}"#
        )
        let imported = reply.json["imported"]?.arrayValue?.first
        #expect(imported?["index"] == 0 && imported?["imported_token"] == "new-aa-development", "\(reply.text)")
        #expect(imported?["imported_service"] == "ios-firebase")
        #expect(imported?["fingerprint"]?.stringValue == TokenFingerprint.of("aa"))
        #expect(reply.json["refused"]?.arrayValue?.first?["reason"] == "NOT_FOUND")
        #expect(reply.json["imported"]?.arrayValue?.count == 1 && reply.json["refused"]?.arrayValue?.count == 1)
    }

    // MARK: Messages

    @Test("Messages are cancelled by the platform's ids, and each is counted")
    func cancelled() async throws {
        let reply = try await send(.post, "android/messages/cancel", #"{"ids":["m1","late","m2"]}"#)
        let tally = reply.json["platform"]
        #expect(tally?["cancelled"] == 2 && tally?["too_late"] == 1 && tally?["failed"] == 0, "\(reply.text)")
        #expect(platform.calls.sorted() == ["cancel late", "cancel m1", "cancel m2"])
    }

    @Test("A platform that asks devices needs the user, and ids or all")
    func recalled() async throws {
        let recaller = RecallingPlatform()
        let harness = APIHarness(platforms: [("chabok", recaller)])
        func cancel(_ body: String) async throws -> APIHarness.Reply {
            try await harness.send(.post, "/v1/backends/chabok/messages/cancel", body)
        }
        #expect(try await cancel(#"{"user":"ali","ids":["m1","m2"]}"#).json["requested"] == true)
        #expect(try await cancel(#"{"user":"nobody","all":true}"#).json["requested"] == false)
        #expect(recaller.calls.withLock { $0 } == ["ali m1,m2", "nobody all"])
        for (body, errors) in [
            (#"{"ids":["m1"]}"#, ["#/user missing"]), (#"{"user":"ali"}"#, ["#/ids missing"]),
            (#"{"user":"ali","ids":["m1"],"all":true}"#, ["#/ids missing"]),
            (#"{"all":true}"#, ["#/user missing", "#/all needs_user"]),
        ] {
            #expect(try await cancel(body).errors == errors)
        }
    }

    private static func taken(_ id: String, by backend: String, at now: Date) -> [UInt8] {
        EventJSON.attempt(
            .accepted(Acceptance(platformID: id, status: 200)),
            backend: backend,
            at: now,
            retryAt: nil
        )
    }

    @Test("A notification is cancelled at its platforms on request, one call for each message")
    func cancelledAtPlatforms() async throws {
        let list = (0..<5).map { #"{"token":"t\#($0)","service":"android-firebase"}"# }.joined(separator: ",")
        let post = try await harness.post(
            #"{"to":{"tokens":[\#(list)]},"content":{"title":"x"},"app":"default"}"#,
            headers: APIHarness.bearer("boss")
        )
        #expect(post.status == 202, "\(post.text)")
        let id = try #require(harness.store.accepted.last?.id)
        for (place, message) in ["m1", "m1", "late", "m2"].enumerated() {
            harness.store.end(
                id.rawValue + Int64(place),
                place == 3 ? .delivered : .acceptedByPlatform,
                attempt: Self.taken(message, by: "android", at: harness.time.now)
            )
        }
        func cancel(_ query: String) async throws -> APIHarness.Reply {
            try await harness.send(
                .delete,
                "/v1/notifications/\(id)\(query)",
                headers: APIHarness.bearer("boss")
            )
        }
        let wrong = try await cancel("?platform=yes")
        #expect(wrong.status == 400 && platform.calls.isEmpty)
        let reply = try await cancel("?platform=true")
        #expect(reply.json["cancelled"] == 1 && reply.json["too_late"] == 4, "\(reply.text)")
        #expect(
            reply.json["platform"] == [
                "cancelled": 2, "requested": 0, "too_late": 2, "failed": 0, "unsupported": 0, "not_asked": 0,
                "errors": [],
            ]
        )
        #expect(platform.calls.sorted() == ["cancel late", "cancel m1"])
        platform.failure.withLock { $0 = PushError(.unavailable, "busy") }
        let failed = try await cancel("?platform=true").json["platform"]
        #expect(failed?["failed"] == 3 && failed?["errors"]?.arrayValue?.count == 2)
        #expect(failed?["errors"]?.arrayValue?.first?["backend"] == "android")
        #expect(try await cancel("").json["platform"] == nil, "platforms are asked on request only")
    }

    @Test("A user's devices are asked to take a notification away, also one that arrived")
    func recalledAtPlatforms() async throws {
        let recaller = RecallingPlatform()
        let harness = APIHarness(platforms: [("chabok", recaller)])
        let post = try await harness.post(
            #"{"to":{"users":["ali","sara"]},"content":{"title":"x"},"backend":"chabok"}"#
        )
        #expect(post.status == 202, "\(post.text)")
        let id = try #require(harness.store.accepted.last?.id)
        for (place, state) in [DeliveryState.delivered, .opened].enumerated() {
            harness.store.end(
                id.rawValue + Int64(place),
                state,
                attempt: Self.taken("m7", by: "chabok", at: harness.time.now)
            )
        }
        let reply = try await harness.send(.delete, "/v1/notifications/\(id)?platform=true")
        #expect(reply.json["platform"]?["requested"] == 1, "\(reply.text)")
        #expect(recaller.calls.withLock { $0 } == ["ali m7"], "who opened it has seen it")
    }

    @Test("Devices are asked by their tokens, many in a call, to give a message back; who opened it is not")
    func revokedAtPlatforms() async throws {
        let revoker = RevokingPlatform()
        let harness = APIHarness(platforms: [("huawei", revoker)])
        let put = try await harness.send(.put, "/v1/devices/d1", #"{"tokens":{"harmony-huawei":"now"}}"#)
        #expect(put.status == 201, "\(put.text)")
        let tokens = (0..<6).map { #"{"token":"t\#($0)","service":"harmony-huawei"}"# }.joined(separator: ",")
        for (to, count) in [(#""tokens":[\#(tokens)]"#, 6), (#""devices":["d1"]"#, 1)] {
            let post = try await harness.post(#"{"to":{\#(to)},"content":{"title":"x"}}"#)
            #expect(post.status == 202, "\(post.text)")
            let id = try #require(harness.store.accepted.last?.id)
            for place in 0..<count {
                // The fifth was never given an id to be taken back by.
                let acceptance = Acceptance(platformID: "r1", trackingID: place == 4 ? nil : "0/7", status: 200)
                harness.store.end(
                    id.rawValue + Int64(place),
                    [.delivered, .acceptedByPlatform, .opened][place == 5 ? 2 : place % 2],
                    attempt: EventJSON.attempt(
                        .accepted(acceptance),
                        backend: "huawei",
                        at: harness.time.now,
                        retryAt: nil,
                        service: count == 1 ? .harmonyHuawei : nil
                    )
                )
            }
            let reply = try await harness.send(.delete, "/v1/notifications/\(id)?platform=true")
            let expected: JSONValue = [
                "cancelled": 0, "requested": .integer(count == 1 ? 1 : 3), "too_late": .integer(count == 1 ? 0 : 1),
                "failed": 0, "unsupported": .integer(count == 1 ? 0 : 1), "not_asked": 0, "errors": [],
            ]
            #expect(reply.json["platform"] == expected, "\(reply.text)")
        }
        // Three tokens are the most in one call of this platform; it does not know the fourth.
        #expect(revoker.calls.withLock { $0.sorted() } == ["0/7 now", "0/7 t0,t1,t2", "0/7 t3"])
    }

    // MARK: Topics of notifications

    @Test("A topic needs a backend or a route where several backends have topics")
    func ambiguousTopic() async throws {
        let other = StubBackend(
            name: "huawei",
            kind: "hms",
            audience: BackendAudience(services: [.androidHuawei], forms: [.topic])
        )
        let harness = APIHarness(backends: [.ios, .android, other]) { configuration in
            configuration.routes = [
                GatewayConfiguration.Route(name: "google", platform: "android", plan: DeliveryPlan(["android"]))
            ]
        }
        func post(_ more: String) async throws -> APIHarness.Reply {
            try await harness.post(#"{"to":{"topic":"news"},"content":{"title":"x"}\#(more)}"#)
        }
        let refused = try await post("")
        #expect(refused.errors == ["#/to/topic backend_missing"], "\(refused.text)")
        #expect(refused.text.contains("android, huawei"))
        #expect(harness.store.accepted.isEmpty)
        for (more, backend) in [(#","backend":"huawei""#, "huawei"), (#","route":"google""#, "android")] {
            #expect(try await post(more).status == 202)
            #expect(harness.store.accepted.last?.plan.backends == [backend])
        }
        let single = APIHarness()
        let taken = try await single.post(#"{"to":{"topic":"news"},"content":{"title":"x"}}"#)
        #expect(taken.status == 202, "only one backend has topics")
    }
}

/// A platform that keeps topics, channels and tokens, and cancels messages.
final class KeepingPlatform: PushBackend, TopicManager, ChannelManager, TokenDirectory, MessageCanceller {
    let kind: BackendKind = "fcm"
    let audience = BackendAudience(services: [.androidFirebase, .iOSFirebase], forms: [.topic])
    let services: [TokenService] = [.androidFirebase, .iOSFirebase]
    let importedService = TokenService.iOSAPNs
    /// The failure of every call.
    let failure = Mutex<PushError?>(nil)
    /// Tokens that it calls dead.
    let dead = Mutex<Set<String>>([])
    /// The members of each topic.
    let members = Mutex<[String: [String]]>([:])
    private let kept = Mutex<[String: ChannelStorage]>([:])
    private let made = Mutex<[String]>([])

    /// The calls, in order.
    var calls: [String] { made.withLock { $0 } }

    var topics: (any TopicManager)? { self }
    var channels: (any ChannelManager)? { self }
    var tokenDirectory: (any TokenDirectory)? { self }
    var cancellation: (any MessageCanceller)? { self }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}

    func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        if token.value == "bad" { throw InvalidToken(token.service, "it is bad") }
        return token
    }

    private func call(_ words: String) throws(PushError) {
        made.withLock { $0.append(words) }
        if let error = failure.withLock({ $0 }) { throw error }
    }

    private func change(
        _ tokens: [DeviceToken],
        _ topic: String,
        _ body: (inout [String], String) -> Void
    ) -> [TokenOutcome] {
        tokens.map { token in
            if dead.withLock({ $0.contains(token.value) }) { return .dead("NOT_FOUND") }
            members.withLock { body(&$0[topic, default: []], "\(token.service) \(token.value)") }
            return .done
        }
    }

    func subscribe(_ tokens: [DeviceToken], to topic: String) async throws(PushError) -> [TokenOutcome] {
        try call("subscribe")
        return change(tokens, topic) { $0.append($1) }
    }

    func unsubscribe(_ tokens: [DeviceToken], from topic: String) async throws(PushError) -> [TokenOutcome] {
        try call("unsubscribe")
        return change(tokens, topic) { members, token in members.removeAll { $0 == token } }
    }

    func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]? {
        try call("topics")
        let names = members.withLock { $0.filter { $0.value.contains("\(token.service) \(token.value)") }.map(\.key) }
        return names.isEmpty ? nil : names.map { TopicMembership(name: $0, since: "2026-11-21") }
    }

    func create(storage: ChannelStorage) async throws(PushError) -> String {
        try call("create")
        kept.withLock { $0["a/b+c=="] = storage }
        return "a/b+c=="
    }

    func read(_ id: String) async throws(PushError) -> ChannelStorage? {
        try call("read")
        return kept.withLock { $0[id] }
    }

    func delete(_ id: String) async throws(PushError) -> Bool {
        try call("delete")
        return kept.withLock { $0.removeValue(forKey: id) != nil }
    }

    func list() async throws(PushError) -> [String] {
        try call("list")
        return kept.withLock { Array($0.keys) }
    }

    func details(of token: DeviceToken) async throws(PushError) -> TokenDetails? {
        try call("details")
        guard token.value.hasPrefix("t") else { return nil }
        return TokenDetails(application: "com.example.app", platform: "ANDROID")
    }

    func importTokens(
        _ tokens: [DeviceToken],
        application: String,
        environment: TokenEnvironment
    ) async -> [TokenImport] {
        tokens.map { token in
            do throws(PushError) { try call("import") } catch { return .failed(error) }
            if dead.withLock({ $0.contains(token.value) }) { return .refused("NOT_FOUND") }
            return .imported(DeviceToken("new-\(token.value)-\(environment.rawValue)", service: .iOSFirebase))
        }
    }

    func cancel(platformID: String) async throws(PushError) -> Bool {
        try call("cancel \(platformID)")
        return platformID != "late"
    }
}

/// A platform that asks devices to take messages away.
private final class RevokingPlatform: PushBackend, MessageRevoker {
    let kind: BackendKind = "hms"
    let audience = BackendAudience(services: [.harmonyHuawei])
    let services: [TokenService] = [.harmonyHuawei]
    let revocationLimit = 3
    let calls = Mutex<[String]>([])

    var revocation: (any MessageRevoker)? { self }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}

    func revoke(_ trackingID: String, from tokens: [DeviceToken]) async throws(PushError) -> Bool {
        calls.withLock { $0.append("\(trackingID) \(tokens.map(\.value).joined(separator: ","))") }
        return tokens.map(\.value) != ["t3"]
    }
}

/// A platform that asks the devices of a user to take messages away.
private final class RecallingPlatform: PushBackend, MessageRecaller {
    let kind: BackendKind = "chabok"
    let audience = BackendAudience(forms: [.user])
    let calls = Mutex<[String]>([])

    var recall: (any MessageRecaller)? { self }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}

    func recall(_ ids: [String]?, from user: String) async throws(PushError) -> Bool {
        calls.withLock { $0.append("\(user) \(ids?.joined(separator: ",") ?? "all")") }
        return user != "nobody"
    }
}
