public import Foundation
public import PushCore

/// The device registry: who has which devices, which tokens they registered, which of those are dead.
///
/// What every implementation promises, checked by the conformance suite of `PushTesting`:
/// * A call that returns has been committed and survives any crash; each call is one transaction, whole or not at all.
/// * Within an app (``PushCore/AppName``, which a device's key tells) a token belongs to one device: registering it for
///   another device takes it from the first, unless the first registered it at a later time. A device has at most one
///   token of a slot (``TokenSlot``: a service and a kind).
/// * A refusal invalidates a token only where it was registered at or before the time the platform gave, so a device
///   that registered again meanwhile stays valid. Registering a token at a later time than its tombstone's ends the
///   tombstone.
/// * Nothing but ``delete(_:outbox:)`` removes a device: a dead token is marked, never dropped.
/// * Memory does not grow with the number of devices.
/// * A call with an `outbox` time keeps what it changes in the same commit, as an ``OutboxChange`` of that time, also
///   for devices that lose a token to another one (``OutboxStore/unplannedChanges(limit:wait:)``). No plugin is asked.
/// * The outbox is bounded: a call that would add to a full one is refused with
///   ``PushCore/StoreError/full(reason:retryAfter:)``. What platforms say about tokens is kept nevertheless; there are
///   no more of these changes than tokens.
///
/// Times are kept to the millisecond.
public protocol DeviceStore: Sendable {
    /// Creates devices, or replaces them whole but for tokens of other kinds (``Device/replacing(_:)``); returns what
    /// became of each, in the same order.
    ///
    /// At most 1,000 at a time; of a repeated id the last counts. ``Device/createdAt`` of a device that exists is kept.
    /// A tombstone stays on a token that is registered again at or before the tombstone's time, wherever it was before.
    func put(_ devices: [Device], outbox: Date?) async throws(StoreError) -> [DevicePut]

    /// Reads, changes and writes back one device in one transaction; nil when there is none.
    ///
    /// The rules of ``put(_:outbox:)`` hold for what `change` leaves; it cannot change the id or the time of creation.
    func patch(
        _ id: String,
        outbox: Date?,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device?

    /// Removes a device with its tokens; false when there was none.
    func delete(_ id: String, outbox: Date?) async throws(StoreError) -> Bool

    /// Puts devices into the outbox for one backend as if they were new; those that do not exist are passed over.
    ///
    /// For platforms that are new; returns how many devices there were.
    func backfill(_ ids: [String], to backend: String, at moment: Date) async throws(StoreError) -> Int

    /// The devices with these ids, by id, in one read; those that do not exist are missing.
    ///
    /// For delivery workers: one call for each claimed batch.
    func devices(_ ids: [String]) async throws(StoreError) -> [String: Device]

    /// The devices of these users in one read, at most `limit`: user by user in the order given, the oldest first.
    func devices(ofUsers users: [String], limit: Int) async throws(StoreError) -> [Device]

    /// The devices of an app that have a token of a kind, dead or alive, at most `limit`: the oldest first.
    ///
    /// For kinds other than ``PushCore/TokenKind/device``: who shows a Live Activity.
    func devices(withTokenOf kind: TokenKind, in app: AppName, limit: Int) async throws(StoreError) -> [Device]

    /// A page of the devices that fit a query.
    ///
    /// Nobody who is in the list all the time is left out or given twice, whatever changes between pages.
    func list(_ query: DeviceQuery, after cursor: DeviceCursor?, limit: Int) async throws(StoreError) -> DevicePage

    /// Who of an app has a token now; nil when nobody registered it.
    func device(having token: DeviceToken, in app: AppName) async throws(StoreError) -> Device?

    // MARK: Refused tokens

    /// Records refusals that may hold for their backends only (``RegisteredToken/refusals``).
    ///
    /// Returns those of tokens that all alternatives have refused before, and the last ones (``TokenRefusal/isLast``)
    /// of tokens that nobody registered; nothing is recorded of these.
    func record(_ refusals: [TokenRefusal]) async throws(StoreError) -> [TokenRefusal]

    /// Forgets what single backends refused, of up to `limit` tokens.
    ///
    /// For operators whose configuration was wrong.
    /// - Returns: How many tokens there were; call again until there are none.
    func forgetRefusals(limit: Int) async throws(StoreError) -> Int

    // MARK: Dead tokens

    /// Takes tokens away from the devices of an app that have them; of the others nothing is said.
    ///
    /// For tokens that are of no use any more, such as those of a Live Activity that has ended. It needs no room, so a
    /// full store does it as well.
    func remove(_ tokens: [DeviceToken], in app: AppName) async throws(StoreError)

    /// Puts a tombstone on each of these tokens, where it is registered, of the refusal's kind and not younger than the
    /// refusal (``RegisteredToken/refused(_:isHeld:)``).
    ///
    /// Returns the tokens that were alive before; one that is dead already is not returned again. A tombstone that was
    /// held back becomes a real one.
    func invalidate(_ refusals: [TokenRefusal], outbox: Date?) async throws(StoreError) -> [InvalidatedToken]

    /// As ``invalidate(_:outbox:)``, but the tombstones are quarantined: the tokens count as alive.
    ///
    /// A token that is dead already stays dead.
    /// - Returns: How many tombstones are new.
    func quarantine(_ refusals: [TokenRefusal]) async throws(StoreError) -> Int

    /// Turns the tombstones that a backend caused since a moment (``Tombstone/at``) into quarantined ones: the tokens
    /// count as alive again.
    ///
    /// - Returns: How many there were.
    func quarantine(tombstonesOf backend: String, since moment: Date) async throws(StoreError) -> Int

    /// What is quarantined, one entry for each backend that has something, in the order of their names.
    func quarantined() async throws(StoreError) -> [QuarantinedTokens]

    /// Tokens whose tombstones are quarantined for a backend, those of the devices after a cursor.
    ///
    /// About `limit`: a device's tokens are never on two pages.
    func quarantined(of backend: String, after cursor: DeviceCursor?, limit: Int) async throws(StoreError)
        -> (tokens: [InvalidatedToken], next: DeviceCursor?)

    /// Makes up to `limit` quarantined tombstones of a backend real ones.
    ///
    /// - Returns: The tokens that are dead now; call again until there are none.
    func invalidate(quarantinedOf backend: String, limit: Int, outbox: Date?) async throws(StoreError)
        -> [InvalidatedToken]

    /// Forgets up to `limit` quarantined tombstones of a backend: the tokens were alive and stay so, and no backend
    /// counts as having refused them.
    ///
    /// - Returns: How many it forgot; call again until there are none.
    func discard(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> Int
}

extension DeviceStore {
    /// Creates or replaces devices, and leaves the outbox alone.
    @discardableResult
    public func put(_ devices: [Device]) async throws(StoreError) -> [DevicePut] {
        try await put(devices, outbox: nil)
    }

    /// Changes a device, and leaves the outbox alone.
    public func patch(
        _ id: String,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device? {
        try await patch(id, outbox: nil, change)
    }

    /// Removes a device, and leaves the outbox alone.
    public func delete(_ id: String) async throws(StoreError) -> Bool { try await delete(id, outbox: nil) }

    /// Puts tombstones, and leaves the outbox alone.
    public func invalidate(_ refusals: [TokenRefusal]) async throws(StoreError) -> [InvalidatedToken] {
        try await invalidate(refusals, outbox: nil)
    }

    /// Makes quarantined tombstones real, and leaves the outbox alone.
    public func invalidate(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> [InvalidatedToken] {
        try await invalidate(quarantinedOf: backend, limit: limit, outbox: nil)
    }

    /// Who of the default app has a token now.
    public func device(having token: DeviceToken) async throws(StoreError) -> Device? {
        try await device(having: token, in: .default)
    }

    /// The device with this id; nil when there is none.
    public func device(_ id: String) async throws(StoreError) -> Device? { try await devices([id])[id] }
}
