import Foundation
import ChaparCore
import ChaparComposition
import ChaparTesting
import Testing

@Suite("Wrappers keep a backend's promises", .timeLimit(.minutes(1)))
struct WrapperTests {
    /// A way to wrap a backend.
    struct Wrapping: Sendable, CustomStringConvertible {
        let description: String
        let wrap: @Sendable (ScriptedBackend) -> any PushBackend
    }

    static let wrappings: [Wrapping] = [
        Wrapping(description: "fallback") { inner in
            FallbackBackend(members(inner), onUnknown: .next, time: SystemTime())
        },
        Wrapping(description: "fan-out to any") { inner in
            FanOutBackend(members(inner), time: SystemTime())
        },
        Wrapping(description: "fan-out to all") { inner in
            FanOutBackend(members(inner), rule: .all, time: SystemTime())
        },
        Wrapping(description: "plan of all") { inner in
            plan(.all("inner", "spare").retrying(), members(inner))
        },
        Wrapping(description: "retrying") { RetryingBackend($0, time: InstantTime()) },
        Wrapping(description: "rate limited") {
            RateLimitedBackend($0, pacing: Pacing(perSecond: 3, urgentShare: 0.5), time: InstantTime())
        },
        Wrapping(description: "circuit breaking") { CircuitBreakingBackend($0) },
        Wrapping(description: "bulkhead") { BulkheadBackend($0, limit: 2) },
        Wrapping(description: "all of them") { inner in
            FallbackBackend(
                [
                    NamedBackend(
                        "inner",
                        RetryingBackend(inner, time: InstantTime()).bounded(to: 3).breaking().paced(
                            Pacing(perSecond: 10_000)
                        )
                    ), NamedBackend("spare", spare()),
                ],
                time: SystemTime()
            )
        },
    ]

    private static func members(_ inner: ScriptedBackend) -> [NamedBackend] {
        [NamedBackend("inner", inner), NamedBackend("spare", spare())]
    }

    /// The plan's backend; one of its mistakes is a backend that refuses everything.
    private static func plan(_ plan: DeliveryPlan, _ members: [NamedBackend]) -> any PushBackend {
        (try? PlanBackend(plan, members, time: InstantTime())) ?? ScriptedBackend { _ in PlanAnswer.never.outcome }
    }

    /// A second member that takes another service, so that the group's promises are those of the first.
    private static func spare() -> ScriptedBackend {
        ScriptedBackend("spare", audience: BackendAudience(services: [.androidFirebase]))
    }

    @Test("The conformance kit passes over every wrapper", arguments: wrappings, BackendConformance.checks)
    func conformance(_ wrapping: Wrapping, _ check: BackendConformance.Check) async throws {
        let inner = ScriptedBackend()
        let backend = wrapping.wrap(inner)
        let others = backend.audience.services.subtracting([.iOSAPNs]).map {
            Recipient.token(DeviceToken("t", service: $0))
        }
        var subject = BackendConformance.Subject(
            backend: backend,
            recipient: { .token(DeviceToken("token-\($0)", service: .iOSAPNs)) },
            others: others + [.topic("news")],
            deadRecipient: .token(DeviceToken(ScriptedBackend.deadToken, service: .iOSAPNs)),
            foreignRecipient: .token(DeviceToken("of-another-service", service: .androidHuawei)),
            taken: { inner.taken },
            payloadLimit: ScriptedBackend.bodyLimit
        )
        // What waits longer for its turn than its backend allows is refused, which is another promise.
        subject.largeBatch = 60
        // The scripted backend has no clock.
        subject.lacks = [.timeToLive]
        try await check.run(subject)
    }

    /// A backend that can do everything.
    private struct Capable: PushBackend, DeviceRegistrar, SubscriptionManager, TagEditor, EventReporter,
        MessageCanceller, MessageTracker, ReceiptReader, MessageRecaller, MessageRevoker, TopicManager, ChannelManager,
        TokenDirectory, CustomEventReporter
    {
        let kind: BackendKind = "capable"
        let audience = BackendAudience(forms: [.topic])
        let window: Int? = 7
        let pacing: Pacing? = Pacing(perSecond: 9)
        let schedulesMessages = true
        let health = BackendHealth(status: .degraded, detail: "slow", connections: 2)
        let acknowledgement: [UInt8] = [1]
        var devices: (any DeviceRegistrar)? { self }
        var subscriptions: (any SubscriptionManager)? { self }
        var tags: (any TagEditor)? { self }
        var events: (any EventReporter)? { self }
        var cancellation: (any MessageCanceller)? { self }
        var tracking: (any MessageTracker)? { self }
        var receipts: (any ReceiptReader)? { self }
        var recall: (any MessageRecaller)? { self }
        var customEvents: (any CustomEventReporter)? { self }
        var revocation: (any MessageRevoker)? { self }
        var topics: (any TopicManager)? { self }
        var channels: (any ChannelManager)? { self }
        var tokenDirectory: (any TokenDirectory)? { self }
        let services: [TokenService] = [.iOSAPNs]
        let importedService = TokenService.iOSFirebase

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}
        func isRepeatHarmful(_ notification: PushNotification) -> Bool { true }
        func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
            PayloadCheck(warnings: [Finding(pointer: "#/", code: "w", detail: "w")])
        }
        func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
            PayloadSize(bytes: 7, limit: 9)
        }
        func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? { ["title": "x"] }
        func problem(withTopic topic: String) -> String? { topic.isEmpty ? "It is empty." : nil }
        func diagnose() async -> [Diagnosis] { [Diagnosis("key", .ok, "fine")] }
        func register(_ device: DeviceRecord) async throws(PushError) -> String { "id" }
        func remove(_ device: DeviceRecord) async throws(PushError) {}
        func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError) {}
        func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus? { .suspended }
        func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {}
        func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError) {}
        func cancel(platformID: String) async throws(PushError) -> Bool { true }
        func state(of platformID: String) async throws(PushError) -> DeliveryState? { .opened }
        func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] { [] }
        func recall(_ ids: [String]?, from user: String) async throws(PushError) -> Bool { true }
        func report(_ event: CustomEvent, of device: DeviceRecord, as attempt: OutboxAttempt)
            async throws(PushError) -> JSONObject
        { ["told": .string(event.name)] }
        let revocationLimit = 5
        func revoke(_ trackingID: String, from tokens: [DeviceToken]) async throws(PushError) -> Bool {
            tokens.allSatisfy { $0.service == .iOSAPNs }
        }
        func subscribe(_ tokens: [DeviceToken], to topic: String) async throws(PushError) -> [TokenOutcome] {
            tokens.map { _ in .done }
        }
        func unsubscribe(_ tokens: [DeviceToken], from topic: String) async throws(PushError) -> [TokenOutcome] {
            tokens.map { _ in .dead("GONE") }
        }
        func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]? { [.init(name: "news")] }
        func create(storage: ChannelStorage) async throws(PushError) -> String { "c" }
        func read(_ id: String) async throws(PushError) -> ChannelStorage? { .newest }
        func delete(_ id: String) async throws(PushError) -> Bool { true }
        func list() async throws(PushError) -> [String] { ["c"] }
        func details(of token: DeviceToken) async throws(PushError) -> TokenDetails? { .init(application: "a") }
        func importTokens(
            _ tokens: [DeviceToken],
            application: String,
            environment: TokenEnvironment
        ) async -> [TokenImport] { [] }
    }

    private static let capable: [(String, any PushBackend)] = [
        ("fallback", FallbackBackend([NamedBackend("in", Capable())], time: SystemTime())),
        ("fan-out", FanOutBackend([NamedBackend("in", Capable())], time: SystemTime())),
        ("plan", plan(.firstOf("in"), [NamedBackend("in", Capable())])),
        ("plan of all", plan(.all("in"), [NamedBackend("in", Capable())])),
        ("retrying", RetryingBackend(Capable(), time: SystemTime())),
        ("rate limited", Capable().paced(Pacing(perSecond: 1))), ("breaking", Capable().breaking()),
        ("bulkhead", Capable().bounded(to: 10)),
        (
            "nested",
            FallbackBackend(
                [
                    NamedBackend(
                        "in",
                        RetryingBackend(Capable(), time: SystemTime()).breaking().bounded(to: 10)
                    )
                ],
                time: SystemTime()
            )
        ),
    ]

    @Test("Abilities, window, quota, health, checks and diagnoses are passed on")
    func abilities() async throws {
        let device = DeviceRecord(id: "d", token: DeviceToken("t", service: .iOSAPNs))
        for (name, backend) in Self.capable {
            #expect(try await backend.devices?.register(device) == "id", "\(name)")
            #expect(try await backend.subscriptions?.status(of: device) == .suspended, "\(name)")
            #expect(backend.tags != nil && backend.events != nil, "\(name)")
            #expect(try await backend.cancellation?.cancel(platformID: "p") == true, "\(name)")
            #expect(try await backend.tracking?.state(of: "p") == .opened, "\(name)")
            #expect(backend.receipts?.acknowledgement == [1], "\(name)")
            #expect(try await backend.recall?.recall(nil, from: "u") == true, "\(name)")
            let told = try await backend.customEvents?.report(
                CustomEvent("purchase"),
                of: device,
                as: OutboxAttempt(at: Date(timeIntervalSince1970: 0))
            )
            #expect(told == ["told": "purchase"], "\(name)")
            #expect(try await backend.revocation?.revoke("t", from: device.tokens) == true, "\(name)")
            #expect(backend.revocation?.revocationLimit == 5, "\(name)")
            #expect(try await backend.topics?.topics(of: device.tokens[0])?.map(\.name) == ["news"], "\(name)")
            #expect(try await backend.channels?.list() == ["c"], "\(name)")
            #expect(try await backend.tokenDirectory?.details(of: device.tokens[0])?.application == "a", "\(name)")
            #expect(backend.window == 7, "\(name)")
            #expect(backend.schedulesMessages, "\(name)")
            #expect((backend.pacing == nil) == (name == "rate limited"), "\(name)")
            #expect(backend.health.connections == 2 && backend.health.status != .ok, "\(name)")
            #expect(backend.check(PushNotification(), for: .topic).warnings.count == 1, "\(name)")
            let size = backend.payloadSize(of: PushNotification(), for: Addressee(.topic("t")))
            #expect(size == PayloadSize(bytes: 7, limit: 9), "\(name)")
            let shown = backend.payload(of: PushNotification(), for: Addressee(.topic("t")))
            #expect(shown == ["title": "x"], "\(name)")
            #expect(backend.isRepeatHarmful(PushNotification()), "\(name)")
            #expect(backend.problem(withTopic: "") == "It is empty.", "\(name)")
            #expect(backend.problem(withTopic: "a") == nil, "\(name)")
            #expect(await backend.diagnose().count == 1, "\(name)")
            #expect(backend.audience.contains(.topic("t")), "\(name)")
        }
    }

    @Test("A wrapper has no ability that its backend lacks")
    func inabilities() {
        let plain = ScriptedBackend()
        let wrapped: [any PushBackend] = [
            RetryingBackend(plain, time: SystemTime()), plain.breaking(),
            FallbackBackend([NamedBackend("in", plain)], time: SystemTime()),
            FanOutBackend([NamedBackend("in", plain)], time: SystemTime()),
        ]
        for backend in wrapped {
            #expect(backend.devices == nil && backend.subscriptions == nil && backend.tags == nil)
            #expect(backend.events == nil && backend.cancellation == nil && backend.tracking == nil)
            #expect(backend.receipts == nil && backend.recall == nil && backend.topics == nil)
            #expect(backend.revocation == nil && backend.customEvents == nil)
            #expect(backend.channels == nil && backend.tokenDirectory == nil)
            #expect(!backend.schedulesMessages)
        }
    }

    @Test("A group takes a message back from the tokens that a member takes, and from no others")
    func groupRevocation() async throws {
        let group = FallbackBackend([NamedBackend("one", Capable()), NamedBackend("none", ScriptedBackend())])
        let revocation = try #require(group.revocation)
        let own = DeviceToken("t", service: .iOSAPNs)
        let foreign = DeviceToken("t", service: .androidHuawei)
        #expect(revocation.services == [.iOSAPNs])
        #expect(try await revocation.revoke("0/1", from: [own, foreign]))
        #expect(try await !revocation.revoke("0/1", from: [foreign]))
    }

    @Test("A group gives each member the tokens of its services, and tells of each token what went wrong first")
    func groupTopics() async throws {
        let group = FallbackBackend(
            [NamedBackend("one", Capable()), NamedBackend("two", Capable()), NamedBackend("none", ScriptedBackend())],
            time: SystemTime()
        )
        let topics = try #require(group.topics)
        let own = DeviceToken("t", service: .iOSAPNs)
        let foreign = DeviceToken("t", service: .androidHuawei)
        #expect(topics.services == [.iOSAPNs])
        let joined = try await topics.subscribe([own, foreign], to: "news")
        guard case .done = joined[0], case .refused("wrong_token_service") = joined[1] else {
            Issue.record("\(joined)")
            return
        }
        let left = try await topics.unsubscribe([own], from: "news")
        guard case .dead("GONE") = left[0] else {
            Issue.record("\(left)")
            return
        }
        #expect(try await topics.topics(of: foreign) == nil)
    }
}
