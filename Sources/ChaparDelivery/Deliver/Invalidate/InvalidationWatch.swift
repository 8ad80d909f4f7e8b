internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The guard of one backend, shared by its workers: a reload replaces the worker, but a trip stays.
package final class InvalidationWatch: Sendable {
    private struct Guarded {
        var state: InvalidationGuard
        /// The newest worker's handler, which is called when the guard trips or is reset.
        var onChange: (@Sendable (_ isQuarantined: Bool) -> Void)?
    }

    /// The backend's name.
    let backend: String
    private let guarded: Mutex<Guarded>

    init(_ backend: String, _ state: InvalidationGuard) {
        self.backend = backend
        guarded = Mutex(Guarded(state: state))
    }

    /// The trip; nil when the guard has not tripped.
    var trip: InvalidationGuard.Trip? { guarded.withLock { $0.state.trip } }

    /// The callers whose refusals alone are quarantined.
    var quarantinedCallers: Set<String> { guarded.withLock { Set($0.state.quarantined.keys) } }

    /// The identity under which the platform has accepted a message; nil while it has accepted none.
    var acceptedUnder: String? { guarded.withLock { $0.state.hasAccepted ? $0.state.identity : nil } }

    /// The settings in force.
    var settings: GatewayConfiguration.InvalidationGuard { guarded.withLock { $0.state.settings } }

    /// Sets the newest worker's handler for changes.
    func observe(_ onChange: @escaping @Sendable (_ isQuarantined: Bool) -> Void) {
        guarded.withLock { $0.onChange = onChange }
    }

    /// Applies new settings; counts start from zero, quarantined refusals stay.
    ///
    /// `identity` is that of the configured backend; nil does not change the known one.
    func adopt(_ settings: GatewayConfiguration.InvalidationGuard, identity: String?) {
        guarded.withLock { guarded in
            guarded.state.adopt(settings)
            if let identity { guarded.state.adopt(identity: identity) }
        }
    }

    /// Counts answers in the guard (``InvalidationGuard/add(_:at:)``).
    ///
    /// - Parameters:
    ///   - counts: The numbers of answers.
    ///   - identity: The identity of the backend when it accepted some of them; nil when none was accepted.
    ///   - now: The time.
    ///   - carry: Gets the verdict, and the callers that are not believed. It is called before the next verdict is
    ///     made, so its calls have the order of the verdicts. It must not block.
    func add(
        _ counts: AnswerCounts,
        acceptedUnder identity: String? = nil,
        at now: TimeReading,
        carry: (InvalidationGuard.Verdict, InvalidationGuard.Doubt) -> Void
    ) {
        let (hasTripped, onChange) = guarded.withLock { guarded in
            if let identity { guarded.state.noteAcceptance(under: identity, at: now.steady) }
            let verdict = guarded.state.add(counts, at: now)
            carry(verdict, guarded.state.doubt)
            var hasTripped = false
            if case .trip = verdict { hasTripped = true }
            return (hasTripped, guarded.onChange)
        }
        if hasTripped { onChange?(true) }
    }

    /// Counts answers that another gateway got, and the identity under which it had one accepted.
    func count(_ counts: AnswerCounts, acceptedUnder identity: String?, at now: TimeReading) {
        guarded.withLock { guarded in
            if let identity { guarded.state.noteAcceptance(under: identity, at: nil) }
            guarded.state.count(counts, at: now)
        }
    }

    /// Trips the guard because another gateway's has; false when it has tripped already.
    func adopt(trip: InvalidationGuard.Trip) -> Bool {
        let (isNew, onChange) = guarded.withLock { guarded in (guarded.state.adopt(trip: trip), guarded.onChange) }
        if isNew { onChange?(true) }
        return isNew
    }

    /// Resets the guard; `now` is on the steady clock.
    ///
    /// `carry` is called before the next verdict is made; it must not block.
    func reset(isTrusting: Bool, at now: Date, carry: () -> Void = {}) {
        let onChange = guarded.withLock { guarded in
            guarded.state.reset(isTrusting: isTrusting, at: now)
            carry()
            return guarded.onChange
        }
        onChange?(false)
    }
}
