import ChaparComposition
import ChaparCore
import ChaparTesting
import Testing

/// The value of a plan: how it is written in code, and how a store keeps it.
@Suite("The value of a plan")
struct DeliveryPlanTests {
    private static let policy = RetryPolicy(
        firstWait: .milliseconds(500),
        longestWait: .seconds(20),
        maximumAttempts: 4
    )

    /// A plan with its form in a store.
    private static let forms: [(DeliveryPlan, String)] = [
        (.firstOf("ios"), "ios"), (.firstOf("ios", "web"), "ios>web"),
        (.firstOf("ios", "web").onUnknown(.next), "ios>web|next"),
        (.firstOf("ios").onUnknown(.wait, waiting: .seconds(5)), "ios|wait|wait=5000"),
        (.firstOf("ios", "web").movingOn(after: .seconds(10)), "ios>web||patience=10000"),
        (.all("ios", "web"), "ios>web||need=any"), (.all("ios", "web", need: .all), "ios>web||need=all"),
        (.firstOf("ios").retrying(policy), "ios||attempts=4|first=500|longest=20000"),
        (
            .all("ios", "web").retrying(policy).onUnknown(.stop),
            "ios>web|stop|need=any|attempts=4|first=500|longest=20000"
        ),
    ]

    @Test("is the same after a store has kept it", arguments: forms.indices)
    func stored(_ row: Int) {
        let (plan, form) = Self.forms[row]
        #expect(plan.storedForm == form)
        #expect(DeliveryPlan(storedForm: form) == plan)
        #expect(DeliveryPlan(storedForm: form).hashValue == plan.hashValue)
    }

    @Test("A form that is damaged, or of a later version, is read as far as it is known")
    func foreign() {
        let rows: [(String, DeliveryPlan)] = [
            ("ios>web|stop|later=x|need=one", .firstOf("ios", "web").onUnknown(.stop)),
            ("ios||attempts=0", .firstOf("ios").retrying(RetryPolicy(maximumAttempts: 1))),
            ("ios||first=9|longest=8", .firstOf("ios")), ("ios||attempts=many|wait=", .firstOf("ios")),
            (
                "ios||attempts=9223372036854775807|first=-1|longest=-1",
                .firstOf("ios").retrying(
                    RetryPolicy(firstWait: .zero, longestWait: .zero, maximumAttempts: .max)
                )
            ),
        ]
        for (form, plan) in rows { #expect(DeliveryPlan(storedForm: form) == plan, "\(form)") }
    }

    @Test("A block lists names with conditions and loops")
    func builder() {
        for (hasTexts, others) in [(true, ["x", "y"]), (false, [])] {
            let plan = DeliveryPlan {
                "ios"
                if hasTexts { "sms" } else { "mail" }
                for name in others { name }
                if hasTexts { "last" }
            }
            #expect(plan == DeliveryPlan(hasTexts ? ["ios", "sms", "x", "y", "last"] : ["ios", "mail"]))
        }
    }

    @Test("Settings reset to their defaults do not change the value")
    func usual() {
        var plan = DeliveryPlan.firstOf("ios").retrying(Self.policy).onUnknown(.wait, waiting: .seconds(5))
        (plan.retry, plan.unknownWait, plan.onUnknown) = (nil, DeliveryPlan.defaultUnknownWait, nil)
        #expect(plan == .firstOf("ios") && plan.storedForm == "ios")
    }

    @Test("The deliveries of a plan for all keep its rules")
    func parts() {
        let all = DeliveryPlan.all("ios", "web").retrying(Self.policy).onUnknown(.wait, waiting: .seconds(5))
        let one = DeliveryPlan.firstOf("ios").retrying(Self.policy).onUnknown(.wait, waiting: .seconds(5))
        #expect(all.parts.map(\.backends) == [["ios"], ["web"]])
        #expect(all.parts[0] == one)
        #expect(one.parts == [one])
    }

    @Test("A plan for all gives each backend its own attempts")
    func retries() async throws {
        let first = ScriptedBackend("first") { $0.earlier < 2 ? PlanAnswer.retry.outcome : nil }
        let second = ScriptedBackend("second") { _ in PlanAnswer.retry.outcome }
        for (need, isAccepted) in [(DeliveryPlan.Need.any, true), (.all, false)] {
            let backend = try PlanBackend(
                .all("first", "second", need: need).retrying(RetryPolicy(maximumAttempts: 3)),
                [NamedBackend("second", second), NamedBackend("first", first)],
                time: InstantTime()
            )
            let outcome = await backend.send(PushNotification(title: "x"), to: [.topic("t")])[0]
            #expect(outcome.isAccepted == isAccepted, "\(need)")
        }
        #expect(first.calls.count == 6 && second.calls.count == 6)
    }

    @Test("A plan names backends that are there, each once")
    func mistakes() {
        let members = [NamedBackend("ios", ScriptedBackend())]
        let rows: [(DeliveryPlan, String)] = [
            (.firstOf("iso"), "did you mean ios?"), (.all("web"), "add it first"),
            (.all("ios", "ios"), "is there twice"), (DeliveryPlan([]), "name one"),
        ]
        for (plan, words) in rows {
            let error = #expect(throws: PushError.self) { try PlanBackend(plan, members) }
            #expect(error?.message.contains(words) == true, "\(plan)")
        }
    }
}
