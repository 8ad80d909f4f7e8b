import Foundation
import ChaparCore
import ChaparQueue
import ChaparComposition
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@Suite("A plan interpreted in memory", .timeLimit(.minutes(1)))
struct PlanInterpreterTests {
    /// The attempts that reached backends, in order, and the last state.
    private static func run(
        _ one: PlanCase
    ) async throws -> (attempts: [String], end: DeliveryState, outcome: DeliveryOutcome) {
        let entries = Mutex<[PlanEntry]>([])
        let time = InstantTime()
        let chain = try PlanBackend(
            one.plan,
            one.makeBackends().map { NamedBackend($0.name, $0.backend) },
            retry: PlanCase.retry,
            deadline: one.timeToLive > .zero ? one.timeToLive : .seconds(3600),
            resolver: RecipientResolver { _ in ["device-1": ResolvedDevice(one.deviceTokens)] },
            time: time,
            observe: { entry in entries.withLock { $0.append(entry) } }
        )
        let request = PushRequest(
            PushNotification(title: "Case"),
            to: [Addressee(one.recipient)],
            expiration: one.timeToLive > .zero ? nil : .immediately
        )
        let outcome = await chain.send([request])[0][0]
        let all = entries.withLock { $0 }
        let attempts = all.compactMap { entry -> String? in
            if case .answered = entry.event { entry.backend } else { nil }
        }
        return (attempts, all.last?.verdict.state ?? .queued, outcome)
    }

    @Test("Passes the suite of plans", arguments: PlanCases.cases(for: .memory))
    func suite(_ one: PlanCase) async throws {
        let (attempts, end, outcome) = try await Self.run(one)
        try one.check(attempts: attempts, end: end)
        switch outcome {
        case .accepted: #expect([.acceptedByPlatform, .delivered, .opened].contains(end))
        case .refused: #expect([.failed, .expired].contains(end))
        case .unknown: #expect(end == .unknown)
        }
    }

    @Test("The suite covers every answer under every rule, and its names are unique")
    func completeness() {
        let cases = PlanCases.all
        #expect(Set(cases.map(\.name)).count == cases.count)
        #expect(cases.count >= PlanAnswer.allCases.count * 5 * 6)
    }

    @Test("No second copy goes out under the rule stop, whichever backend was silent")
    func noDouble() async throws {
        for one in PlanCases.cases(for: .memory) where one.plan.onUnknown == .stop {
            let attempts = try await Self.run(one).attempts
            var used: [String: Int] = [:]
            for (index, name) in attempts.enumerated() {
                let answer = one.answer(of: name, attempt: used[name, default: 0])
                used[name, default: 0] += 1
                let isSilent = answer == .silence || answer == .harmfulSilence
                #expect(!isSilent || index == attempts.count - 1, "\(one.name)")
            }
        }
    }

    @Test("A thousand recipients with different fates are each reported once, with their own outcome")
    func manyFates() async throws {
        let dead = DeliveryOutcome.refused(Refusal(.token, reason: "gone", advice: .never))
        let apple = ScriptedBackend("apple") { call in
            guard case .token(let token) = call.addressee.recipient, let number = Int(token.value.dropFirst(1)) else {
                return nil
            }
            switch number % 4 {
            case 0: return nil
            case 1: return dead
            case 2: return call.earlier == 0 ? PlanAnswer.retry.outcome : nil
            default: return PlanAnswer.harmfulSilence.outcome
            }
        }
        let google = ScriptedBackend("google", audience: BackendAudience(services: [.iOSFirebase]))
        let chain = FallbackBackend(
            [NamedBackend("apple", apple), NamedBackend("google", google)],
            fallbackAfter: .seconds(60),
            resolver: RecipientResolver { ids in
                Dictionary(
                    uniqueKeysWithValues: ids.map {
                        (
                            $0,
                            ResolvedDevice([
                                DeviceToken("a" + $0, service: .iOSAPNs), DeviceToken("f" + $0, service: .iOSFirebase),
                            ])
                        )
                    }
                )
            },
            time: InstantTime()
        )
        let counts = Mutex<[Int: Int]>([:])
        let request = PushRequest(
            PushNotification(title: "Many"),
            to: (0..<1000).map { Addressee(.device(String($0))) }
        )
        let outcomes = Mutex<[Int: DeliveryOutcome]>([:])
        await chain.send([request]) { reports in
            for report in reports {
                counts.withLock { $0[report.recipient, default: 0] += 1 }
                outcomes.withLock { $0[report.recipient] = report.outcome }
            }
        }
        #expect(counts.withLock { $0.count == 1000 && $0.values.allSatisfy { $0 == 1 } })
        for (number, outcome) in outcomes.withLock({ $0 }) {
            #expect(number % 4 == 3 ? outcome == PlanAnswer.harmfulSilence.outcome : outcome.isAccepted, "\(number)")
        }
        #expect(google.calls.count == 250)
        for call in google.calls {
            guard case .token(let token) = call.addressee.recipient else { continue }
            #expect(token.service == .iOSFirebase)
        }
    }

    @Test("A replay is marked as one, so that the platform can make it harmless")
    func replay() async {
        let backend = ScriptedBackend { $0.earlier == 0 ? PlanAnswer.silence.outcome : nil }
        let retrying = RetryingBackend(backend, onUnknown: .retry, time: InstantTime())
        let outcome = await retrying.send(PushNotification(title: "Twice"), to: [.topic("t")])[0]
        #expect(backend.calls.map(\.addressee.isReplay) == [false, true])
        #expect(outcome.isAccepted)
    }

    @Test("The time to live ends retries, and one that is over at once allows a single attempt")
    func timeToLive() async {
        let time = InstantTime()
        let backend = ScriptedBackend { _ in PlanAnswer.retryLater.outcome }
        let retrying = RetryingBackend(backend, deadline: .seconds(3600), time: time, random: { 1 })
        let ends = PushRequest.Expiration.at(Int64(time.now.timeIntervalSince1970) + 100)
        _ = await retrying.send([PushRequest(PushNotification(), to: [Addressee(.topic("t"))], expiration: ends)])
        // 0 s, 31 s, 63 s, 97 s; the next would be after 100 s.
        #expect(backend.calls.count == 4)
        let request = PushRequest(PushNotification(), to: [Addressee(.topic("t"))], expiration: .immediately)
        #expect(await retrying.send([request]) == [[PlanAnswer.retryLater.outcome]])
        #expect(backend.calls.count == 5)
    }

    @Test("Cancelling a send that waits reports the last outcome of each recipient")
    func cancellation() async {
        let time = ManualTime()
        let backend = ScriptedBackend { _ in PlanAnswer.retryLater.outcome }
        let retrying = RetryingBackend(backend, time: time)
        let sending = Task { await retrying.send(PushNotification(), to: [.topic("t")]) }
        while time.sleeping == 0 { await Task.yield() }
        sending.cancel()
        #expect(await sending.value == [PlanAnswer.retryLater.outcome])
        #expect(time.sleeping == 0)
    }

    @Test("A shutdown ends the waits of a send, and later sends reach no recipient")
    func shutdown() async {
        let time = ManualTime()
        let backend = ScriptedBackend { _ in PlanAnswer.retryLater.outcome }
        let chain = FallbackBackend([NamedBackend("one", backend)], time: time)
        let sending = Task { await chain.send(PushNotification(), to: [.topic("t")]) }
        while time.sleeping == 0 { await Task.yield() }
        await chain.shutdown(grace: .zero)
        #expect(await sending.value == [PlanAnswer.retryLater.outcome])
        _ = await chain.send(PushNotification(), to: [.topic("t")])
        #expect(backend.calls.count == 1)
    }

    @Test("A look-up that fails or hangs is trouble, not a dead token")
    func resolver() async throws {
        struct Down: Error {}
        let failing = RecipientResolver { _ in throw Down() }
        let hanging = RecipientResolver(deadline: .milliseconds(20)) { _ in
            try await ManualTime().sleep(for: .seconds(3600))
            return [:]
        }
        for resolver in [failing, hanging] {
            let chain = FallbackBackend(
                [NamedBackend("one", ScriptedBackend())],
                resolver: resolver,
                time: SystemTime()
            )
            let outcome = await chain.send(PushNotification(), to: [.device("d")])[0]
            let refusal = try #require(outcome.refusal)
            #expect(refusal.reason == "resolver_failed")
            #expect(refusal.advice == .retry(after: nil))
            #expect(refusal.invalidation == nil)
        }
    }

    @Test("Devices come from a registry, dead tokens left out, the preferred service first")
    func registry() async throws {
        let store = MemoryDeviceStore()
        let now = Date(timeIntervalSince1970: 1_767_225_600)
        var apple = RegisteredToken(DeviceToken("a", service: .iOSAPNs), registeredAt: now)
        apple.tombstone = Tombstone(asOf: now, at: now, backend: "one", reason: "Unregistered")
        let google = RegisteredToken(DeviceToken("g", service: .iOSFirebase), registeredAt: now)
        _ = try await store.put([Device(id: "d", tokens: [apple, google], locale: "fa-IR", createdAt: now)])
        let one = ScriptedBackend("one")
        let two = ScriptedBackend("two", audience: BackendAudience(services: [.iOSFirebase]))
        let chain = FallbackBackend(
            [NamedBackend("one", one), NamedBackend("two", two)],
            resolver: RecipientResolver(store),
            time: SystemTime()
        )
        _ = await chain.send(PushNotification(), to: [.device("d"), .device("unknown")])
        #expect(one.calls.isEmpty)
        #expect(two.calls.map(\.addressee.recipient) == [.token(google.token)])
        #expect(two.calls.map(\.addressee.language) == ["fa-IR"])
    }

    @Test("Texts go out in the language of the device, or in the one that the sender says")
    func languages() async {
        let token = DeviceToken("a", service: .iOSAPNs)
        let resolver = RecipientResolver { _ in ["fa": ResolvedDevice([token], language: "fa-IR"), "none": [token]] }
        let inner = ScriptedBackend("one")
        let members = [NamedBackend("one", inner)]
        let groups: [any PushBackend] = [
            FallbackBackend(members, resolver: resolver, time: SystemTime()),
            FanOutBackend(members, resolver: resolver, time: SystemTime()),
        ]
        let message = PushNotification(title: .localized(default: "Order 42", languages: ["fa": "سفارش ۴۲"]))
        for group in groups {
            _ = await group.send(message, to: [.device("fa"), .device("none"), .token(token)])
            _ = await group.send(message, to: .device("fa"), language: "en")
            _ = await group.send(message, to: .token(token), language: "fa")
        }
        _ = await inner.send(message, to: [.token(token)], language: "fa")
        let once = ["fa-IR", nil, nil, "en", "fa"]
        let languages = Set(once.map { $0 ?? "" })
        #expect(Set(inner.calls.map { $0.addressee.language ?? "" }) == languages)
        #expect(inner.calls.count { $0.addressee.language == "fa-IR" } == 2)
        #expect(inner.calls.count { $0.addressee.language == nil } == 4)
        #expect(inner.calls.last.map { $0.title?.resolved(for: $0.addressee.language) } == "سفارش ۴۲")
    }

    @Test("A chain of nothing refuses everybody")
    func empty() async {
        let outcome = await FallbackBackend([], time: SystemTime()).send(PushNotification(), to: [.topic("t")])[0]
        #expect(outcome.refusal?.reason == "not_addressable")
    }
}
