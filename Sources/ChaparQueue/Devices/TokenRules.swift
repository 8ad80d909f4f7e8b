import Foundation
internal import ChaparCore

/// The rules of registration and refusal, applied by every store.
extension RegisteredToken {
    /// Returns the registration to store when the same token was registered before as `old`.
    ///
    /// The old tombstone is kept unless the registration is younger; a tombstone in the registration itself, as from an
    /// export, replaces the old one. The same rule applies to the refusal of a single backend, so a backend whose
    /// configuration was wrong is tried again once the app has restarted. The environment is kept unless the
    /// registration has another one.
    public func registered(over old: RegisteredToken?) -> RegisteredToken {
        var new = self
        new.registeredAt = registeredAt.toMillisecond
        new.tombstone = (tombstone ?? old?.tombstone).map(\.toMillisecond)
        if new.environment == .unknown, let old { new.environment = old.environment }
        if new.refusals.isEmpty, let old { new.refusals = old.refusals }
        new.refusals = new.refusals.map(\.toMillisecond).filter { $0.asOf >= new.registeredAt }
        if let known = new.tombstone, known.asOf < new.registeredAt { new.tombstone = nil }
        return new
    }

    /// The effect of a refusal by one of several backends on this registration.
    public enum RefusalEffect: Sendable, Hashable {
        /// None: the registration is younger, of another kind, or dead already.
        case none
        /// The backend is not used for the token from now on.
        case refused(RegisteredToken)
        /// All others have refused the token before: it is dead, or all of them are wrongly configured.
        case exhausted
    }

    /// Returns the effect on this registration of a refusal that may be true for its backend only
    /// (``ChaparQueue/TokenRefusal/alternatives``).
    public func effect(of refusal: TokenRefusal) -> RefusalEffect {
        guard isAlive, isMeant(by: refusal) else { return .none }
        let others = refusal.alternatives
        if others.allSatisfy({ name in refusals.contains { $0.backend == name } }) { return .exhausted }
        var new = self
        new.refusals.removeAll { $0.backend == refusal.backend }
        if new.refusals.count >= BackendRefusal.maximum { new.refusals.removeFirst() }
        let asOf = max(registeredAt, min(refusal.asOf, refusal.at))
        new.refusals.append(
            BackendRefusal(backend: refusal.backend, reason: refusal.reason, asOf: asOf).toMillisecond
        )
        return .refused(new)
    }

    /// The registration after a quarantined tombstone was discarded, with all refusals, which were wrong too.
    public var discarded: RegisteredToken {
        var alive = self
        alive.tombstone = nil
        alive.refusals = []
        return alive
    }

    /// Whether a device that has this token keeps it when another one registers it as `other`.
    package func isYounger(than other: RegisteredToken) -> Bool {
        registeredAt.millisecondsSince1970 > other.registeredAt.millisecondsSince1970
    }

    /// Whether a refusal applies to this registration: the refusal is not older, and the message was for tokens of this
    /// kind.
    ///
    /// A caller may send a token a message of another kind than the token's, such as a call. The platform then answers
    /// about another topic, and the token may be valid at its own.
    private func isMeant(by refusal: TokenRefusal) -> Bool {
        registeredAt.millisecondsSince1970 <= refusal.asOf.millisecondsSince1970
            // All Live Activities have one topic: their names do not count.
            && (kind == refusal.kind || kind.isOfActivity && refusal.kind.isOfActivity)
    }

    /// Returns the registration after a refusal; nil when the refusal changes nothing.
    ///
    /// The tombstone's time is never later than the time when the gateway learned of it: a platform's clock that is
    /// ahead must not keep a token dead that is registered again afterwards.
    public func refused(_ refusal: TokenRefusal, isQuarantined: Bool) -> RegisteredToken? {
        guard isMeant(by: refusal) else { return nil }
        if let tombstone, !tombstone.isQuarantined || isQuarantined { return nil }
        var dead = self
        dead.tombstone =
            Tombstone(
                asOf: max(registeredAt, min(refusal.asOf, refusal.at)),
                at: refusal.at,
                backend: refusal.backend,
                reason: refusal.reason,
                isQuarantined: isQuarantined
            ).toMillisecond
        return dead
    }
}

extension TokenKind {
    fileprivate var isOfActivity: Bool {
        switch self {
        case .liveActivityStart, .liveActivityUpdate: true
        default: false
        }
    }
}

extension Tombstone {
    fileprivate var toMillisecond: Tombstone {
        var rounded = self
        rounded.asOf = asOf.toMillisecond
        rounded.at = at.toMillisecond
        return rounded
    }
}

extension BackendRefusal {
    fileprivate var toMillisecond: BackendRefusal {
        var rounded = self
        rounded.asOf = asOf.toMillisecond
        return rounded
    }
}

extension Date {
    /// The time to the millisecond, as stores keep it.
    fileprivate var toMillisecond: Date { Date(millisecondsSince1970: millisecondsSince1970) }
}

extension Device {
    /// Returns the device to store when it replaces an older registration.
    ///
    /// Tokens of other kinds are kept unless the new registration has one for the same slot: an app registers them when
    /// calls or Live Activities begin, not each time it starts.
    public func replacing(_ old: Device) -> Device {
        var new = self
        var room = Self.maximumKindTokens - new.tokens.count { $0.kind != .device }
        for token in old.tokens.sorted(by: { $0.registeredAt > $1.registeredAt })
        where room > 0 && token.kind != .device
            && !new.tokens.contains(where: { $0.slot == token.slot || $0.token == token.token })
        {
            new.setToken(token)
            room -= 1
        }
        return new
    }

    /// The device with all times to the millisecond, as stores keep them.
    package var roundedToMilliseconds: Device {
        var rounded = self
        rounded.createdAt = createdAt.toMillisecond
        rounded.updatedAt = updatedAt.toMillisecond
        rounded.lastSeen = lastSeen?.toMillisecond
        return rounded
    }
}
