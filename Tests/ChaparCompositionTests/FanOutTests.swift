import ChaparCore
import ChaparComposition
import ChaparTesting
import Synchronization
import Testing

@Suite("Fan-out", .timeLimit(.minutes(1)))
struct FanOutTests {
    private static func known(_ outcome: DeliveryOutcome) -> String {
        switch outcome {
        case .accepted: "accepted"
        case .refused(let refusal): refusal.advice == .never ? "never" : "refused"
        case .unknown: "unknown"
        }
    }

    @Test(
        "The outcomes of a recipient become one by the rule",
        arguments: [
            (.accepted, .accepted, "accepted", "accepted"), (.accepted, .never, "accepted", "never"),
            (.retry, .accepted, "accepted", "never"), (.accepted, .silence, "accepted", "unknown"),
            (.never, .silence, "unknown", "unknown"), (.never, .retry, "refused", "refused"),
            (.never, .dead, "never", "never"), (.silence, .silence, "unknown", "unknown"),
        ] as [(PlanAnswer, PlanAnswer, String, String)]
    )
    func rules(first: PlanAnswer, second: PlanAnswer, any: String, all: String) async {
        for (rule, expected) in [(FanOutBackend.Rule.any, any), (.all, all)] {
            let seen = Mutex<[String]>([])
            let group = FanOutBackend(
                [
                    NamedBackend("one", ScriptedBackend { _ in first.outcome }),
                    NamedBackend("two", ScriptedBackend { _ in second.outcome }),
                ],
                rule: rule,
                time: SystemTime()
            ) { name, _, _ in
                seen.withLock { $0.append(name) }
            }
            let outcome = await group.send(PushNotification(), to: [.topic("t")])[0]
            #expect(Self.known(outcome) == expected, "\(rule): \(first) and \(second)")
            #expect(seen.withLock { $0.sorted() } == ["one", "two"])
        }
    }

    @Test("Each backend gets the device's token of its own service, and a raw token goes to its own service only")
    func tokens() async {
        let one = ScriptedBackend("one")
        let two = ScriptedBackend("two", audience: BackendAudience(services: [.iOSFirebase]))
        let apple = DeviceToken("a", service: .iOSAPNs)
        let google = DeviceToken("g", service: .iOSFirebase)
        let group = FanOutBackend(
            [NamedBackend("one", one), NamedBackend("two", two)],
            resolver: RecipientResolver { _ in ["d": [apple, google]] },
            time: SystemTime()
        )
        let huawei = Recipient.token(DeviceToken("h", service: .iOSHuawei))
        let outcomes = await group.send(PushNotification(), to: [.device("d"), .token(google), huawei, .device("no")])
        #expect(outcomes.map(Self.known) == ["accepted", "accepted", "never", "never"])
        #expect(one.calls.map(\.addressee.recipient) == [.token(apple)])
        #expect(two.calls.map(\.addressee.recipient) == [.token(google), .token(google)])
    }
}
