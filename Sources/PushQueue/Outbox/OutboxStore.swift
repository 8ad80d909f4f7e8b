public import Foundation
public import PushCore

/// Where entries on devices wait until their platform has taken or refused them.
///
/// What every implementation promises, checked by the conformance suite of `PushTesting`:
/// * What `add` accepted survives any crash, until it is over or removed.
/// * Of one device's entries at one backend only the oldest can be claimed; the next one only after that is over.
///   Other devices do not wait for it.
/// * A claim is a lease: an entry whose owner died can be claimed again, with the same id and the next number.
/// * A registration adds nothing when the last of its line is one of the same user that nobody has claimed: the device
///   is looked at when it is carried out, so it says the same.
/// * Memory and the cost of a claim do not grow with the number of waiting operations.
/// * A change of a device is in the outbox until it is planned, and survives any crash there. Its entries come after
///   those of all older changes of the device, and before whatever is added later.
public protocol OutboxStore: Sendable {
    /// Keeps entries, all of them or none, in the order given, after those that wait.
    ///
    /// Those of a device with a change that is not planned wait behind it in the outbox.
    func enqueue(_ entries: [OutboxEntry]) async throws(StoreError)

    /// Takes up to `limit` entries of a backend that are due, the longest due first, under a lease.
    ///
    /// Waits for one up to `wait`; returns nothing then or when the task is cancelled.
    func claimEntries(of backend: String, limit: Int, lease: Duration, wait: Duration) async throws(StoreError)
        -> [ClaimedEntry]

    /// Writes what became of claimed entries and the events that tell of it, all in one commit.
    ///
    /// An entry that was removed meanwhile changes nothing, its event is kept. When a lease has lapsed, only
    /// ``OutboxResult/Ending/end`` counts, and nothing while another owner has the entry.
    func record(_ results: [OutboxResult]) async throws(StoreError)

    /// Makes the entries of a backend due that wait for another try, and returns their number.
    ///
    /// Those whose platform asked to wait (``OutboxResult/asksToWait``) keep their time, also over a restart.
    func makeRetriesDue(ofEntriesAt backend: String) async throws(StoreError) -> Int

    /// The entries that wait for a device, in order, the oldest first.
    func entries(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingEntry]

    /// Removes what waits for a backend, of one device or of all; returns how many there were.
    ///
    /// The backend does not hear either of what is in the outbox now, which is not counted.
    func cancelEntries(of backend: String, device: String?) async throws(StoreError) -> Int

    /// How many wait at each backend, and since when the oldest.
    func outboxDepths() async throws(StoreError) -> [String: OutboxDepth]

    // MARK: Outbox

    /// The oldest changes that are not planned, in order, at most `limit`.
    ///
    /// Waits for one up to `wait`; returns nothing then or when the task is cancelled.
    func unplannedChanges(limit: Int, wait: Duration) async throws(StoreError) -> [OutboxChange]

    /// Puts the entries of plans in the place of their changes, all in one commit.
    ///
    /// A plan whose change is not there any more adds nothing: it was planned already.
    func record(_ plans: [OutboxPlan]) async throws(StoreError)

    /// How many changes are not planned, of one device or of all; it may say a few too many, but none only when there
    /// is none.
    func unplannedCount(ofDevice device: String?) async throws(StoreError) -> Int
}

/// An entry under a lease.
public struct ClaimedEntry: Sendable, Hashable {
    /// Its place in the store, which grows with the order of acceptance.
    public var number: Int64
    /// What is to be done.
    public var operation: OutboxEntry
    /// 1 for the first try.
    ///
    /// A try whose owner died counts.
    public var attempt: Int
    /// Which of the entry's claims it is, by a number that only grows: an outcome counts only under the one in force,
    /// an end also when nobody has the entry.
    ///
    /// 0 in a store that tells the claims of one entry by their attempts.
    public var lease: Int64 = 0

    /// Makes a claim.
    public init(number: Int64, operation: OutboxEntry, attempt: Int) {
        self.number = number
        self.operation = operation
        self.attempt = attempt
    }
}

/// What became of a claimed operation.
public struct OutboxResult: Sendable {
    /// What happens to it.
    public enum Ending: Sendable, Hashable {
        /// It is over: taken, refused, or tried too often.
        case end
        /// It waits until a moment, which is a steady time (``PushCore/TimeSource/steady``).
        case retry(at: Date)
        /// It was not tried, for instance because the process ends: it is due at once and the try does not count.
        case release
    }

    /// The claim.
    public var claim: ClaimedEntry
    /// What happens to it.
    public var ending: Ending
    /// Its event, as JSON.
    public var event: [UInt8]?
    /// Whether the platform asked for the wait of ``Ending/retry(at:)``.
    ///
    /// Then ``OutboxStore/makeRetriesDue(ofEntriesAt:)`` leaves it; other endings have no wait.
    public var asksToWait = false

    /// Makes a result.
    public init(_ claim: ClaimedEntry, _ ending: Ending, event: [UInt8]? = nil) {
        self.claim = claim
        self.ending = ending
        self.event = event
    }
}

/// An entry that waits.
public struct WaitingEntry: Sendable, Hashable {
    /// Its place in the store.
    public var number: Int64
    /// What is to be done.
    public var operation: OutboxEntry
    /// How often it was tried.
    public var attempts: Int
    /// When it is due, as a steady time (``PushCore/TimeSource/steady``); nil while an older one of its device waits.
    public var due: Date?

    /// Makes an entry.
    public init(number: Int64, operation: OutboxEntry, attempts: Int, due: Date?) {
        self.number = number
        self.operation = operation
        self.attempts = attempts
        self.due = due
    }
}

/// How much waits at a backend.
public struct OutboxDepth: Sendable, Hashable {
    /// How many operations.
    public var waiting: Int
    /// When the oldest was asked for.
    public var oldest: Date?

    /// Makes a depth.
    public init(waiting: Int, oldest: Date?) {
        self.waiting = waiting
        self.oldest = oldest
    }
}
