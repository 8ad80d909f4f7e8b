import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import Testing

@Suite("The rules of what a resolution does to a delivery")
struct RecordRulesTests {
    static let moment = Date(timeIntervalSince1970: 1_800_000_000)
    static let retry = Resolution.Transition.retry(at: moment, step: 1)
    static let booleans = [false, true]

    /// The facts about a delivery whose plan has two steps.
    static func facts(
        _ standing: RecordFacts.Standing,
        mayHaveBeenSent: Bool = false,
        isCancelled: Bool = false,
        isReplaced: Bool = false
    ) -> RecordFacts {
        var facts = RecordFacts(standing, mayHaveBeenSent: mayHaveBeenSent, isCancelled: isCancelled, steps: 2)
        facts.isReplaced = isReplaced
        return facts
    }

    /// All facts about a delivery whose plan has two steps, in one standing.
    static func all(_ standing: RecordFacts.Standing) -> [RecordFacts] {
        booleans.flatMap { sent in
            booleans.flatMap { cancelled in
                booleans.map { facts(standing, mayHaveBeenSent: sent, isCancelled: cancelled, isReplaced: $0) }
            }
        }
    }

    /// The decision about an end in each state and standing; it depends on nothing else.
    static func end(_ state: DeliveryState, _ standing: RecordFacts.Standing) -> RecordDecision {
        switch (state, standing) {
        case (_, .ended): .ignore(.hasEnded)
        case (.acceptedByPlatform, _), (.delivered, _): .end(state)
        case (_, .stale): .ignore(.leaseIsOver)
        case (.queued, _), (.scheduled, _), (.sending, _), (.retrying, _): .refuse(.state(state))
        case (.opened, _), (.failed, _), (.expired, _), (.cancelled, _), (.unknown, _): .end(state)
        }
    }

    @Test("An end counts under its lease, an acceptance also without one", arguments: DeliveryState.allCases)
    func ends(as state: DeliveryState) {
        for standing in RecordFacts.Standing.allCases {
            let expected = Self.end(state, standing)
            for facts in Self.all(standing) + [RecordFacts(standing)] {
                for mayHaveBeenSent in Self.booleans {
                    let decision = RecordRules.decide(.end(state), mayHaveBeenSent: mayHaveBeenSent, facts)
                    #expect(decision == expected, "\(state.rawValue) of \(facts)")
                }
            }
        }
    }

    /// A row of the table of what waits again.
    struct Row: Sendable, CustomTestStringConvertible {
        var wasSent = false
        var isSent = false
        var isCancelled = false
        var isReplaced = false
        var retry: RecordDecision
        var release: RecordDecision
        var testDescription: String {
            "was sent \(wasSent), is sent \(isSent), cancelled \(isCancelled), replaced \(isReplaced)"
        }
    }

    /// The decisions about a delivery that its owner, or the gateway, puts back.
    ///
    /// A cancellation comes before a replacement. Doubt about any attempt stays, and makes both end as unknown.
    static let rows: [Row] = [
        Row(retry: again(false), release: .release(isReplay: false)),
        Row(isSent: true, retry: again(true), release: .release(isReplay: false)),
        Row(wasSent: true, retry: again(true), release: .release(isReplay: true)),
        Row(wasSent: true, isSent: true, retry: again(true), release: .release(isReplay: true)),
        withdrawn(.cancelled, .replaced, isReplaced: true),
        withdrawn(.unknown, .replaced, isSent: true, isReplaced: true),
        withdrawn(.unknown, .replaced, wasSent: true, isReplaced: true),
        withdrawn(.unknown, .replaced, wasSent: true, isSent: true, isReplaced: true),
        withdrawn(.cancelled, .cancelled, isCancelled: true),
        withdrawn(.unknown, .cancelled, isSent: true, isCancelled: true),
        withdrawn(.unknown, .cancelled, wasSent: true, isCancelled: true),
        withdrawn(.unknown, .cancelled, wasSent: true, isSent: true, isCancelled: true),
        withdrawn(.cancelled, .cancelled, isCancelled: true, isReplaced: true),
        withdrawn(.unknown, .cancelled, isSent: true, isCancelled: true, isReplaced: true),
        withdrawn(.unknown, .cancelled, wasSent: true, isCancelled: true, isReplaced: true),
        withdrawn(.unknown, .cancelled, wasSent: true, isSent: true, isCancelled: true, isReplaced: true),
    ]

    static func again(_ isReplay: Bool) -> RecordDecision { .retry(at: moment, step: 1, isReplay: isReplay) }

    static func withdrawn(
        _ state: DeliveryState,
        _ reason: EndReason,
        wasSent: Bool = false,
        isSent: Bool = false,
        isCancelled: Bool = false,
        isReplaced: Bool = false
    ) -> Row {
        Row(
            wasSent: wasSent,
            isSent: isSent,
            isCancelled: isCancelled,
            isReplaced: isReplaced,
            retry: .withdraw(state, reason),
            release: .withdraw(state, reason)
        )
    }

    @Test("A delivery waits again, unless it was cancelled or replaced meanwhile", arguments: rows)
    func waits(_ row: Row) {
        for standing in RecordFacts.Standing.allCases {
            let facts = Self.facts(
                standing,
                mayHaveBeenSent: row.wasSent,
                isCancelled: row.isCancelled,
                isReplaced: row.isReplaced
            )
            let retry = RecordRules.decide(Self.retry, mayHaveBeenSent: row.isSent, facts)
            let release = RecordRules.decide(.release, mayHaveBeenSent: row.isSent, facts)
            switch standing {
            case .claimed, .settled:
                #expect(retry == row.retry && release == row.release, "\(standing)")
                let isKept = !row.isCancelled && !row.isReplaced
                #expect(retry.waits == isKept && release.waits == isKept, "\(standing)")
            case .stale: #expect(retry == .ignore(.leaseIsOver) && release == .ignore(.leaseIsOver))
            case .ended: #expect(retry == .ignore(.hasEnded) && release == .ignore(.hasEnded))
            }
        }
    }

    @Test("A retry that counts needs a step of the plan", arguments: [-1, 0, 1, 2, Int.max])
    func steps(_ step: Int) {
        let transition = Resolution.Transition.retry(at: Self.moment, step: step)
        let isStep = step == 0 || step == 1
        for facts in Self.all(.claimed) + Self.all(.settled) {
            let decision = RecordRules.decide(transition, mayHaveBeenSent: false, facts)
            #expect((decision == .refuse(.step(step))) == !isStep, "\(facts)")
        }
        for facts in Self.all(.stale) + Self.all(.ended) {
            guard case .ignore = RecordRules.decide(transition, mayHaveBeenSent: false, facts) else {
                Issue.record("a retry without a lease has an effect: \(facts)")
                continue
            }
        }
        let refusal: RefusedResolution? = isStep ? nil : .step(step)
        #expect(RecordRules.refusal(of: transition, steps: 2) == refusal)
        #expect(RecordRules.refusal(of: transition, steps: nil) == nil)
    }

    @Test("A refusal before anything is written is the one under a lease in force")
    func refusals() {
        let transitions = DeliveryState.allCases.map { Resolution.Transition.end($0) } + [Self.retry, .release]
        for transition in transitions {
            let refusal = RecordRules.refusal(of: transition, steps: 2)
            let decision = RecordRules.decide(transition, mayHaveBeenSent: false, Self.facts(.claimed))
            if let refusal {
                #expect(decision == .refuse(refusal), "\(transition)")
            } else {
                #expect(decision.waits || decision == .end(transition.ending ?? .sending), "\(transition)")
            }
        }
        #expect(
            RefusedResolution.state(.sending).error(of: 7) == .refused("a delivery cannot end in the state sending")
        )
        #expect(RefusedResolution.step(3).error(of: 7) == .refused("the plan of delivery 7 has no step 3"))
    }

    @Test("A delivery that is withdrawn is cancelled, or unknown when it may have been sent")
    func withdrawal() {
        #expect(RecordRules.withdrawnState(mayHaveBeenSent: false) == .cancelled)
        #expect(RecordRules.withdrawnState(mayHaveBeenSent: true) == .unknown)
    }

    @Test("The rules lead to the states of the table, and to no other")
    func table() {
        let table = DeliveryState.transitions
        for state in DeliveryState.allCases {
            #expect(state.canBeRecorded == table.allows(.end, from: .sending, to: state), "\(state.rawValue)")
            #expect(state.canBeRecordedLate == table.allows(.lateEnd, from: .queued, to: state), "\(state.rawValue)")
            #expect(state.canBeRecorded == state.isFinal, "\(state.rawValue)")
        }
        for mayHaveBeenSent in Self.booleans {
            let state = RecordRules.withdrawnState(mayHaveBeenSent: mayHaveBeenSent)
            for event in [DeliveryEvent.cancel, .replace] {
                for before in [DeliveryState.queued, .scheduled, .retrying, .sending] {
                    #expect(table.allows(event, from: before, to: state), "\(event.rawValue) from \(before.rawValue)")
                }
            }
        }
    }
}

extension Resolution.Transition {
    /// The state in which it ends a delivery; nil when the delivery waits again.
    fileprivate var ending: DeliveryState? {
        guard case .end(let state) = self else { return nil }
        return state
    }
}
