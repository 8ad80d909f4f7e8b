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

    /// The callers whose refusals alone are held.
    var heldCallers: Set<String> { guarded.withLock { Set($0.state.held.keys) } }

    /// The identity under which the platform has accepted a message; nil while it has accepted none.
    var acceptedUnder: String? { guarded.withLock { $0.state.hasAccepted ? $0.state.identity : nil } }

    /// The settings it goes by.
    var settings: GatewayConfiguration.InvalidationGuard { guarded.withLock { $0.state.settings } }

    /// Tells the newest worker of changes.
    func observe(_ onChange: @escaping @Sendable (_ isHeld: Bool) -> Void) {
        guarded.withLock { $0.onChange = onChange }
    }

    /// Puts other settings in force; counting begins anew, what is held stays held.
    ///
    /// `identity` is that of the configured backend; nil leaves it as it is.
    func adopt(_ settings: GatewayConfiguration.InvalidationGuard, identity: String?) {
        guarded.withLock { guarded in
            guarded.state.adopt(settings)
            if let identity { guarded.state.adopt(identity: identity) }
        }
    }

    /// Notes answers; see ``InvalidationGuard/add(_:at:)``.
    ///
    /// - Parameters:
    ///   - counts: How many came, and what they said.
    ///   - identity: That of the backend which accepted some of them; nil when none was accepted.
    ///   - now: The time.
    ///   - carry: Takes the verdict, and whose refusals are not believed, before another verdict can be given: what it
    ///     does happens in the order of the verdicts. It must not block.
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

    /// Notes answers that another gateway got, and the identity under which it had one accepted.
    func count(_ counts: AnswerCounts, acceptedUnder identity: String?, at now: TimeReading) {
        guarded.withLock { guarded in
            if let identity { guarded.state.noteAcceptance(under: identity, at: nil) }
            guarded.state.count(counts, at: now)
        }
    }

    /// Holds refusals back since another gateway does; false when they are held already.
    func hold(_ trip: InvalidationGuard.Trip) -> Bool {
        let (isNew, onChange) = guarded.withLock { guarded in (guarded.state.hold(trip), guarded.onChange) }
        if isNew { onChange?(true) }
        return isNew
    }

    /// Resets the guard; `now` is by the steady clock.
    ///
    /// `carry` is called before another verdict can be given; it must not block.
    func reset(isTrusting: Bool, at now: Date, carry: () -> Void = {}) {
        let onChange = guarded.withLock { guarded in
            guarded.state.reset(isTrusting: isTrusting, at: now)
            carry()
            return guarded.onChange
        }
        onChange?(false)
    }
}
