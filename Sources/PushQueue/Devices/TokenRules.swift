import Foundation
internal import PushCore

/// The rules of registration and refusal, as every store applies them.
extension RegisteredToken {
    /// What is kept of this registration, when the same token had been registered before as `old`.
    ///
    /// A tombstone stays unless the registration is younger than it; one that comes with the registration, as from an
    /// export, goes before the old one. A refusal of a single backend likewise: whoever was configured wrongly gets
    /// another try when the app has started again. An environment stays unless another one is given.
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

    /// What a refusal by one of several backends makes of this registration.
    public enum RefusalEffect: Sendable, Hashable {
        /// Nothing: the registration is younger, of another kind, or dead already.
        case none
        /// The backend is left out from now on.
        case refused(RegisteredToken)
        /// All others have refused the token before: it is dead, or all of them are configured wrongly.
        case exhausted
    }

    /// What a refusal that may hold for its backend only (``PushQueue/TokenRefusal/alternatives``) makes of this
    /// registration.
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

    /// The registration after a quarantined tombstone was discarded: whatever led to it was wrong.
    public var discarded: RegisteredToken {
        var alive = self
        alive.tombstone = nil
        alive.refusals = []
        return alive
    }

    /// Whether another device that has this token keeps it when `other` registers it.
    package func isYounger(than other: RegisteredToken) -> Bool {
        registeredAt.millisecondsSince1970 > other.registeredAt.millisecondsSince1970
    }

    /// Whether a refusal is about this registration: it is not older, and the message was one for tokens of this kind.
    ///
    /// Whoever sends to a token may choose another kind of message than the token is for, such as a call. The platform
    /// then answers about another topic, and the token may be good at its own.
    private func isMeant(by refusal: TokenRefusal) -> Bool {
        registeredAt.millisecondsSince1970 <= refusal.asOf.millisecondsSince1970
            // Live Activities have one topic, whatever their names.
            && (kind == refusal.kind || kind.isOfActivity && refusal.kind.isOfActivity)
    }

    /// What a refusal makes of this registration; nil when it changes nothing.
    ///
    /// The tombstone's time is never later than the moment the gateway learned of it: a platform's clock that is ahead
    /// must not keep a token dead that is registered again afterwards.
    public func refused(_ refusal: TokenRefusal, isHeld: Bool) -> RegisteredToken? {
        guard isMeant(by: refusal) else { return nil }
        if let tombstone, !tombstone.isHeld || isHeld { return nil }
        var dead = self
        dead.tombstone =
            Tombstone(
                asOf: max(registeredAt, min(refusal.asOf, refusal.at)),
                at: refusal.at,
                backend: refusal.backend,
                reason: refusal.reason,
                isHeld: isHeld
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
    /// The time as stores keep it.
    fileprivate var toMillisecond: Date { Date(millisecondsSince1970: millisecondsSince1970) }
}

extension Device {
    /// The device as it takes the place of an older registration.
    ///
    /// Tokens of other kinds stay unless it has one for the same slot: an app registers them when calls or Live
    /// Activities begin, and not each time it starts.
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

    /// The device with all times as stores keep them.
    package var roundedToMilliseconds: Device {
        var rounded = self
        rounded.createdAt = createdAt.toMillisecond
        rounded.updatedAt = updatedAt.toMillisecond
        rounded.lastSeen = lastSeen?.toMillisecond
        return rounded
    }
}
