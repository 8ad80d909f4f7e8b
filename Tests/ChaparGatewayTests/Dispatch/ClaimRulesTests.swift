import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Transitions by the outcome of a claimed delivery", .timeLimit(.minutes(1)))
struct ClaimRulesTests {
    private static let now = Date(timeIntervalSince1970: 1_790_000_000)
    private let rules = PlanRules(GatewayConfiguration.Queue())

    private static func claim(
        attempts: Int = 0,
        step: Int = 0,
        plan: DeliveryPlan = DeliveryPlan(["ios"]),
        lives: TimeInterval = 3600
    ) -> ClaimedDelivery {
        ClaimedDelivery(
            id: 1,
            notificationID: NotificationID(rawValue: 1),
            content: .decoded(PushNotification()),
            recipient: .topic("t"),
            plan: plan,
            step: step,
            attempts: attempts,
            acceptedAt: now,
            expiresAt: now.addingTimeInterval(lives)
        )
    }

    private static func refusal(_ advice: Refusal.Advice) -> DeliveryOutcome {
        .refused(Refusal(.platform, reason: "r", advice: advice))
    }

    private static let harmful = DeliveryOutcome.unknown(UnknownOutcome(reason: "u", isRepeatHarmful: true))
    private static let harmless = DeliveryOutcome.unknown(UnknownOutcome(reason: "u"))
    private static let chain = DeliveryPlan(["ios", "android"])

    private static func decision(_ outcome: DeliveryOutcome, _ claim: ClaimedDelivery) -> PlanVerdict {
        PlanRules(GatewayConfiguration.Queue()).decide(
            claim.position(at: TimeReading(now)),
            .answered(outcome),
            at: now,
            random: 1
        )
    }

    @Test(
        "A refusal's limit in time counts from the first attempt, at the only backend too",
        arguments: [(600, false), (7_200, true)]
    )
    func limitInTime(age: TimeInterval, ends: Bool) {
        var claim = Self.claim(attempts: 1, lives: 86_400)
        let first = RFC3339.string(Self.now.addingTimeInterval(-age))
        claim.attemptLog = Array(#"{"outcome":"refused","at":"\#(first)","steady_at":"\#(first)"}"#.utf8)
        let limit = Refusal.RetryLimit(attempts: 10, span: .seconds(3_600))
        let outcome = DeliveryOutcome.refused(
            Refusal(.platform, reason: "r", advice: .retry(after: nil), retryLimit: limit)
        )
        let verdict = rules.decide(
            claim.position(at: TimeReading(Self.now), after: outcome),
            .answered(outcome),
            at: Self.now,
            random: 1
        )
        #expect((verdict.move == .end(.failed)) == ends)
    }

    @Test("A delivery that may have been sent ends as unknown when it is cancelled or expires")
    func endings() {
        let (before, after) = (TimeReading(Self.now), TimeReading(Self.now.addingTimeInterval(60)))
        func end(_ change: (inout ClaimedDelivery) -> Void, _ time: TimeReading) -> Resolution.Transition? {
            var claim = Self.claim(lives: 60)
            change(&claim)
            return Resolution.ending(claim, at: time)?.transition
        }
        #expect(end({ _ in }, before) == nil)
        #expect(end({ $0.isReplay = true }, before) == nil)
        #expect(end({ _ in }, after) == .end(.expired))
        #expect(end({ $0.isReplay = true }, after) == .end(.unknown))
        #expect(end({ $0.isRecovered = true }, after) == .end(.unknown))
        // The store's clock may have found it a moment before this one.
        var early = Self.claim(lives: 60)
        #expect(Resolution.expiry(early, at: before).transition == .end(.expired))
        early.isReplay = true
        #expect(Resolution.expiry(early, at: before).transition == .end(.unknown))
        #expect(end({ $0.isCancelled = true }, after) == .end(.cancelled))
        #expect(end({ $0.isCancelled = true }, before) == .end(.cancelled))
        #expect(
            end(
                {
                    $0.isCancelled = true
                    $0.isReplay = true
                },
                before
            ) == .end(.unknown)
        )
    }

    @Test("An accepted delivery ends, and shows that the backend works")
    func accepted() {
        let decision = Self.decision(.accepted(Acceptance()), Self.claim())
        #expect(decision.move == .end(.acceptedByPlatform))
        #expect(decision.signal == .works)
    }

    @Test(
        "The wait is the platform's wish plus full jitter below a doubling bound that has a bound itself",
        arguments: [(1, 10.0), (2, 20.0), (3, 40.0), (7, 640.0), (8, 900.0), (60, 900.0)]
    )
    func waits(attempt: Int, bound: Double) {
        for floor in [Duration?.none, .seconds(30)] {
            let least = rules.retry.time(after: attempt, floor: floor, at: Self.now, random: 0)
            let most = rules.retry.time(after: attempt, floor: floor, at: Self.now, random: 1)
            #expect(least.timeIntervalSince(Self.now) == (floor?.inSeconds ?? 0))
            #expect(abs(most.timeIntervalSince(least) - bound) < 0.001)
        }
    }

    @Test("A refusal for good ends a delivery, or takes it to the next backend of its plan")
    func never() {
        #expect(Self.decision(Self.refusal(.never), Self.claim()).move == .end(.failed))
        let next = Self.decision(Self.refusal(.never), Self.claim(plan: Self.chain))
        #expect(next.move == .next(step: 1))
        #expect(Self.decision(Self.refusal(.never), Self.claim(step: 1, plan: Self.chain)).move == .end(.failed))
    }

    @Test("Trying again ends with the time to live, and with the last attempt")
    func ends() {
        let retry = Self.refusal(.retry(after: .seconds(30)))
        #expect(Self.decision(retry, Self.claim()).move == .retry(at: Self.now.addingTimeInterval(40)))
        #expect(Self.decision(retry, Self.claim(lives: 40)).move == .end(.expired))
        #expect(Self.decision(retry, Self.claim(attempts: 48)).state == .retrying)
        #expect(Self.decision(retry, Self.claim(attempts: 49)).move == .end(.failed))
    }

    @Test("A slow recipient is left alone, a slow backend pauses as a whole, for as long as it asks")
    func slow() {
        let recipient = Self.decision(Self.refusal(.slowRecipient(after: .seconds(60))), Self.claim())
        #expect(recipient.recipientPause == recipient.retryAt)
        #expect(recipient.signal == .fails(reason: "r"))
        let backend = Self.decision(Self.refusal(.slowBackend(after: .seconds(1200))), Self.claim())
        #expect(backend.signal == .pause(.seconds(1200), reason: "r"))
        #expect(backend.move == .retry(at: Self.now.addingTimeInterval(1210)))
    }

    @Test("A backend that needs an operator is parked; its messages wait, however often it refuses, or go on")
    func park() {
        let parked = Self.decision(Self.refusal(.parkBackend), Self.claim(attempts: 200))
        #expect(parked.signal == .park(reason: "r", detail: nil))
        #expect(parked.state == .retrying)
        let next = Self.decision(Self.refusal(.parkBackend), Self.claim(plan: Self.chain))
        #expect(next.move == .next(step: 1))
    }

    @Test(
        "After no answer the plan's rule decides; without one, only what does no harm is sent again",
        arguments: [
            (harmless, nil, 1, DeliveryState.retrying), (harmful, nil, 1, .unknown), (harmful, .retry, 1, .retrying),
            (harmless, .stop, 1, .unknown), (harmless, .next, 1, .unknown), (harmless, .next, 2, .retrying),
        ] as [(DeliveryOutcome, DeliveryPlan.UnknownRule?, Int, DeliveryState)]
    )
    func unknown(outcome: DeliveryOutcome, rule: DeliveryPlan.UnknownRule?, backends: Int, state: DeliveryState) {
        let plan = DeliveryPlan(Array(["ios", "android"].prefix(backends)), onUnknown: rule)
        let decision = Self.decision(outcome, Self.claim(plan: plan))
        #expect(decision.state == state)
        #expect(decision.mayHaveBeenSent)
        if rule == .next, backends == 2 { #expect(decision.move == .next(step: 1)) }
    }

    @Test("No answer and no time left is unknown, not expired: it may have arrived")
    func unknownAtTheEnd() {
        #expect(Self.decision(Self.harmless, Self.claim(lives: 5)).move == .end(.unknown))
    }
}
