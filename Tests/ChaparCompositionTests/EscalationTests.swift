import ChaparCore
import Foundation
import Testing

@testable import ChaparComposition

@Suite("The rule of backends that take over")
struct EscalationTests {
    private static let rule = Escalation(step: 2, after: .milliseconds(1_500), unless: .opened, maximumPerDay: 7)

    private static func plan(_ backends: [String] = ["a", "b", "c", "d"], _ rule: Escalation? = rule) -> DeliveryPlan {
        var plan = DeliveryPlan(backends)
        plan.escalation = rule
        return plan
    }

    @Test("A plan keeps it in its stored form, beside everything else")
    func storedForm() {
        var full = Self.plan()
        #expect(full.storedForm == "a>b>c>d||escalate=2:1500:opened:7")
        #expect(DeliveryPlan(storedForm: full.storedForm) == full)
        (full.onUnknown, full.unknownWait, full.fallbackAfter) = (.wait, .seconds(3), .seconds(4))
        #expect(DeliveryPlan(storedForm: full.storedForm) == full)
        let unlimited = Self.plan(["a", "b"], Escalation(step: 1, after: .seconds(1)))
        #expect(DeliveryPlan(storedForm: unlimited.storedForm) == unlimited)
        #expect(DeliveryPlan(["a"]).storedForm == "a", "a plan without it is as before")
    }

    @Test(
        "A damaged stored form has none",
        arguments: [
            "", "1", "1:2", "1:2:read", "-1:2:opened", "x:2:opened", "1:y:opened", "1:2:opened:z", "1:2:opened:3:4",
        ]
    )
    func damaged(text: String) {
        #expect(DeliveryPlan(storedForm: "a>b||escalate=" + text).escalation == nil)
        #expect(DeliveryPlan(storedForm: "a>b||escalate=" + text).backends == ["a", "b"])
    }

    @Test("A plan has room for a reference to it, and no more")
    func size() {
        #expect(MemoryLayout<DeliveryPlan>.size <= 72)
    }

    @Test(
        "It goes on with the backends that are left",
        arguments: [
            (["a", "c"], 1), (["c", "d"], 0), (["a", "b", "d"], 2), (["b", "c", "d"], 1), (["a", "b"], nil),
            (["a"], nil),
        ] as [([String], Int?)]
    )
    func filtered(kept: [String], step: Int?) {
        let plan = Self.plan().filtered { kept.contains($0) }
        #expect(plan?.backends == kept)
        #expect(plan?.escalation?.step == step)
        #expect(plan?.escalation?.after == step.map { _ in .milliseconds(1_500) })
    }

    @Test("Without a backend there is no plan")
    func nothing() {
        #expect(Self.plan().filtered { _ in false } == nil)
    }

    @Test("A message that a platform has does not end as failed, expired or unknown")
    func rules() {
        let rules = PlanRules(retry: RetryPolicy(firstWait: .seconds(1), longestWait: .seconds(9), maximumAttempts: 3))
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        let refusal = Refusal(.message, reason: "no", advice: .never)
        let events: [PlanEvent] = [
            .answered(.refused(refusal)), .answered(.unknown(UnknownOutcome(reason: "x", isRepeatHarmful: true))),
            .answered(.refused(Refusal(.platform, reason: "x", advice: .retry(after: .seconds(600))))),
            .skipped(reason: "no_token"), .waited(.failed),
        ]
        for event in events {
            var position = PlanPosition(
                Self.plan(["a", "b"], Escalation(step: 1, after: .seconds(1))),
                step: 1,
                startedAt: now
            )
            position.expiresAt = now + 60
            position.isAccepted = true
            let verdict = rules.decide(position, event, at: now, random: 1)
            #expect(verdict.move == .end(.acceptedByPlatform), "\(event)")
            #expect(verdict.isReached, "\(event)")
        }
        let position = PlanPosition(
            Self.plan(["a", "b"], Escalation(step: 1, after: .seconds(1))),
            step: 1,
            startedAt: now
        )
        let plain = rules.decide(position, .answered(.refused(refusal)), at: now, random: 1)
        #expect(plain.move == .end(.failed))
        #expect(!plain.isReached)
    }
}
