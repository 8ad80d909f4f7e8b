import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import Testing

@Suite("Model", .timeLimit(.minutes(1)))
struct ModelTests {
    @Test(
        "Times are read with any offset",
        arguments: [
            ("2027-01-05T09:00:00Z", 1_799_139_600.0), ("2026-09-01T09:00:00+03:30", 1_788_240_600.0),
            ("1970-01-01T00:00:00.250Z", 0.25), ("2000-02-29t23:59:59z", 951_868_799.0),
            ("1969-12-31T23:59:59Z", -1.0),
        ]
    )
    func times(text: String, seconds: Double) {
        #expect(RFC3339.parse(text)?.timeIntervalSince1970 == seconds)
    }

    @Test(
        "A text that is no RFC 3339 time is not parsed",
        arguments: [
            "2027-01-05", "2027-13-05T09:00:00Z", "2027-02-29T09:00:00Z", "2027-01-05T24:00:00Z", "2027-01-05T09:00:00",
            "2027-01-05T09:00:00.Z", "2027-01-05 09:00:00Z", "2027-01-05T09:00:00+0330", "", "0000-12-31T23:59:59Z",
            "9999-12-31T23:59:59-00:01",
        ]
    )
    func noTimes(text: String) {
        #expect(RFC3339.parse(text) == nil)
    }

    @Test("Written times are read back, over four centuries")
    func timesRoundTrip() {
        for day in stride(from: -60_000, through: 90_000, by: 97) {
            let time = Date(timeIntervalSince1970: Double(day) * 86_400 + 45_296.789)
            let text = RFC3339.string(time)
            #expect(RFC3339.parse(text)?.millisecondsSince1970 == time.millisecondsSince1970, "\(text)")
        }
        #expect(RFC3339.string(Date(timeIntervalSince1970: 1_799_139_600.0)) == "2027-01-05T09:00:00.000Z")
        #expect(RFC3339.string(Date(timeIntervalSince1970: 1e300)) == "9999-12-31T23:59:59.999Z")
        #expect(RFC3339.string(Date(timeIntervalSince1970: -1e300)) == "0001-01-01T00:00:00.000Z")
        #expect(RFC3339.string(Date(timeIntervalSince1970: .nan)) == "0001-01-01T00:00:00.000Z")
    }

    @Test("Ids sort by time, never repeat, and are read back in either case")
    func ids() throws {
        let start = Date(timeIntervalSince1970: 1_790_000_000)
        var allocator = NotificationIDAllocator(above: 0)
        let first = allocator.allocate(10_000, at: start)
        let second = allocator.allocate(1, at: start)
        let afterClockWentBack = allocator.allocate(1, at: start.addingTimeInterval(-60))
        let later = allocator.allocate(1, at: start.addingTimeInterval(1))
        #expect(second.rawValue == first.rawValue + 10_000)
        #expect(afterClockWentBack.rawValue == second.rawValue + 1)
        #expect(later > afterClockWentBack)
        #expect(later.description > first.description)
        #expect(first.time == start)
        #expect(NotificationID(first.description) == first)
        #expect(NotificationID(first.description.lowercased()) == first)
        for text in ["", "0123456789ABCD", "ZZZZZZZZZZZZZ", "01234567890 !"] { #expect(NotificationID(text) == nil) }
    }

    @Test("No id is beyond that of a moment in 2093: sums with it stay within 64 bits")
    func highestID() {
        let highest = NotificationID(rawValue: .max)
        #expect(highest.rawValue == NotificationID.highest && highest.description == "3ZZZZZZZZZZZZ")
        #expect(
            NotificationID("3ZZZZZZZZZZZZ") == highest && DeviceCursor("3ZZZZZZZZZZZZ")?.rawValue == highest.rawValue
        )
        for text in ["4000000000000", "7ZZZZZCEZZZZZ", "7ZZZZZCF00000", "7ZZZZZZZZZZZZ"] {
            #expect(NotificationID(text) == nil && DeviceCursor(text) == nil, "\(text)")
        }
        #expect(NotificationID(rawValue: -1).rawValue == 0 && DeviceCursor(rawValue: .max).rawValue == highest.rawValue)
        #expect(highest.delivery(at: Int.max) == .max && highest.place(of: .min) == .min)
        #expect(highest.delivery(at: -1) == highest.rawValue - 1 && highest.place(of: highest.delivery(at: 3)) == 3)
        #expect(NotificationID(firstAt: .distantPast).rawValue == 0)
        let last = NotificationID(firstAt: Date(timeIntervalSince1970: 1e300))
        #expect(last <= highest && last.time == highest.time)
        #expect(RFC3339.string(last.time) == "2093-09-06T15:47:35.551Z")
        var allocator = NotificationIDAllocator(above: .max)
        #expect(allocator.allocate(1_000, at: Date(timeIntervalSince1970: 1e300)) == highest)
    }

    @Test("A plan that a store has lost is one of a backend that there is not, and a step beyond a plan is its last")
    func lostPlan() {
        for text in ["", ">", "|stop", "|=|=3"] { #expect(DeliveryPlan(storedForm: text).backends == [""], "\(text)") }
        let plan = DeliveryPlan(["a", "b"])
        #expect([-1, 0, 1, 2, Int.max, Int.min].map { plan.backend(at: $0) } == ["a", "a", "b", "b", "b", "a"])
        #expect([Int64.min, 0, 1, 2, .max].map { plan.step(stored: $0) } == [0, 0, 1, 1, 1])
        #expect(DeliveryPlan([]).backend(at: 3) == "" && DeliveryPlan([]).step(stored: 3) == 0)
    }

    @Test(
        "Recipients survive being stored",
        arguments: [
            Recipient.token(DeviceToken("4f:1c", service: .iOSAPNs)), .device("d-1"), .user("ä:b"),
            .platformID("dGVzdA=="),
            .topic("news"), .tags(TagFilter(all: ["a:b"], none: ["c"])), .everyone,
            // Begin with what joins the character before it: a zero-width non-joiner, an accent, a skin tone.
            .user("\u{200C}نام"), .device("\u{301}a"), .topic("\u{1F3FD}"), .platformID("\u{200D}x"),
            .token(DeviceToken("\u{200C}t", service: .iOSAPNs)),
        ]
    )
    func recipients(recipient: Recipient) {
        #expect(Recipient(storedForm: recipient.storedForm) == recipient)
    }

    @Test(
        "Plans survive being stored",
        arguments: [
            DeliveryPlan(["ios"]), DeliveryPlan(["ios", "android"], onUnknown: .next),
            DeliveryPlan(["ios", "android"], onUnknown: .wait),
            DeliveryPlan(
                ["ios", "android"],
                onUnknown: .wait,
                unknownWait: .seconds(45),
                fallbackAfter: .milliseconds(1500)
            ),
            DeliveryPlan(["ios", "android"], fallbackAfter: .zero),
        ]
    )
    func plans(plan: DeliveryPlan) {
        #expect(DeliveryPlan(storedForm: plan.storedForm) == plan)
    }

    @Test("A text is chosen by exact tag, then by language, then the default")
    func languages() {
        let text = LocalizedText.localized(default: "Hello", languages: ["fa": "سلام", "pt-BR": "Olá"])
        #expect(text.resolved(for: "fa-IR") == "سلام")
        #expect(text.resolved(for: "pt-BR") == "Olá")
        #expect(text.resolved(for: "pt") == "Hello")
        #expect(text.resolved(for: nil) == "Hello")
    }

    @Test("A message id is a canonical UUID")
    func messageIDs() {
        let id = MessageID(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)
        #expect(id.description == "01234567-89ab-cdef-fedc-ba9876543210")
        let random = MessageID.random()
        #expect(UUID(uuidString: random.description) != nil)
        #expect(random != .random())
    }

    @Test("A secret shows itself nowhere")
    func secrets() {
        let secret = Secret("hunter2")
        var dumped = ""
        dump(secret, to: &dumped)
        for text in ["\(secret)", String(reflecting: secret), String(describing: [secret]), dumped] {
            #expect(!text.contains("hunter2"))
        }
        #expect(secret.reveal() == "hunter2")
    }

    @Test(
        "An address is read, with its port or the scheme's own",
        arguments: [
            ("https://api.push.apple.com", "api.push.apple.com", 443), ("http://127.0.0.1:8080/", "127.0.0.1", 8080),
            ("https://[::1]:2197", "::1", 2197), ("https://Host", "host", 443),
        ]
    )
    func endpoints(url: String, host: String, port: Int) {
        let endpoint = HTTPEndpoint(url: url)
        #expect(endpoint?.host == host)
        #expect(endpoint?.port == port)
    }

    @Test(
        "A URL that is no plain address gives no endpoint",
        arguments: [
            "api.push.apple.com", "ftp://x", "https://", "https://x:0", "https://x:y", "https://a/b", "https://u@h",
        ]
    )
    func noEndpoints(url: String) {
        #expect(HTTPEndpoint(url: url) == nil)
    }

    @Test("An outcome says whether it is accepted, gives the acceptance or throws, and names a dead token")
    func outcomes() throws {
        let token = DeviceToken("a", service: .iOSAPNs)
        let now = Date(timeIntervalSince1970: 0)
        func dead(isCertain: Bool) -> DeliveryOutcome {
            let invalidation = Refusal.Invalidation(asOf: now, isCertain: isCertain)
            return .refused(Refusal(.token, reason: "Unregistered", advice: .never, invalidation: invalidation))
        }
        let taken = DeliveryOutcome.accepted(Acceptance(platformID: "1"))
        #expect(try taken.get() == Acceptance(platformID: "1"))
        #expect(taken.isAccepted && taken.deadToken(of: .token(token)) == nil)
        #expect(!dead(isCertain: true).isAccepted)
        #expect(dead(isCertain: true).deadToken(of: .token(token)) == token)
        #expect(dead(isCertain: true).deadToken(of: .device("d")) == nil)
        #expect(dead(isCertain: false).deadToken(of: .token(token)) == nil)
        let refused = try #require(throws: DeliveryFailure.self) { try dead(isCertain: true).get() }
        #expect(refused.localizedDescription == "refused: Unregistered")
        let silent = DeliveryOutcome.unknown(UnknownOutcome(reason: "deadline", detail: "no answer in 20 s"))
        let unknown = try #require(throws: DeliveryFailure.self) { try silent.get() }
        #expect(unknown.description == "no answer, it may have been delivered: deadline, no answer in 20 s")
    }

    @Test("Foundation shows what an error of a sender says")
    func localizedErrors() {
        let errors: [any Error & CustomStringConvertible] = [
            HTTPPoolError("no such proxy"), InvalidToken(.iOSAPNs, "is empty"), PushError(.unavailable, "try later"),
            PayloadError([Finding(pointer: "#/content/body", code: "too_large", detail: "Too large.")]),
        ]
        for error in errors { #expect(error.localizedDescription == error.description) }
    }

    @Test("Texts come from literals, interpolations and variables")
    func texts() {
        let order = 42
        let body = "is on its way"
        let message = PushNotification(title: "Order \(order)", body: body)
        #expect(message.title == .plain("Order 42") && message.body == .plain("is on its way"))
        let mixed = PushNotification(title: .localized("Order", ["fa": "سفارش"]), body: "No \(order)")
        #expect(mixed.title == .localized(default: "Order", languages: ["fa": "سفارش"]))
        #expect(mixed.body == .plain("No 42"))
        #expect(PushNotification().title == nil)
        var changed = mixed
        changed.title = "Order \(order)"
        changed.body = LocalizedText(body.prefix(2))
        #expect(changed.title == .plain("Order 42") && changed.body == .plain("is"))
        let key: AppText = "Order \(order)"
        #expect(key == .plain("Order 42") && AppText(body) == .plain(body))
    }

    @Test(
        "A text that is no address throws what is wrong with it, and never means the platform",
        arguments: [
            ("localhost:8443", "has no scheme"), (" https://x", "does not begin with"), ("ftp://x", "does not begin"),
            ("https://", "has no host"), ("https://x:0", "has no host"), ("https://x:y", "has no host"),
            ("https://relay/apns", "has a path"), ("https://user:secret@h", "has a user"),
            ("https://h?key=secret", "has a query"), ("", "has no scheme"), ("http://example.com", "is not encrypted"),
        ]
    )
    func noAddresses(url: String, problem: String) throws {
        let error = try #require(throws: InvalidAddress.self) { try PlatformAddress(url) }
        #expect(error.description.contains(problem) && error.localizedDescription == error.description)
        #expect(!error.description.contains("secret"))
        #expect(throws: InvalidAddress.self) { try PlatformAddress.simulator(url) }
    }

    @Test("A simulator is on this machine, a relay may be anywhere, and an address may have a path where that works")
    func addresses() throws {
        let own = HTTPEndpoint(host: "api.example.com")
        let simulator = try PlatformAddress.simulator("https://127.0.0.1:8443")
        #expect(simulator.endpoint(platform: own) == HTTPEndpoint(host: "127.0.0.1", port: 8443))
        #expect(!simulator.isPlatform && PlatformAddress.platform.isPlatform)
        #expect(PlatformAddress.platform.endpoint(platform: own) == own)
        #expect(try PlatformAddress("https://relay.example.com").endpoint(platform: own).host == "relay.example.com")
        #expect(throws: InvalidAddress.self) { try PlatformAddress.simulator("https://relay.example.com") }
        #expect(try HTTPBaseURL("https://relay.example.com/v1/").path == "/v1")
        #expect(throws: InvalidAddress.self) { try HTTPBaseURL("relay.example.com/v1") }
        #expect(CommonBackendOptions().address == .platform)
    }

    @Test("Printing or dumping a token, or what holds one, says which is meant and does not show it")
    func printing() {
        let value = "9f3c0a51d2e84b7790aa16c3be52fd08417e6b2c95d0a3f8e1647b0c2d9f5a34"
        let token = DeviceToken(value, service: .iOSAPNs)
        let request = PushRequest(PushNotification(title: "x"), to: [Addressee(.token(token))])
        var dumped = ""
        dump(request, to: &dumped)
        let texts = ["\(token)", String(reflecting: token), "\(Recipient.token(token))", "\(request)", dumped]
        for text in texts {
            #expect(text.contains("ios-apns 9f3c0a…5a34"))
            #expect(!text.contains(value.prefix(7)) && !text.contains(value.suffix(5)))
        }
        #expect("\(DeviceToken("short-token", service: .androidFirebase))" == "android-firebase (11 characters)")
    }
}
