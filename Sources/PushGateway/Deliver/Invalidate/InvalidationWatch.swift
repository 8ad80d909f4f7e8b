internal import Foundation
internal import PushCore
internal import Synchronization

/// The guard of one backend, shared by its workers: a reload replaces the worker, a trip stays.
final class InvalidationWatch: Sendable {
    private struct Guarded {
        var state: InvalidationGuard
        /// Called when the guard trips or is reset; that of the newest worker.
        var onChange: (@Sendable (_ isHeld: Bool) -> Void)?
    }

    /// The backend's name.
    let backend: String
    private let guarded: Mutex<Guarded>

    init(_ backend: String, _ state: InvalidationGuard) {
        self.backend = backend
        guarded = Mutex(Guarded(state: state))
    }

    /// Why the guard tripped; nil while it is not tripped.
    var trip: InvalidationGuard.Trip? { guarded.withLock { $0.state.trip } }

    /// The settings it goes by.
    var settings: GatewayConfiguration.InvalidationGuard { guarded.withLock { $0.state.settings } }

    /// Tells the newest worker of changes.
    func observe(_ onChange: @escaping @Sendable (_ isHeld: Bool) -> Void) {
        guarded.withLock { $0.onChange = onChange }
    }

    /// Puts other settings in force; counting begins anew, a trip stays.
    func adopt(_ settings: GatewayConfiguration.InvalidationGuard) {
        guarded.withLock { guarded in
            guard guarded.state.settings != settings else { return }
            guarded.state = InvalidationGuard(settings, trip: guarded.state.trip)
        }
    }

    /// Notes answers; see ``InvalidationGuard/add(answers:uncertain:certain:at:)``.
    ///
    /// - Parameters:
    ///   - answers: How many came.
    ///   - uncertain: How many of them declared a token dead that may be alive.
    ///   - certain: How many of them declared a token dead for certain.
    ///   - now: The time.
    ///   - carry: Takes the verdict before another one can be given: what it does happens in the order of the verdicts. It must
    ///     not block.
    /// - Returns: What becomes of the tokens.
    func add(
        answers: Int,
        uncertain: Int,
        certain: Int,
        at now: TimeReading,
        carry: (InvalidationGuard.Verdict) -> Void
    ) -> InvalidationGuard.Verdict {
        let (verdict, onChange) = guarded.withLock { guarded in
            let verdict = guarded.state.add(answers: answers, uncertain: uncertain, certain: certain, at: now)
            carry(verdict)
            guard case .trip = verdict else { return (verdict, (@Sendable (Bool) -> Void)?.none) }
            return (verdict, guarded.onChange)
        }
        onChange?(true)
        return verdict
    }

    /// Notes answers that another gateway got.
    func count(answers: Int, uncertain: Int, certain: Int, at now: TimeReading) {
        guarded.withLock { $0.state.count(answers: answers, uncertain: uncertain, certain: certain, at: now) }
    }

    /// Holds refusals back since another gateway does; false when they are held already.
    func hold(_ trip: InvalidationGuard.Trip) -> Bool {
        let (isNew, onChange) = guarded.withLock { guarded in (guarded.state.hold(trip), guarded.onChange) }
        if isNew { onChange?(true) }
        return isNew
    }

    /// Resets the guard; `now` is by the steady clock.
    func reset(isTrusting: Bool, at now: Date) {
        let onChange = guarded.withLock { guarded in
            guarded.state.reset(isTrusting: isTrusting, at: now)
            return guarded.onChange
        }
        onChange?(false)
    }
}
