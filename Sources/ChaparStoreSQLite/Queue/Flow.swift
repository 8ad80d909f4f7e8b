import Dispatch
import ChaparCore

/// The deliveries that wait for one backend from one caller at one priority: their number, and those that come next.
///
/// The window holds the waiting deliveries with the lowest keys, as many as fit. All others are on disk only and have a
/// key of at least ``frontier``. So the front of the window is always the next delivery, with any mixture of fresh,
/// scheduled and retried ones, and a delivery that is claimed at once never has to be read back. Used by the
/// writer's thread only, so what it does for each delivery is not checked for exclusive access.
final class Flow {
    /// The limits of the windows of all flows.
    final class Budget {
        /// The bytes that each flow may always hold, with any use by the others.
        static let assured = 512 << 10

        /// The most deliveries that each flow may hold.
        let deliveries: Int
        /// The bytes of all flows together below which a flow may hold more than its assured part.
        let bytes: Int
        fileprivate(set) var used = 0

        init(deliveries: Int, bytes: Int) {
            self.deliveries = deliveries
            self.bytes = bytes
        }
    }

    let number: Int64
    let isUrgent: Bool
    let caller: String
    /// The queue that it belongs to, which keeps it alive.
    unowned(unsafe) var queue: BackendQueue
    private let budget: Budget
    /// The waiting deliveries in memory that are due.
    @exclusivity(unchecked) private var ready = SortedQueue()
    /// The waiting deliveries in memory that are not due yet.
    @exclusivity(unchecked) private var later = SortedQueue()
    /// The bytes of both.
    private var bytes = 0
    /// The lowest key that a waiting delivery on disk may have, and above every key in the window; nil when none is on
    /// disk only.
    private(set) var frontier: DueKey?
    /// The number of deliveries that wait, in memory and on disk.
    private(set) var waiting = 0
    /// The number of deliveries that wait in memory behind one with the same collapse ID.
    private(set) var held = 0
    /// The exemption from back-pressure of a flow that was not much faster while its callers were delayed: the time to
    /// check it again, and ``taken`` at the last check.
    var leftAlone: (until: DispatchTime, taken: Int)?
    /// The number of deliveries that were given out since the start.
    private(set) var taken = 0

    /// Makes a flow, with the number and the lowest key of its deliveries on disk.
    init(
        number: Int64,
        in queue: BackendQueue,
        isUrgent: Bool,
        caller: String,
        budget: Budget,
        waiting: Int = 0,
        frontier: DueKey? = nil
    ) {
        self.number = number
        self.queue = queue
        self.isUrgent = isUrgent
        self.caller = caller
        self.budget = budget
        self.waiting = waiting
        self.frontier = frontier
    }

    var windowCount: Int { ready.count + later.count }
    var onDisk: Int { waiting - windowCount - held }

    /// Returns the due time of the waiting delivery that comes next; nil when none is due.
    func oldestDue(now: Int64) -> Int64? {
        guard let due = next?.due, due <= now, due != .min else { return nil }
        return due
    }

    /// The key of the waiting delivery that comes next, or a key that is lower; nil when none waits.
    var next: DueKey? {
        guard let first = windowFirst else { return frontier }
        return frontier.map { min($0, first) } ?? first
    }

    /// Whether something may be due.
    func hasDue(_ now: Int64) -> Bool { next.map { $0.due <= now } ?? false }

    private var windowFirst: DueKey? {
        switch (ready.first, later.first) {
        case (let one?, let other?): min(one, other)
        case (let one?, nil): one
        case (nil, let other): other
        }
    }

    /// Whether a delivery with this key comes before all that wait, so that it can bypass the window.
    func isNext(_ key: DueKey) -> Bool { next.map { key < $0 } ?? true }

    /// Adds a delivery that waits from now on; one that does not fit, or comes after others on disk, stays on disk.
    func add(_ entry: Entry, now: Int64) {
        waiting += 1
        keep(entry, now: now)
    }

    /// Whether a delivery with this key would stay on disk, since it or others before it are there.
    func comesAfterDisk(_ key: DueKey) -> Bool { frontier.map { $0 <= key } ?? false }

    /// Counts a delivery that waits on disk from now on.
    func add(onDisk key: DueKey) {
        waiting += 1
        frontier = frontier.map { min($0, key) } ?? key
    }

    /// Adds a delivery that was on disk only, and that nothing on disk precedes.
    func load(_ entry: Entry, now: Int64) { put(entry, now: now) }

    /// Whether this number of new deliveries, of this many bytes, surely stays in memory until they are claimed.
    func hasCapacity(for new: Int, bytes more: Int) -> Bool {
        frontier == nil && windowCount + held + new <= budget.deliveries && hasCapacity(bytes: more)
    }

    /// Whether the window may hold this many more bytes.
    func hasCapacity(bytes more: Int) -> Bool {
        bytes + more <= Budget.assured || budget.used + more <= budget.bytes
    }

    private func keep(_ entry: Entry, now: Int64) {
        if comesAfterDisk(entry.key) { return }
        put(entry, now: now)
        guard windowCount > budget.deliveries || !hasCapacity(bytes: 0) else { return }
        moveDue(now)  // So that what goes back to disk comes after everything that stays.
        // Deliveries without a row stay: the window can exceed its limit by those that were claimed and came back, no
        // more.
        while windowCount > budget.deliveries || !hasCapacity(bytes: 0) && windowCount > 1,
            !later.isEmpty || !ready.endsWithoutRow, let last = later.popLast() ?? ready.popLast()
        {
            count(-last.bytes)
            frontier = frontier.map { min($0, last.key) } ?? last.key
        }
    }

    private func put(_ entry: Entry, now: Int64) {
        count(entry.bytes)
        if entry.due <= now { ready.insert(entry) } else { later.insert(entry) }
    }

    private func count(_ more: Int) {
        bytes += more
        budget.used += more
    }

    /// Records that everything before `next` was read into memory.
    func advanceFrontier(to next: DueKey?) { frontier = next }

    /// Empties the window, since the times on disk have changed; everything in it has a row.
    func readAgain() {
        while let entry = ready.popLast() ?? later.popLast() { count(-entry.bytes) }
        frontier = onDisk > 0 ? .lowest : nil
    }

    /// Takes the delivery that comes next out of the window, if it is due and nothing on disk comes before it.
    func takeNext(now: Int64) -> Entry? {
        moveDue(now)
        guard let first = ready.first, frontier.map({ first < $0 }) ?? true, let entry = ready.popFirst() else {
            return nil
        }
        count(-entry.bytes)
        waiting -= 1
        taken += 1
        return entry
    }

    private func moveDue(_ now: Int64) {
        while let first = later.first, first.due <= now, let entry = later.popFirst() { ready.insert(entry) }
    }

    /// Counts a delivery that was claimed without waiting.
    func passThrough() { taken += 1 }

    /// Whether more than `limit` deliveries are due although some are being sent, and most of them are still in memory
    /// or could soon be.
    func isOutrun(above limit: Int) -> Bool {
        if leftAlone != nil, waiting <= limit / 2 { leftAlone = nil }
        return ready.count > limit && onDisk <= 4 * budget.deliveries && queue.claimed > 0 && leftAlone == nil
    }

    /// Holds back a delivery that ``takeNext(now:)`` returned.
    func hold() {
        waiting += 1
        held += 1
    }

    /// Releases a delivery that was held back; the caller adds it elsewhere.
    func unhold() {
        waiting -= 1
        held -= 1
    }

    /// Removes a delivery that no longer waits, from wherever it was except among those held back.
    func remove(_ key: DueKey) {
        _ = take(key)
        leave()
    }

    /// Counts one less waiting delivery, which has left the window already.
    func leave() {
        waiting -= 1
        if onDisk == 0 { frontier = nil }
    }

    /// Takes a given delivery out of the window; nil when it is not there.
    func take(_ key: DueKey) -> Entry? {
        guard let entry = ready.remove(key) ?? later.remove(key) else { return nil }
        count(-entry.bytes)
        return entry
    }
}
