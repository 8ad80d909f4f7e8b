import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAltcraft

/// Tokens, profile fields, events and campaigns over real sockets.
@Suite("Altcraft: devices and events", .timeLimit(.minutes(1)))
struct AltcraftDeviceTests {
    private static let both = [DeviceToken(apnsToken, service: .iOSAPNs), DeviceToken(fcmToken, service: .iOSFirebase)]

    @Test("A device without a subscription is registered without a request; a new token moves the subscription once")
    func updates() async throws {
        try await Harness.run { harness in
            let id = try await harness.mobile.register(.sample())
            #expect(id == "9f3c0a…5a34" && harness.simulator.counters.requests == 0)
            try await harness.change(.subscribed)
            _ = try await harness.mobile.register(.sample())
            #expect(harness.simulator.counters.requests == 1, "nothing to do")
            let moved = DeviceRecord.sample(tokens: [DeviceToken(fcmToken, service: .iOSFirebase)])
            harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(503)))])
            let error = await failure { () async throws(PushError) in _ = try await harness.mobile.register(moved) }
            #expect(error?.reason == "531" && harness.ada()?.subscriptions[0].token == apnsToken)
            _ = try await harness.mobile.register(moved)
            _ = try await harness.mobile.register(moved)
            #expect(harness.ada()?.subscriptions.map(\.token) == [fcmToken])
            #expect(harness.ada()?.subscriptions.map(\.provider) == ["ios-firebase"])
            #expect(harness.codes.filter { $0 == 231 }.count == 1 && harness.codes.filter { $0 == 201 }.count == 2)
        }
    }

    @Test("A dead token leaves the subscription to the next service, and a changed order moves it while running")
    func priority() async throws {
        try await Harness.run { harness in
            try await harness.change(.subscribed, [:], .sample(tokens: Self.both))
            #expect(harness.ada()?.subscriptions[0].provider == "ios-apns")
            let stamp = harness.mobile.stamp
            try harness.mobile.setProviderPriority(["IOS-Firebase", "ios-apns"])
            #expect(harness.mobile.stamp != stamp, "a gateway registers every device again")
            _ = try await harness.mobile.register(.sample(tokens: Self.both))
            #expect(harness.ada()?.subscriptions.map(\.provider) == ["ios-firebase"])
            _ = try await harness.mobile.register(.sample(tokens: [Self.both[0]]))
            #expect(harness.ada()?.subscriptions.map(\.provider) == ["ios-apns"])
            #expect(throws: PushError.self) { try harness.mobile.setProviderPriority(["ios-amazon"]) }
            #expect(harness.codes.last == 473 && harness.mobile.providerPriority == [.iOSFirebase, .iOSAPNs])
        }
    }

    @Test("A list of one service uses that service only")
    func single() async throws {
        try await Harness.run(adjust: { $0.providerPriority = [.iOSHuawei] }) { harness in
            #expect(!harness.mobile.accepts(.sample(tokens: Self.both)))
            let token = try await harness.mobile.pushToken(of: .sample(tokens: Self.both))
            #expect(token == nil)
            let error = await failure { () async throws(PushError) in _ = try await harness.mobile.register(.sample()) }
            #expect(error?.reason == "502" && harness.codes == [502])
            let change = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(change?.reason == "520" && change?.code == .unavailable)
        }
    }

    @Test("A token set by hand goes before the registry's, as text or as bytes, until it is forgotten")
    func manual() async throws {
        try await Harness.run { harness in
            try await harness.mobile.setPushToken([0x0A, 0xFF], provider: "IOS-Huawei", of: "d-1")
            #expect(
                try await harness.mobile.pushToken(of: .sample()) == TokenData(provider: "ios-huawei", token: "0aff")
            )
            try await harness.mobile.setPushToken("", provider: "ios-apns", of: "d-1")
            #expect(try await harness.mobile.pushToken(of: .sample())?.token == "0aff", "nothing changes nothing")
            let error = await failure { () async throws(PushError) in
                try await harness.mobile.setPushToken("x", provider: "amazon", of: "d-1")
            }
            #expect(error?.reason == "473")
            try await harness.backend.forget(device: "d-1")
            #expect(try await harness.mobile.pushToken(of: .sample())?.token == apnsToken)
            #expect(harness.codes.contains(205))
        }
    }

    @Test("With a role token the update goes before the subscription, which waits for it")
    func updateFirst() async throws {
        try await Harness.run(rToken: "sandbox-role") { harness in
            try await harness.change(.subscribed)
            let moved = DeviceRecord.sample(tokens: [DeviceToken(fcmToken, service: .iOSFirebase)])
            let path = "/subscription/push/update/"
            harness.simulator.add([FaultRule(match: FaultMatch(pathPrefix: path, count: 2), .answer(FaultAnswer(400)))])
            let error = await failure { () async throws(PushError) in
                _ = try await harness.change(.suspended, [:], moved)
            }
            #expect(error?.reason == "431" && harness.simulator.profiles[0].subscriptions[0].status == "subscribed")
            harness.simulator.removeFaults()
            try await harness.change(.suspended, [:], moved)
            #expect(harness.simulator.profiles.count == 1)
            #expect(harness.simulator.profiles[0].subscriptions.map(\.token) == [fcmToken])
            #expect(harness.simulator.profiles[0].subscriptions[0].status == "suspended")
        }
    }

    static let removals: [(AltcraftOptions.Removal, String)] = [
        (.suspend, "suspended"), (.unsubscribe, "unsubscribed"), (.nothing, "subscribed"),
    ]

    @Test("A device that goes leaves its subscription as the options say", arguments: removals)
    func removes(removal: AltcraftOptions.Removal, status: String) async throws {
        try await Harness.run(adjust: { $0.removal = removal }) { harness in
            try await harness.change(.subscribed)
            try await harness.mobile.remove(.sample(tokens: []))
            #expect(harness.ada()?.subscriptions[0].status == status)
            let requests = harness.simulator.counters.requests
            try await harness.mobile.remove(.sample())
            #expect(harness.simulator.counters.requests == requests, "unknown is no error, and no request")
        }
    }

    @Test("Clearing forgets one device or all, sends nothing, and outlives a restart")
    func clears() async throws {
        let state = MemoryState()
        try await Harness.run(state: state) { harness in
            try await harness.change(.subscribed)
            try await harness.change(.subscribed, [:], .sample("d-2", user: "bob"))
            let requests = harness.simulator.counters.requests
            try await harness.backend.forget(device: "d-1")
            #expect(try await harness.mobile.tokens.store.load("d-1").saved == nil)
            #expect(try await harness.mobile.tokens.store.load("d-2").saved != nil)
            try await harness.backend.forget(device: nil)
            #expect(try await harness.mobile.tokens.store.load("d-2").saved == nil)
            #expect(harness.simulator.counters.requests == requests)
        }
        try await Harness.run(state: state) { harness in
            let record = try await harness.mobile.tokens.store.load("d-2")
            #expect(record == AltcraftRecord())
            state.fails = true
            let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
            #expect(error?.code == .unavailable && error?.reason == "store_failed")
            #expect(harness.simulator.counters.requests == 0)
        }
    }

    // MARK: Profiles

    @Test(
        "Tags are profile fields, changed by functional fields; null removes; an unknown field is the platform's refusal"
    )
    func profileFields() async throws {
        try await Harness.run(adjust: { $0.updatesProfiles = true }) { harness in
            let tags = try #require(harness.backend.tags)
            try await tags.setTags(["bonus": 10, "plan": "gold", "interests": ["a", "b"]], of: .sample())
            let field = AltcraftFields.self
            let changes = field.mergeFields(
                field.actionField(key: "bonus").incr(5),
                field.actionField(key: "interests").delete(["a"]),
                field.actionField(key: "address").upsert("Kazan", submatch: "city"),
                ["plan": nil]
            )
            try await tags.setTags(changes, of: .sample())
            #expect(
                harness.ada()?.fields == ["bonus": 15, "interests": ["b"], "address": ["city": "Kazan"]]
            )
            let error = await failure { () async throws(PushError) in try await tags.setTags(["x": 1], of: .sample()) }
            #expect(error?.code == .invalidRequest && harness.codes == [238, 238, 438])
            #expect(tags.issues(in: ["a": ["action": "incr", "value": "x"]], of: .sample()).map(\.pointer) == ["#/a"])
        }
        try await Harness.run { harness in #expect(harness.backend.tags == nil, "only when the options say so") }
    }

    // MARK: Events

    @Test(
        "A delivery and an opening go with the message's bare id and the time they happened",
        arguments: PushEvent.allCases
    )
    func events(event: PushEvent) async throws {
        try await Harness.run { harness in
            let reporter = try #require(harness.backend.events)
            let uid = try #require(try reporter.platformID(in: AltcraftModelTests.apple))
            let at = harness.time.now.addingTimeInterval(-60)
            let attempt = OutboxAttempt(at: at)
            for _ in 0..<2 {
                _ = try await reporter.report(event, platformID: uid, device: .sample(tokens: []), as: attempt)
            }
            let seen = try #require(harness.simulator.events.first)
            #expect(seen.smid == "m-7f31c0" && seen.type == event.altcraftName && seen.count == 2)
            #expect(seen.time == Int64(at.timeIntervalSince1970))
            #expect(harness.simulator.requestIDs == [attempt.id.uuidString.lowercased(): 2])
            let told = try #require(harness.events.all.last)
            #expect(
                told.eventCode == 232 && told.value?["uid"] == "m-7f31c0"
                    && told.value?["type"] == .string(event.altcraftName)
            )
            #expect(told.message == "successful request: event/push. Type: \(event.altcraftName)")
        }
    }

    @Test("A payload that is not Altcraft's is ignored, one without an id is code 451")
    func payloads() async throws {
        try await Harness.run { harness in
            let other = try harness.mobile.platformID(in: ["aps": [:]])
            #expect(other == nil && harness.codes.isEmpty)
            #expect(throws: PushError.self) { try harness.mobile.platformID(in: ["_ac_push": nil]) }
            #expect(harness.codes == [451])
        }
    }

    static let refusals: [(AltcraftAction, refused: Int, failed: Int)] = [
        (.subscribe, 430, 530), (.update, 431, 531), (.event, 432, 532), (.unsuspend, 433, 433), (.status, 434, 434),
        (.profile, 438, 538), (.mobile, 437, 537),
    ]

    @Test(
        "A refusal and a failure of each request have their own numbers; only a failure may be retried",
        arguments: refusals
    )
    func numbers(action: AltcraftAction, refused: Int, failed: Int) async throws {
        try await Harness.run { harness in
            try await harness.change(.subscribed)
            let moved = DeviceRecord.sample(tokens: [DeviceToken(fcmToken, service: .iOSFirebase)])
            let attempt = OutboxAttempt(at: harness.time.now)
            for (status, number) in [(400, refused), (503, failed)] {
                harness.simulator.removeFaults()
                harness.simulator.add([FaultRule(.answer(FaultAnswer(status, "no")))])
                let error = await failure { () async throws(PushError) in
                    switch action {
                    case .update: _ = try await harness.mobile.updateToken(of: moved, as: attempt)
                    case .event: _ = try await harness.mobile.report(.opened, uid: "m", of: .sample(), as: attempt)
                    case .unsuspend: _ = try await harness.mobile.unsuspend(.sample())
                    case .status: _ = try await harness.mobile.status(.latest, of: .sample())
                    case .profile: _ = try await harness.mobile.updateProfile(["city": "x"], of: .sample(), as: attempt)
                    case .mobile:
                        let event = CustomEvent("buy", options: ["pixel": "sandbox-pixel"])
                        _ = try await harness.mobile.report(custom: event, of: .sample(), as: attempt)
                    case .subscribe, .suspend, .unsubscribe: try await harness.change(.subscribed)
                    }
                }
                #expect(error?.reason == "\(number)" && harness.codes.last == number)
                #expect(error?.code == (status == 503 ? .unavailable : .invalidRequest))
                #expect(harness.events.all.last?.level == (status == 503 ? .retry : .error))
                let told = harness.events.all.last?.value?["response_with_http_code"]
                #expect(told?["http_code"]?.integerValue == Int64(status), "the answer is in the event")
            }
            let saved = try await harness.mobile.tokens.store.load("d-1").saved
            #expect(saved?.value == apnsToken, "only a success moves the saved token")
        }
    }

    static let failures: [(HTTPFailure.Cause, PushError.Code, Int)] = [
        (.badAnswer, .badAnswer, 572), (.connectionLost, .unavailable, 500), (.deadline, .unavailable, 500),
        (.invalidCall, .invalidRequest, 561),
    ]

    @Test(
        "An invalid HTTP answer, no answer and a request that cannot be made have different numbers",
        arguments: failures
    )
    func noAnswer(cause: HTTPFailure.Cause, code: PushError.Code, number: Int) async throws {
        let http = ScriptedTransport { _ in .failure(HTTPFailure(.unknown, cause, "as the test wants")) }
        let events = Recorder<AltcraftEvent>()
        let backend = try AltcraftBackend(
            options: AltcraftOptions(base: HTTPBaseURL(HTTPEndpoint(host: "pxl.test"))),
            auth: AltcraftAuth(rToken: Secret("role")),
            context: BackendContext(
                name: "crm",
                http: http,
                time: InstantTime(Date(timeIntervalSince1970: 1_760_000_000)),
                logger: quiet
            )
        ) { events.add($0) }
        let error = await failure { () async throws(PushError) in
            _ = try await backend.mobile.report(
                .opened,
                uid: "m",
                of: .sample(),
                as: OutboxAttempt(at: Date(timeIntervalSince1970: 1_760_000_000))
            )
        }
        #expect(error?.code == code && error?.reason == "\(number)" && events.all.last?.eventCode == number)
        #expect(http.calls.map(\.path) == ["/event/push/open?matching_mode=push_sub"])
    }

    @Test("A move that Altcraft refused is not asked for again with every subscription, until there is another token")
    func refusedMove() async throws {
        try await Harness.run { harness in
            try await harness.change(.subscribed)
            let moved = DeviceRecord.sample(tokens: [DeviceToken(fcmToken, service: .iOSFirebase)])
            func updates() -> Int { harness.codes.filter { $0 == 231 || $0 == 431 }.count }
            harness.simulator.add([
                FaultRule(
                    match: FaultMatch(pathPrefix: "/subscription/push/update", count: 1),
                    .answer(FaultAnswer(400))
                )
            ])
            // The subscription itself goes on: a JWT finds the profile without the old token.
            harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(503)))])
            _ = await failure { () async throws(PushError) in _ = try await harness.change(.suspended, [:], moved) }
            #expect(updates() == 1)
            try await harness.change(.suspended, [:], moved)
            try await harness.change(.subscribed, [:], moved)
            #expect(updates() == 1, "nor after the subscription is one of the new token")
            #expect(harness.ada()?.subscriptions.map(\.token) == [apnsToken, fcmToken])
            let third = DeviceRecord.sample(tokens: [DeviceToken(apnsToken + "ff", service: .iOSAPNs)])
            try await harness.change(.subscribed, [:], third)
            #expect(updates() == 2 && harness.codes.contains(231))
        }
    }

    @Test("A registration asks for a refused move again")
    func registersAgain() async throws {
        try await Harness.run { harness in
            try await harness.change(.subscribed)
            let moved = DeviceRecord.sample(tokens: [DeviceToken(fcmToken, service: .iOSFirebase)])
            harness.simulator.add([
                FaultRule(
                    match: FaultMatch(pathPrefix: "/subscription/push/update", count: 1),
                    .answer(FaultAnswer(400))
                )
            ])
            let error = await failure { () async throws(PushError) in _ = try await harness.mobile.register(moved) }
            #expect(error?.reason == "431")
            _ = try await harness.mobile.register(moved)
            #expect(harness.ada()?.subscriptions.map(\.token) == [fcmToken])
        }
    }

    // MARK: Sending

    private func campaign(_ simulator: AltcraftSimulator) -> AltcraftCampaignOptions? {
        HTTPBaseURL(url: simulator.url).map {
            AltcraftCampaignOptions(
                base: $0,
                apiToken: Secret("sandbox-api-token"),
                triggerID: 13,
                matching: .custom,
                fieldName: "crm_id"
            )
        }
    }

    private func withCampaign(
        adjust: (inout AltcraftCampaignOptions) -> Void = { _ in },
        _ body: (Harness, AltcraftBackend) async throws -> Void
    ) async throws {
        try await Harness.run { harness in
            var options = AltcraftOptions.sample(harness.simulator)
            var own = try #require(campaign(harness.simulator))
            adjust(&own)
            options.campaign = own
            let context = BackendContext(name: "crm", http: harness.transport, time: harness.time, logger: quiet)
            let backend = try AltcraftBackend(
                options: options,
                auth: AltcraftAuth(source: Harness.byUser),
                context: context
            )
            try await body(harness, backend)
            await backend.shutdown(grace: .zero)
        }
    }

    @Test("A start imports nothing, has no time to live, and is as the vendor's table has it")
    func startsOnly() async throws {
        try await withCampaign { harness, backend in
            try await harness.change(.subscribed)
            let message = PushNotification(title: "Hi", timeToLive: .seconds(3600))
            let outcomes = await backend.send(message, to: [.user("ada"), .user("nobody")])
            for outcome in outcomes {
                guard case .accepted = outcome else { throw PushError(.badAnswer, "\(outcome)") }
            }
            #expect(harness.simulator.profiles.map(\.key) == ["custom crm_id/ada"], "nobody became a profile")
            let request = try #require(harness.simulator.launches.first?.request)
            #expect(
                request == [
                    "id": 13, "matching": "custom", "field_name": "crm_id",
                    "field_value": request["field_value"] ?? .null, "content": ["title": "Hi"],
                ]
            )
        }
    }

    static let imports: [(AltcraftCampaignOptions.Matching, String, JSONObject, String)] = [
        (.phone, "+79000000000", ["phones": ["+79000000000"]], "phone +79000000000"),
        (.email, "ada@example.com", ["email": "ada@example.com"], "email ada@example.com"),
        (.emailProfile, "ada@example.com", ["email": "ada@example.com"], "email_profile ada@example.com"),
        (.custom, "ada", ["crm_id": "ada"], "custom crm_id/ada"),
    ]

    @Test("An import makes the profile of an unknown user, with the field that it is found by", arguments: imports)
    func importsFirst(
        matching: AltcraftCampaignOptions.Matching,
        user: String,
        fields: JSONObject,
        key: String
    ) async throws {
        try await withCampaign {
            ($0.call, $0.matching) = (.importAndStart, matching)
        } _: { harness, backend in
            var message = PushNotification(title: "Hi", timeToLive: .seconds(90))
            message.overrides["altcraft"] = ["data": ["city": "Kazan"], "skip_triggers": true]
            let outcome = await backend.send(message, to: .user(user))
            guard case .accepted = outcome else { throw PushError(.badAnswer, "\(outcome)") }
            let profile = try #require(harness.simulator.profile(key, in: 12))
            #expect(profile.fields == fields.merging(["city": "Kazan"]))
            let request = try #require(harness.simulator.launches.first?.request)
            #expect(request["trigger_id"] == 13 && request["timeout"] == nil && request["skip_triggers"] == true)
            #expect(request["phone"]?.stringValue == (matching == .phone ? user : nil))
        }
    }

    @Test("timeout delays the start of an import, and nothing else takes it or any other form of it")
    func delays() async throws {
        try await withCampaign {
            $0.call = .importAndStart
        } _: { harness, backend in
            try await harness.change(.subscribed)
            var message = PushNotification(title: "Hi")
            message.overrides["altcraft"] = ["timeout": ["hours": 1, "minutes": 30]]
            #expect(backend.check(message, for: .user) == PayloadCheck())
            _ = await backend.send(message, to: .user("ada"))
            #expect(harness.simulator.launches.map(\.delay) == [5400] && harness.ada()?.subscriptions[0].received == [])
            for wrong: JSONValue in [5400, ["seconds": 1], ["minutes": -1], ["minutes": "5"], [:], nil] {
                message.overrides["altcraft"] = ["timeout": wrong]
                #expect(
                    backend.check(message, for: .user).faults.map(\.pointer) == ["#/overrides/altcraft/timeout"]
                )
            }
        }
        try await withCampaign { _, backend in
            var message = PushNotification(title: "Hi")
            message.overrides["altcraft"] = ["timeout": ["minutes": 5], "content": ["a": 1]]
            let check = backend.check(message, for: .user)
            #expect(check.faults.isEmpty && check.warnings.map(\.pointer) == ["#/overrides/altcraft/timeout"])
        }
    }

    static let wrongStarts: [(String, JSONObject, String)] = [
        ("start/", ["trigger_id": 13], "trigger_id"), ("start/", ["id": 14], "no such trigger"),
        ("start", ["id": 13, "timeout": ["minutes": 1]], "timeout"), ("start/", ["id": 13, "data": [:]], "data"),
        ("start/", ["id": 13, "matching": "push_sub"], "push_sub"), ("start/", ["id": 13], "identifier"),
        ("start/", ["id": 13, "matching": "phone", "phones": "+7"], "phones"),
        ("import_and_start", ["trigger_id": 13, "email": "a"], "data is missing"),
        ("import_and_start", ["trigger_id": 13, "email": "a", "data": [:], "timeout": 60], "timeout"),
        ("import_and_start", ["trigger_id": 13, "email": "a", "data": ["colour": "red"]], "Incorrect field"),
    ]

    @Test("The simulator holds the two calls to the vendor's tables", arguments: wrongStarts)
    func simulatedTables(path: String, body: JSONObject, words: String) async throws {
        try await Harness.run { harness in
            let endpoint = try #require(HTTPBaseURL(url: harness.simulator.url)?.endpoint)
            var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
            configuration.extraTrustPEM = harness.simulator.certificatePEM
            let pool = try harness.transport.pool(configuration)
            let body = body.merging(["token": "sandbox-api-token"])
            let template = HTTPCallTemplate(method: "POST", headers: [HTTPHeader("content-type", "application/json")])
            let target = "/api/v1.1/campaigns/triggers/" + path
            let answer = try await pool.send(HTTPCall(template, path: target, body: JSONValue.object(body).bytes))
            #expect(answer.status == 400 && Response(answer.body)?.errorText?.contains(words) == true)
            #expect(harness.simulator.launches.isEmpty && harness.simulator.profiles.isEmpty)
            await pool.shutdown(grace: .zero)
        }
    }

    @Test("A message starts the campaign for a user's profile, and the platform sends it to the subscription")
    func sends() async throws {
        try await withCampaign { harness, backend in
            try await harness.change(.subscribed)
            #expect(backend.audience.forms == [.user, .platformID] && backend.audience.services.isEmpty)
            let message = PushNotification(title: "Hi", body: "there", clickURL: "app://x", data: ["n": 1])
            let outcome = await backend.send(
                message,
                to: [.user("ada"), .user("nobody"), .platformID("p1"), .topic("t")]
            )
            for place in 0..<3 {
                guard case .accepted(let acceptance) = outcome[place] else {
                    Issue.record("\(outcome[place])")
                    continue
                }
                #expect(acceptance.platformID == nil, "the answer names no message")
            }
            guard case .refused(let refusal) = outcome[3] else { throw PushError(.badAnswer, "a topic was taken") }
            #expect(refusal.reason == "unsupported_recipient" && refusal.advice == .never)
            #expect(harness.ada()?.subscriptions[0].received == ["Hi"])
            let launch = try #require(harness.simulator.launches.first { $0.reached == 1 })
            #expect(launch.request["content"]?["link"] == "app://x" && launch.request["content"]?["n"] == 1)
            #expect(launch.request["field_value"] == "ada" && launch.request["token"] == nil)
        }
    }

    static let launches: [(Int, String?, String)] = [
        (401, nil, "account unauthorized"), (403, nil, "account unauthorized"), (402, nil, "account tariff_limit"),
        (400, nil, "message bad_request"), (429, nil, "platform rate_limited"), (503, nil, "platform unavailable"),
        (200, #"{"error":402}"#, "account tariff_limit"),
        (200, #"{"error":400,"error_text":"x"}"#, "message bad_request"),
    ]

    @Test("A refused start says whose fault it is", arguments: launches)
    func refusedStart(status: Int, body: String?, expected: String) {
        let answer = HTTPAnswer(status: status, body: Array((body ?? "").utf8))
        guard case .refused(let refusal) = AltcraftRejections.outcome(of: answer, now: Date()) else {
            Issue.record("not refused")
            return
        }
        #expect("\(refusal.kind.rawValue) \(refusal.reason)" == expected)
    }

    @Test("An answer that got lost may have sent: a repeat is harmful; without a campaign sending is refused for good")
    func lost() async throws {
        try await withCampaign { harness, backend in
            harness.simulator.add([FaultRule(at: .processed, match: FaultMatch(count: 1), .end(.reset))])
            let outcome = await backend.send(PushNotification(title: "x"), to: [.user("ada")])
            guard case .unknown(let unknown) = outcome[0] else { throw PushError(.badAnswer, "\(outcome)") }
            #expect(unknown.isRepeatHarmful && backend.isRepeatHarmful(PushNotification()))
            #expect(
                backend.check(PushNotification(title: "x", badge: 1), for: .user).warnings.map(\.pointer) == [
                    "#/content/badge"
                ]
            )
            guard
                case .refused(let refusal) = await harness.backend.send(PushNotification(title: "x"), to: [.user("a")])[
                    0
                ]
            else { throw PushError(.badAnswer, "it sent") }
            #expect(refusal.reason == "send_not_configured" && harness.backend.audience.forms.isEmpty)
            #expect(await harness.backend.diagnose().first?.verdict == .warning)
        }
    }
}
