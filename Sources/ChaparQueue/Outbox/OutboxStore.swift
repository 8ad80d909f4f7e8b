public import Foundation
public import ChaparCore

/// The store of outbox entries, until their platform has taken or refused them.
///
/// Every implementation makes these promises, which the conformance suite of `ChaparStoreContract` checks:
/// * Entries that `enqueue` accepted survive any crash, until they have ended or are removed.
/// * Of one device's entries at one backend only the oldest can be claimed; the next one only after that has ended.
///   Other devices do not wait for it.
/// * A claim is a lease: an entry whose owner died can be claimed again, with the same id and the next number.
/// * A registration adds nothing when the last entry of its device and backend is one of the same user that is not
///   claimed: the device is read when the entry is carried out, so a second one would say the same.
/// * Memory and the cost of a claim do not grow with the number of waiting entries.
/// * A change of a device is in the outbox until it is planned, and survives any crash there. Its entries come after
///   those of all older changes of the device, and before everything that is added later.
public protocol OutboxStore: Sendable {
    /// Stores entries, all of them or none, in the order given, after those that wait.
    ///
    /// Entries of a device that has an unplanned change wait behind this change in the outbox.
    func enqueue(_ entries: [OutboxEntry]) async throws(StoreError)

    /// Claims up to `limit` due entries of a backend under a lease, beginning with the entry that is due the longest.
    ///
    /// Waits up to `wait` for one; returns nothing after that, or when the task is cancelled.
    func claimEntries(of backend: String, limit: Int, lease: Duration, wait: Duration) async throws(StoreError)
        -> [ClaimedEntry]

    /// Records the results of claimed entries with their events, all in one commit.
    ///
    /// A result of an entry that was removed changes nothing, but its event is kept. Under an expired lease only
    /// ``OutboxResult/Ending/end`` counts, and only while no other owner has the entry.
    func record(_ results: [OutboxResult]) async throws(StoreError)

    /// Makes those entries of a backend due that wait for another attempt, and returns their number.
    ///
    /// Entries whose platform asked for the wait (``OutboxResult/asksToWait``) keep their time, also across a restart.
    func makeRetriesDue(ofEntriesAt backend: String) async throws(StoreError) -> Int

    /// Returns the waiting entries of a device, the oldest first.
    func entries(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingEntry]

    /// Removes the waiting entries of a backend, of one device or of all; returns their number.
    ///
    /// Changes that are in the outbox now do not reach the backend either; they are not counted.
    func cancelEntries(of backend: String, device: String?) async throws(StoreError) -> Int

    /// Returns the number of waiting entries of each backend, and the time of the oldest.
    func outboxDepths() async throws(StoreError) -> [String: OutboxDepth]

    // MARK: Outbox

    /// Returns at most `limit` of the oldest unplanned changes, in order.
    ///
    /// Waits up to `wait` for one; returns nothing after that, or when the task is cancelled.
    func unplannedChanges(limit: Int, wait: Duration) async throws(StoreError) -> [OutboxChange]

    /// Replaces changes by the entries of their plans, all in one commit.
    ///
    /// A plan whose change no longer exists adds nothing: it was planned already.
    func record(_ plans: [OutboxPlan]) async throws(StoreError)

    /// Returns the number of unplanned changes, of one device or of all.
    ///
    /// It may be slightly too high, but is 0 only when there are none.
    func unplannedCount(ofDevice device: String?) async throws(StoreError) -> Int
}

/// An entry under a lease.
public struct ClaimedEntry: Sendable, Hashable {
    /// The place in the store, which grows with the order of acceptance.
    public var number: Int64
    /// The entry.
    public var operation: OutboxEntry
    /// The number of the attempt, from 1.
    ///
    /// An attempt whose owner died counts.
    public var attempt: Int
    /// The number of the claim; each claim of an entry has a larger number than the one before.
    ///
    /// A result counts only with the number of the current claim; an end also counts when no owner has the entry.
    ///
    /// It is 0 in a store that distinguishes the claims of one entry by their attempts.
    public var lease: Int64 = 0

    /// Makes a claim.
    public init(number: Int64, operation: OutboxEntry, attempt: Int) {
        self.number = number
        self.operation = operation
        self.attempt = attempt
    }
}

/// The result of a claimed entry.
public struct OutboxResult: Sendable {
    /// The next state of an entry.
    public enum Ending: Sendable, Hashable {
        /// It has ended: taken, refused, or tried too often.
        case end
        /// It waits until a steady time (``ChaparCore/TimeSource/steady``).
        case retry(at: Date)
        /// It was not tried, for instance because the process ends: it is due at once, and the attempt does not count.
        case release
    }

    /// The claim.
    public var claim: ClaimedEntry
    /// The next state.
    public var ending: Ending
    /// Its event, as JSON.
    public var event: [UInt8]?
    /// Whether the platform asked for the wait of ``Ending/retry(at:)``.
    ///
    /// If so, ``OutboxStore/makeRetriesDue(ofEntriesAt:)`` does not shorten it; other endings have no wait.
    public var asksToWait = false

    /// Makes a result.
    public init(_ claim: ClaimedEntry, _ ending: Ending, event: [UInt8]? = nil) {
        self.claim = claim
        self.ending = ending
        self.event = event
    }
}

/// A waiting entry.
public struct WaitingEntry: Sendable, Hashable {
    /// The place in the store.
    public var number: Int64
    /// The entry.
    public var operation: OutboxEntry
    /// The number of attempts made.
    public var attempts: Int
    /// The due time, as a steady time (``ChaparCore/TimeSource/steady``); nil while an older entry of its device waits.
    public var due: Date?

    /// Makes an entry.
    public init(number: Int64, operation: OutboxEntry, attempts: Int, due: Date?) {
        self.number = number
        self.operation = operation
        self.attempts = attempts
        self.due = due
    }
}

/// The waiting entries of a backend.
public struct OutboxDepth: Sendable, Hashable {
    /// The number of entries.
    public var waiting: Int
    /// The time of the oldest request.
    public var oldest: Date?

    /// Makes a depth.
    public init(waiting: Int, oldest: Date?) {
        self.waiting = waiting
        self.oldest = oldest
    }
}
