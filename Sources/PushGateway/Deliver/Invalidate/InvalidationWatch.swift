internal import Foundation
internal import PushCore
internal import Synchronization

/// The guard of one backend, shared by its lanes: a reload replaces the lane, the doubt stays.
final class InvalidationWatch: Sendable {
    private struct Guarded {
        var state: InvalidationGuard
        /// Is told when the doubt begins or ends; that of the newest lane.
        var onChange: (@Sendable (_ isHeld: Bool) -> Void)?
    }

    /// The backend's name.
    let backend: String
    private let guarded: Mutex<Guarded>

    init(_ backend: String, _ state: InvalidationGuard) {
        self.backend = backend
        guarded = Mutex(Guarded(state: state))
    }

    /// Why the backend's verdicts are doubted; nil when they are believed.
    var trip: InvalidationGuard.Trip? { guarded.withLock { $0.state.trip } }

    /// The settings it goes by.
    var settings: GatewayConfiguration.InvalidationGuard { guarded.withLock { $0.state.settings } }

    /// Tells the newest lane of changes.
    func observe(_ onChange: @escaping @Sendable (_ isHeld: Bool) -> Void) {
        guarded.withLock { $0.onChange = onChange }
    }

    /// Puts other settings in force; counting begins anew, a doubt stays.
    func adopt(_ settings: GatewayConfiguration.InvalidationGuard) {
        guarded.withLock { guarded in
            guard guarded.state.settings != settings else { return }
            guarded.state = InvalidationGuard(settings, trip: guarded.state.trip)
        }
    }

    /// Notes answers; see ``InvalidationGuard/note(answers:doubtful:certain:at:)``.
    ///
    /// - Parameters:
    ///   - answers: How many came.
    ///   - doubtful: How many of them declared a token dead that may be alive.
    ///   - certain: How many of them declared a token dead for certain.
    ///   - now: The time.
    ///   - carry: Takes the verdict before another one can be given: what it does happens in the order of the verdicts. It must
    ///     not block.
    /// - Returns: What becomes of the tokens.
    func note(
        answers: Int,
        doubtful: Int,
        certain: Int,
        at now: TimeReading,
        carry: (InvalidationGuard.Verdict) -> Void
    ) -> InvalidationGuard.Verdict {
        let (verdict, onChange) = guarded.withLock { guarded in
            let verdict = guarded.state.note(answers: answers, doubtful: doubtful, certain: certain, at: now)
            carry(verdict)
            guard case .trip = verdict else { return (verdict, (@Sendable (Bool) -> Void)?.none) }
            return (verdict, guarded.onChange)
        }
        onChange?(true)
        return verdict
    }

    /// Ends the doubt; `now` is by the steady clock.
    func settle(isTrusting: Bool, at now: Date) {
        let onChange = guarded.withLock { guarded in
            guarded.state.settle(isTrusting: isTrusting, at: now)
            return guarded.onChange
        }
        onChange?(false)
    }
}
