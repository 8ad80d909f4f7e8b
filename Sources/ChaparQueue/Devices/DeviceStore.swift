public import Foundation
public import ChaparCore

/// The device registry: users' devices, the tokens that they registered, and which of those are dead.
///
/// Every implementation makes these promises, which the conformance suite of `ChaparStoreContract` checks:
/// * A call that returns has been committed and survives any crash; each call is one transaction.
/// * Within an app (``ChaparCore/AppName``, part of a device's key) a token belongs to one device: registering it for
///   another device takes it from the first, unless the first registered it at a later time. A device has at most one
///   token of a slot (``TokenSlot``: a service and a kind).
/// * A refusal invalidates a token only where it was registered at or before the time the platform gave, so that a
///   device that has registered again since stays valid. Registering a token at a later time than its tombstone's
///   removes the tombstone.
/// * Only ``delete(_:outbox:)`` removes a device: a dead token is marked, never dropped.
/// * Memory does not grow with the number of devices.
/// * A call with an `outbox` time stores its changes in the same commit, as an ``OutboxChange`` of that time, also for
///   devices that lose a token to another one (``OutboxStore/unplannedChanges(limit:wait:)``). No plugin is called.
/// * The outbox is bounded: a call that would add to a full one is refused with
///   ``ChaparCore/StoreError/full(reason:retryAfter:)``. Platforms' verdicts about tokens are stored nevertheless;
///   there are no more of these changes than tokens.
///
/// Times are kept to the millisecond.
public protocol DeviceStore: Sendable {
    /// Creates devices, or replaces them except for tokens of other kinds (``Device/replacing(_:)``); returns a result
    /// for each, in order.
    ///
    /// At most 1,000 at a time; of a repeated id the last counts. ``Device/createdAt`` of an existing device is kept. A
    /// tombstone stays on a token that is registered again at or before the tombstone's time, wherever it was before.
    func put(_ devices: [Device], outbox: Date?) async throws(StoreError) -> [DevicePut]

    /// Reads, changes and writes back one device in one transaction; nil when there is none.
    ///
    /// The rules of ``put(_:outbox:)`` apply to the changed device; `change` cannot change the id or the time of
    /// creation.
    func patch(
        _ id: String,
        outbox: Date?,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device?

    /// Removes a device with its tokens; returns false when there was none.
    func delete(_ id: String, outbox: Date?) async throws(StoreError) -> Bool

    /// Puts devices into the outbox for one backend as if they were new; ids without a device are skipped.
    ///
    /// It is used for platforms that are new in the configuration; returns the number of devices.
    func backfill(_ ids: [String], to backend: String, at moment: Date) async throws(StoreError) -> Int

    /// Returns the devices with these ids, by id, in one read; those that do not exist are missing.
    ///
    /// For delivery workers, which make one call for each claimed batch.
    func devices(_ ids: [String]) async throws(StoreError) -> [String: Device]

    /// Returns at most `limit` devices of these users in one read: user by user in the order given, the oldest first.
    func devices(ofUsers users: [String], limit: Int) async throws(StoreError) -> [Device]

    /// Returns at most `limit` devices of an app with a token of a kind, dead or alive: the oldest first.
    ///
    /// For kinds other than ``ChaparCore/TokenKind/device``, such as the devices that show a Live Activity.
    func devices(withTokenOf kind: TokenKind, in app: AppName, limit: Int) async throws(StoreError) -> [Device]

    /// Returns a page of the devices that match a query.
    ///
    /// A device that matches all the time is returned exactly once, also when other devices change between pages.
    func list(_ query: DeviceQuery, after cursor: DeviceCursor?, limit: Int) async throws(StoreError) -> DevicePage

    /// Returns the device of an app that has a token now; nil when none has registered it.
    func device(having token: DeviceToken, in app: AppName) async throws(StoreError) -> Device?

    // MARK: Refused tokens

    /// Records refusals that may hold for their backends only (``RegisteredToken/refusals``).
    ///
    /// Returns the refusals that it does not record: those of tokens that all alternative backends have already
    /// refused, and the last refusals (``TokenRefusal/isLast``) of tokens that are not registered.
    func record(_ refusals: [TokenRefusal]) async throws(StoreError) -> [TokenRefusal]

    /// Removes the refusals by single backends of up to `limit` tokens.
    ///
    /// For operators whose configuration was wrong.
    /// - Returns: The number of tokens; call again until it is 0.
    func forgetRefusals(limit: Int) async throws(StoreError) -> Int

    // MARK: Dead tokens

    /// Removes tokens from the devices of an app that have them; other tokens are ignored.
    ///
    /// It is for tokens that are no longer needed, such as those of a Live Activity that has ended. It needs no space,
    /// so it works in a full store as well.
    func remove(_ tokens: [DeviceToken], in app: AppName) async throws(StoreError)

    /// Puts a tombstone on each of these tokens, where it is registered, of the refusal's kind and not younger than the
    /// refusal (``RegisteredToken/refused(_:isQuarantined:)``).
    ///
    /// Returns the tokens that were alive before; one that is dead already is not returned again. A quarantined
    /// tombstone becomes a real one.
    func invalidate(_ refusals: [TokenRefusal], outbox: Date?) async throws(StoreError) -> [InvalidatedToken]

    /// Does the same as ``invalidate(_:outbox:)``, but quarantines the tombstones: the tokens count as alive.
    ///
    /// A token that is dead already stays dead.
    /// - Returns: The number of new tombstones.
    func quarantine(_ refusals: [TokenRefusal]) async throws(StoreError) -> Int

    /// Quarantines the tombstones that a backend caused since a time (``Tombstone/at``): the tokens count as alive
    /// again.
    ///
    /// - Returns: The number of tombstones.
    func quarantine(tombstonesOf backend: String, since moment: Date) async throws(StoreError) -> Int

    /// Returns the quarantined tokens of each backend that has any, in the order of the backends' names.
    func quarantined() async throws(StoreError) -> [QuarantinedTokens]

    /// Returns tokens with quarantined tombstones of a backend, those of the devices after a cursor.
    ///
    /// About `limit`: a device's tokens are never on two pages.
    func quarantined(of backend: String, after cursor: DeviceCursor?, limit: Int) async throws(StoreError)
        -> (tokens: [InvalidatedToken], next: DeviceCursor?)

    /// Makes up to `limit` quarantined tombstones of a backend real ones.
    ///
    /// - Returns: The tokens that are dead now; call again until there are none.
    func invalidate(quarantinedOf backend: String, limit: Int, outbox: Date?) async throws(StoreError)
        -> [InvalidatedToken]

    /// Removes up to `limit` quarantined tombstones of a backend: the tokens were alive and stay alive, and no backend
    /// counts as having refused them.
    ///
    /// - Returns: The number of removed tombstones; call again until it is 0.
    func discard(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> Int
}

extension DeviceStore {
    /// Creates or replaces devices without the outbox.
    @discardableResult
    public func put(_ devices: [Device]) async throws(StoreError) -> [DevicePut] {
        try await put(devices, outbox: nil)
    }

    /// Changes a device without the outbox.
    public func patch(
        _ id: String,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device? {
        try await patch(id, outbox: nil, change)
    }

    /// Removes a device without the outbox.
    public func delete(_ id: String) async throws(StoreError) -> Bool { try await delete(id, outbox: nil) }

    /// Puts tombstones on tokens without the outbox.
    public func invalidate(_ refusals: [TokenRefusal]) async throws(StoreError) -> [InvalidatedToken] {
        try await invalidate(refusals, outbox: nil)
    }

    /// Makes quarantined tombstones real without the outbox.
    public func invalidate(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> [InvalidatedToken] {
        try await invalidate(quarantinedOf: backend, limit: limit, outbox: nil)
    }

    /// Returns the device of the default app that has a token now.
    public func device(having token: DeviceToken) async throws(StoreError) -> Device? {
        try await device(having: token, in: .default)
    }

    /// Returns the device with this id; nil when there is none.
    public func device(_ id: String) async throws(StoreError) -> Device? { try await devices([id])[id] }
}
