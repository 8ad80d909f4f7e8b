import Foundation
import ChaparCore
import ChaparComposition
import Testing

/// How often a delivery is tried when a platform wants less than usual.
@Suite("A platform's own limit of retries", .timeLimit(.minutes(1)))
struct RetryLimitTests {
    private static let start = Date(timeIntervalSince1970: 1_767_225_600)
    private static let outcome = DeliveryOutcome.refused(
        Refusal(
            .platform,
            reason: "UNSPECIFIED_ERROR",
            advice: .retry(after: .seconds(10)),
            retryLimit: Refusal.RetryLimit(attempts: 3, span: .seconds(3600))
        )
    )

    private func move(
        _ backends: [String],
        attempts: Int,
        seconds: Double = 60,
        mayHaveBeenSent: Bool = false,
        _ outcome: DeliveryOutcome = outcome
    ) -> PlanVerdict.Move {
        let position = PlanPosition(
            DeliveryPlan(backends, fallbackAfter: .seconds(86_400)),
            attempts: attempts,
            startedAt: Self.start,
            expiresAt: Self.start.addingTimeInterval(86_400),
            mayHaveBeenSent: mayHaveBeenSent
        )
        let rules = PlanRules(retry: RetryPolicy(maximumAttempts: 50))
        return rules.decide(position, .answered(outcome), at: Self.start.addingTimeInterval(seconds), random: 0).move
    }

    @Test("The third attempt is the last, however many the rules allow and however long the message lives")
    func attempts() {
        #expect(move(["a"], attempts: 0) == .retry(at: Self.start.addingTimeInterval(70)))
        #expect(move(["a"], attempts: 1) == .retry(at: Self.start.addingTimeInterval(70)))
        #expect(move(["a"], attempts: 2) == .end(.failed))
        #expect(move(["a"], attempts: 2, mayHaveBeenSent: true) == .end(.unknown))
        #expect(move(["a", "b"], attempts: 2) == .next(step: 1))
    }

    @Test("Nor is it tried after an hour")
    func span() {
        #expect(move(["a"], attempts: 1, seconds: 3590) == .retry(at: Self.start.addingTimeInterval(3600)))
        #expect(move(["a"], attempts: 1, seconds: 3591) == .end(.failed))
        #expect(move(["a", "b"], attempts: 1, seconds: 3591) == .next(step: 1))
    }

    @Test("A refusal without a limit is tried as the rules say")
    func none() {
        let outcome = DeliveryOutcome.refused(Refusal(.platform, reason: "UNAVAILABLE", advice: .retry(after: nil)))
        #expect(move(["a"], attempts: 20, seconds: 7200, outcome) == .retry(at: Self.start.addingTimeInterval(7200)))
    }

    @Test("Without time left to send it a message ends as expired, and as unknown after an attempt without answer")
    func noTimeLeft() {
        let outcome = DeliveryOutcome.refused(.expired)
        #expect(move(["a"], attempts: 1, outcome) == .end(.expired))
        #expect(move(["a"], attempts: 1, mayHaveBeenSent: true, outcome) == .end(.unknown))
        #expect(move(["a", "b"], attempts: 1, outcome) == .next(step: 1))
    }
}
