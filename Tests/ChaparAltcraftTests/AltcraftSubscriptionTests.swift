import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAltcraft

/// Subscriptions, log-ins and questions over real sockets.
@Suite("Altcraft: subscriptions", .timeLimit(.minutes(1)))
struct AltcraftSubscriptionTests {
    static let ways: [(SubscriptionStatus, Int)] = [(.subscribed, 230), (.suspended, 230), (.unsubscribed, 230)]

    @Test("The three changes reach one endpoint, and the answer is the profile", arguments: ways)
    func changes(status: SubscriptionStatus, code: Int) async throws {
        try await Harness.run { harness in
            let id = UUID()
            let answer = try await harness.change(
                status,
                [
                    "profile_fields": ["_fname": ["action": "set", "value": "Ada"], "bonus": 5, "gone": nil],
                    "custom_fields": ["plan": "gold", "vip": true], "cats": [["name": "sport", "active": false]],
                    "skip_triggers": true,
                ],
                .sample(attributes: [
                    "os_version": "18.6.2", "model": "iPhone14,7", "time_zone": "Asia/Tehran", "ad_track": false,
                ]),
                OutboxAttempt(id: id, at: harness.time.now)
            )
            #expect(answer.httpCode == 200 && answer.status == status)
            let profile = try #require(harness.ada())
            let entry = try #require(profile.subscriptions.first)
            #expect(entry.status == status.rawValue && entry.token == apnsToken && entry.provider == "ios-apns")
            #expect(entry.categories == ["sport": false] && entry.skipsTriggers)
            #expect(
                entry.fields == [
                    "_os": "IOS", "_os_ver": "18.6.2", "_os_tz": "+0330", "_os_language": "ru",
                    "_device_model": "iPhone14,7",
                    "_ad_track": false, "plan": "gold", "vip": true,
                ]
            )
            #expect(profile.fields == ["_fname": "Ada", "bonus": 5])
            #expect(harness.codes == [201, code])
            #expect(harness.simulator.requestIDs == [id.uuidString.lowercased(): 1])
        }
    }

    @Test("Without options arrays and flags are there all the same; app info lies between device and custom fields")
    func defaults() async throws {
        try await Harness.run(adjust: { $0.appInfo = AppInfo(appID: "a", appIID: "i", appVer: "1") }) { harness in
            try await harness.change(.subscribed, [:], .sample(attributes: ["app_version": "2", "_bad": ["x": 1]]))
            let entry = try #require(harness.ada()?.subscriptions.first)
            #expect(!entry.skipsTriggers && entry.categories.isEmpty)
            let fields = entry.fields
            #expect(fields["_app_id"] == "a" && fields["_app_ver"] == "2" && fields["_device_type"] == nil)
        }
    }

    @Test("sync=false is acknowledged without a profile, and has its effect later")
    func asynchronous() async throws {
        var rules = AltcraftSimulator.Rules()
        rules.processingDelay = .seconds(5)
        try await Harness.run(rules) { harness in
            let answer = try await harness.change(.subscribed, ["sync": false])
            #expect(answer.httpCode == 202 && answer.response?.profile == nil && harness.codes.last == 230)
            #expect(harness.ada() == nil)
            harness.time.advance(by: .seconds(6))
            #expect(harness.ada()?.subscriptions.first?.status == "subscribed")
        }
    }

    @Test("replace unsubscribes the other profiles that have the token")
    func replaces() async throws {
        try await Harness.run { harness in
            try await harness.change(.subscribed)
            try await harness.change(.subscribed, [:], .sample(user: "bob"))
            #expect(harness.ada()?.subscriptions[0].status == "subscribed")
            try await harness.change(.subscribed, ["replace": true], .sample(user: "bob"))
            #expect(harness.ada()?.subscriptions[0].status == "unsubscribed")
        }
    }

    static let platformRefusals: [(JSONObject, String)] = [
        (["profile_fields": ["nope": 1]], "with field \"nope\": Incorrect field"),
        (["custom_fields": ["nope": 1]], "field \"nope\" is not valid: failed convert custom field"),
        (["cats": [["name": "chess"]]], "category not found in resource"),
    ]

    @Test("A refusal that only the platform can know keeps its text and is not repeated", arguments: platformRefusals)
    func platformRefuses(options: JSONObject, words: String) async throws {
        try await Harness.run { harness in
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed, options)
            }
            #expect(error?.code == .invalidRequest && error?.reason == "430")
            #expect(error?.message.contains(words) == true)
            #expect(
                error?.message.hasPrefix("request: push/subscribe, http code: 400, error: 400, errorText: ") == true
            )
            let event = try #require(harness.events.all.last)
            #expect(event.level == .error && event.value?["response_with_http_code"]?["http_code"] == 400)
            #expect(harness.simulator.profiles.isEmpty && harness.simulator.counters.requests == 1)
        }
    }

    static let badOptions: [(JSONObject, String, String)] = [
        (["sync": "yes"], "#/options/sync", "true or false"), (["replace": 1], "#/options/replace", "true or false"),
        (["profile_fields": [1]], "#/options/profile_fields", "474"),
        (["profile_fields": ["a": ["action": "grow"]]], "#/options/profile_fields/a", "action must be"),
        (["custom_fields": ["a": ["b": 1]]], "#/options/custom_fields/a", "an object"),
        (["custom_fields": ["a": [1]]], "#/options/custom_fields/a", "475"),
        (["custom_fields": "x"], "#/options/custom_fields", "475"), (["cats": "sport"], "#/options/cats", "list"),
        (["cats": ["sport"]], "#/options/cats/0", "object"),
        (["cats": [["name": ""]]], "#/options/cats/0/name", "not empty"),
        (["cats": [["name": "a", "active": 1]]], "#/options/cats/0/active", "true or false"),
        (["cats": [["name": "a", "x": 1]]], "#/options/cats/0/x", "name and active"),
        (["profil_fields": [:]], "#/options/profil_fields", "Options: sync"),
    ]

    @Test("Options that cannot be are named with pointer and fix, and nothing is sent or kept", arguments: badOptions)
    func refusesOptions(options: JSONObject, pointer: String, words: String) async throws {
        try await Harness.run { harness in
            let change = SubscriptionChange(.subscribed, options: options)
            let issues = harness.mobile.issues(in: change, of: .sample())
            #expect(issues.map(\.pointer) == [pointer] && issues[0].detail.contains(words))
            let before = harness.state.values
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed, options)
            }
            #expect(error?.code == .invalidRequest)
            #expect(harness.simulator.counters.requests == 0 && harness.state.values == before)
            #expect(harness.events.all.map(\.level) == [.error])
        }
    }

    // MARK: Failures

    static let answers: [(Int, PushError.Code, AltcraftEvent.Level, Int)] = [
        (500, .unavailable, .retry, 530), (503, .unavailable, .retry, 530), (599, .unavailable, .retry, 530),
        (400, .invalidRequest, .error, 430), (404, .invalidRequest, .error, 430), (408, .invalidRequest, .error, 430),
        (429, .invalidRequest, .error, 430), (301, .invalidRequest, .error, 430), (403, .invalidRequest, .error, 430),
    ]

    @Test("Only 5xx and silence are worth another try", arguments: answers)
    func failures(status: Int, code: PushError.Code, level: AltcraftEvent.Level, number: Int) async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(.answer(FaultAnswer(status, "busy")))])
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(error?.code == code && error?.reason == "\(number)")
            #expect(harness.events.all.last?.level == level && harness.codes.last == number)
            #expect(harness.simulator.counters.requests == 1, "the backend repeats nothing itself")
            let record = try await harness.mobile.tokens.store.load("d-1")
            #expect(record == AltcraftRecord(), "nothing is kept")
        }
    }

    @Test("A lost connection is silence (500), odd bodies count by their status")
    func silence() async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .end(.reset))])
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(error?.code == .unavailable && error?.reason == "500")
            #expect(harness.events.all.last?.level == .retry && harness.events.all.last?.value == nil)
            harness.simulator.add([FaultRule(at: .processed, match: FaultMatch(count: 1), .distort(.emptyBody))])
            let empty = try await harness.change(.subscribed)
            #expect(empty.httpCode == 200 && empty.response == nil)
            harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(.htmlPage))])
            let page = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(page?.code == .unavailable && page?.message.contains("<html>") == false)
        }
    }

    @Test("429 is tried again when the options say so; 200 with an error number is a refusal")
    func widened() async throws {
        try await Harness.run(adjust: { $0.alsoRetried = [429] }) { harness in
            harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(429, retryAfter: 7)))])
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(error?.code == .unavailable && error?.retryAfter == .seconds(7))
            let body = Array(#"{"error":402,"error_text":"tariff"}"#.utf8)
            harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(200, body: body)))])
            let second = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(second?.code == .invalidRequest && second?.message.contains("tariff") == true)
        }
    }

    @Test("After the sixteenth try it is given up with an event, not in silence")
    func dropped() async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(.answer(FaultAnswer(503)))])
            let policy = harness.backend.operationPolicy
            #expect(policy.maximumAttempts == 16 && policy.sweep == .seconds(10_800) && !policy.honoursRetryAfter)
            #expect(policy.delays.map(\.inSeconds) == [1, 5.5, 30.25, 166.375, 915.063, 5032.844])
            #expect(
                policy.pause(after: 15, wish: nil, chance: 0) != nil
                    && policy.pause(after: 16, wish: nil, chance: 0) == nil
            )
            for (number, expected) in [(15, [201, 530]), (16, [201, 530, 530, 480])] {
                let attempt = OutboxAttempt(at: harness.time.now, number: number)
                _ = await failure { () async throws(PushError) in
                    _ = try await harness.change(.subscribed, [:], .sample(), attempt)
                }
                #expect(harness.codes == expected)
            }
            _ = await failure { () async throws(PushError) in
                _ = try await harness.mobile.report(
                    .opened,
                    uid: "m",
                    of: .sample(),
                    as: .init(at: harness.time.now, number: 16)
                )
            }
            #expect(harness.codes.suffix(2) == [532, 484])
        }
    }

    @Test("A redirect is followed on the same host with method, body and credential; elsewhere it is a refusal")
    func redirects() async throws {
        let path = AltcraftDeskTests.self
        #expect(path.sameHost("/x?y=1") == "/x?y=1" && path.sameHost("https://a.test/x") == "/x")
        for other in [
            "https://b.test/x", "//b.test/x", "http://a.test/x", "https://a.test.evil/x", "https://u@a.test/x",
        ] {
            #expect(path.sameHost(other) == nil)
        }
        for (location, isFollowed) in [("/moved/here?x=1", true), ("https://pxl.test/moved/here?x=1", true)]
            + ["https://other.test/x", "//other.test/x", "http://pxl.test/x"].map({ ($0, false) })
        {
            let http = ScriptedTransport { sent in
                guard !sent.path.hasPrefix("/moved/") else { return .success(HTTPAnswer(status: 200)) }
                return .success(HTTPAnswer(status: 307, headers: [HTTPHeader("location", location)]))
            }
            let backend = try AltcraftBackend(
                options: AltcraftOptions(base: HTTPBaseURL(HTTPEndpoint(host: "pxl.test"))),
                auth: AltcraftAuth(rToken: Secret("role")),
                context: BackendContext(name: "crm", http: http, logger: quiet)
            )
            let error = await failure { () async throws(PushError) in
                _ = try await backend.mobile.report(.opened, uid: "m", of: .sample(), as: OutboxAttempt(at: Date()))
            }
            #expect((error == nil) == isFollowed && http.calls.count == (isFollowed ? 2 : 1), "\(location)")
            #expect(Set(http.calls.map { "\($0.method) \($0.endpoint.host) \($0.text)" }).count == 1)
            #expect(http.calls.allSatisfy { $0.header("authorization") == "Bearer rtoken@role" })
            #expect(Set(http.calls.map { $0.header("request-id") }).count == 1)
            if isFollowed { #expect(http.calls.last?.path == "/moved/here?x=1") }
        }
    }

    // MARK: Credentials

    @Test("Without a JWT nothing is sent, and the events say why")
    func noJWT() async throws {
        try await Harness.run(source: AltcraftClosureTokens { _ in nil }) { harness in
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(error?.code == .unavailable && error?.reason == "540", "the operation waits")
            #expect(harness.codes == [201, 540, 543, 503])
            _ = await failure { () async throws(PushError) in _ = try await harness.mobile.unsuspend(.sample()) }
            #expect(harness.codes.suffix(3) == [540, 543, 423])
            _ = await failure { () async throws(PushError) in
                _ = try await harness.mobile.status(.latest, of: .sample())
            }
            #expect(harness.codes.suffix(3) == [540, 543, 424])
            #expect(harness.simulator.counters.requests == 0)
        }
    }

    @Test("A refused JWT is asked for once more, and sent again only when it is another")
    func refusedJWT() async throws {
        let count = Mutex(0)
        let source = AltcraftClosureTokens { identity in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number == 1
                ? AltcraftAuthTests.jwt(["matching": ["db_id": 99, "matching": "email", "email": "a"]])
                : AltcraftAuthTests.jwt(["matching": ["db_id": 12, "matching": "email", "email": "a"]])
        }
        try await Harness.run(source: source) { harness in
            try await harness.change(.subscribed)
            #expect(harness.simulator.profile("email a", in: 12) != nil && harness.simulator.counters.requests == 2)
            harness.simulator.rules.databases = []
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(error?.code == .invalidRequest && harness.simulator.counters.requests == 3, "the same JWT again")
        }
    }

    @Test("A role token finds profiles by the push token; a refused one is the account's fault")
    func roleToken() async throws {
        try await Harness.run(rToken: "sandbox-role") { harness in
            try await harness.change(.subscribed)
            #expect(harness.simulator.profiles.map(\.databaseID) == [10] && harness.simulator.profiles[0].key == nil)
            harness.simulator.rules.roles = [:]
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.suspended) }
            #expect(error?.code == .credentialsRefused && harness.simulator.counters.requests == 2)
            #expect(error?.message.contains("sandbox-role") == false)
        }
    }

    @Test("Tokens and credentials are in no event, notice or error")
    func secrets() async throws {
        try await Harness.run { harness in
            try await harness.change(.subscribed)
            let report = try await harness.mobile.report(.current, of: .sample())
            let body = Array(#"{"error":400,"error_text":"no \#(apnsToken) here"}"#.utf8)
            harness.simulator.add([FaultRule(.answer(FaultAnswer(400, body: body)))])
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            let texts =
                harness.events.all.map { "\($0.message ?? "") \($0.value.map { JSONValue.object($0).text } ?? "")" }
                + harness.notices.all.map { "\($0.message) \(JSONValue.object($0.detail).text)" }
                + [error?.description ?? "", JSONValue.object(report.detail).text]
            for text in texts { #expect(!text.contains(apnsToken) && !text.contains("Bearer")) }
            #expect(texts.joined().contains("9f3c0a…5a34"))
            #expect(harness.notices.all.count == harness.events.all.count)
        }
    }

    @Test("A device that does not allow notifications is not subscribed, but may leave")
    func permission() async throws {
        try await Harness.run { harness in
            let device = DeviceRecord.sample(attributes: ["notifications_allowed": false])
            let error = await failure { () async throws(PushError) in
                _ = try await harness.change(.subscribed, [:], device)
            }
            #expect(error?.reason == "504" && harness.codes == [504] && harness.simulator.counters.requests == 0)
            try await harness.change(.unsubscribed, [:], device)
            #expect(harness.ada()?.subscriptions.first?.status == "unsubscribed")
        }
    }

    // MARK: Log-in, log-out, questions

    @Test("Two databases, two identities: the whole story of a log-in and a log-out")
    func story() async throws {
        try await Harness.run { harness in
            let anonymous = DeviceRecord.sample(user: nil)
            let ada = DeviceRecord.sample(user: "ada")
            func states() -> [String?] {
                [
                    harness.simulator.profile("custom device_id/d-1", in: 11)?.subscriptions.first?.status,
                    harness.ada()?.subscriptions.first?.status,
                ]
            }
            try await harness.change(.subscribed, [:], anonymous)
            #expect(states() == ["subscribed", nil])
            let first = try #require(try await harness.mobile.resume(ada))
            #expect(first.status == nil && states() == ["suspended", nil], "a subscription is still to be made")
            try await harness.change(.subscribed, [:], ada)
            #expect(states() == ["suspended", "subscribed"])
            #expect(try await harness.mobile.resume(anonymous)?.status == .subscribed)
            #expect(states() == ["subscribed", "suspended"], "logged out without another subscription")
            #expect(try await harness.mobile.resume(ada)?.status == .subscribed)
            #expect(states() == ["suspended", "subscribed"])
            #expect(harness.simulator.profiles.count == 2)
            #expect(harness.codes.filter { $0 == 233 }.count == 3)
        }
    }

    @Test("A log-in is asked once: a failure is told and not repeated", arguments: [503, 400])
    func resumeFails(status: Int) async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(.answer(FaultAnswer(status)))])
            let error = await failure { () async throws(PushError) in _ = try await harness.mobile.resume(.sample()) }
            #expect(error?.reason == "433" && harness.codes == [201, 433] && harness.simulator.counters.requests == 1)
            #expect(harness.events.all.last?.level == (status == 503 ? .retry : .error))
        }
    }

    @Test("The three questions differ in what they name")
    func questions() async throws {
        try await Harness.run { harness in
            #expect(try await harness.mobile.report(.latest, of: .sample()).status == nil, "nothing is known yet")
            try await harness.change(.subscribed)
            let both = DeviceRecord.sample("d-2", tokens: [DeviceToken(fcmToken, service: .iOSFirebase)])
            try await harness.change(.suspended, [:], both)
            #expect(try await harness.mobile.report(.latest, of: .sample()).status == .suspended)
            #expect(try await harness.mobile.report(.latestOf(nil), of: .sample()).status == .subscribed)
            #expect(try await harness.mobile.report(.latestOf(.iOSFirebase), of: .sample()).status == .suspended)
            #expect(try await harness.mobile.report(.latestOf(.iOSHuawei), of: .sample()).status == nil)
            #expect(try await harness.mobile.report(.current, of: both).status == .suspended)
            #expect(try await harness.mobile.status(of: .sample()) == .subscribed)
            #expect(harness.codes.filter { $0 == 234 }.count == 7)
            let wrong = TokenService(rawValue: "ios-amazon")
            let error = await failure { () async throws(PushError) in
                _ = try await harness.mobile.report(.latestOf(wrong), of: .sample())
            }
            #expect(error?.reason == "473" && harness.codes.last == 473)
            let bare = await failure { () async throws(PushError) in
                _ = try await harness.mobile.report(.current, of: .sample("d-3", tokens: []))
            }
            #expect(bare?.reason == "424")
        }
    }

    @Test("The numbers of today's SDK are there when asked for")
    func renumbered() async throws {
        try await Harness.run(adjust: { $0.eventCodes = .current }) { harness in
            try await harness.change(.suspended)
            _ = try await harness.mobile.resume(.sample())
            _ = try await harness.mobile.report(.latest, of: .sample())
            #expect(harness.codes == [201, 231, 234, 235])
        }
    }
}

/// Decisions of the client without a platform.
enum AltcraftDeskTests {
    static func sameHost(_ location: String) -> String? {
        AltcraftClient.path(location, on: HTTPEndpoint(host: "a.test"))
    }
}
