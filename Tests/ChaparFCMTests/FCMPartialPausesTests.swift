import Foundation
import ChaparCore
import Testing

@testable import ChaparFCM

@Suite("Pauses of a part of a project")
struct FCMPartialPausesTests {
    private static let answer = DeliveryOutcome.refused(
        Refusal(.account, reason: "THIRD_PARTY_AUTH_ERROR", advice: .retry(after: FCMPartialPauses.span))
    )

    @Test(
        "One odd answer stops its part for half a second; a second one soon after is a broken key",
        arguments: [0, 300]
    )
    func first(quiet: Double) {
        let pauses = FCMPartialPauses()
        var now = Date(timeIntervalSince1970: 1_000)
        func isHeld(after span: Double) -> Bool { pauses.refusal(of: .iOS, at: now.addingTimeInterval(span)) != nil }
        pauses.hold(.iOS, for: FCMPartialPauses.span, after: Self.answer, at: now)
        // What was under way with it is refused as well.
        pauses.hold(.iOS, for: FCMPartialPauses.span, after: Self.answer, at: now.addingTimeInterval(0.2))
        #expect(isHeld(after: 0.4) && !isHeld(after: 0.5))
        #expect(pauses.refusal(of: .web, at: now) == nil && pauses.refusal(of: .android, at: now) == nil)
        now = now.addingTimeInterval(1 + quiet)
        pauses.hold(.iOS, for: FCMPartialPauses.span, after: Self.answer, at: now)
        let isBroken = quiet == 0
        #expect(isHeld(after: 0.4))
        #expect(isHeld(after: 59) == isBroken)
        #expect(!isHeld(after: 60))
    }

    @Test("A pause that lasts longer stays, whatever comes meanwhile; a later end lengthens it")
    func longer() {
        let pauses = FCMPartialPauses()
        let now = Date(timeIntervalSince1970: 1_000)
        func isHeld(after span: Double) -> Bool { pauses.refusal(of: .topic, at: now.addingTimeInterval(span)) != nil }
        pauses.hold(.topics, for: .seconds(300), after: Self.answer, at: now)
        // One that was under way with it names no time of its own.
        pauses.hold(.topics, for: .seconds(60), after: Self.answer, at: now.addingTimeInterval(10))
        #expect(isHeld(after: 299) && !isHeld(after: 300))
        let rest = pauses.refusal(of: .condition, at: now.addingTimeInterval(100))?.advice
        #expect(rest == .retry(after: .seconds(200)), "conditions belong to topics")
        pauses.hold(.topics, for: .seconds(300), after: Self.answer, at: now.addingTimeInterval(100))
        #expect(isHeld(after: 399) && !isHeld(after: 400))
    }

    @Test("Topics pause for as long as Firebase asks, from the first answer on")
    func topics() {
        let pauses = FCMPartialPauses()
        let now = Date(timeIntervalSince1970: 1_000)
        pauses.hold(.topics, for: .seconds(60), after: Self.answer, at: now)
        #expect(pauses.refusal(of: .topic, at: now.addingTimeInterval(59)) != nil)
        #expect(pauses.refusal(of: .topic, at: now.addingTimeInterval(60)) == nil)
    }
}
