import PushCore
import PushQueue

/// What a transaction will have done once it is committed, and how to take back what memory already shows of it.
///
/// ``CommitLoop`` fills it while it executes commands, and either applies it after the commit or rolls it back. It is
/// reset and used again for each transaction, and touches neither the file nor the ``QueueIndex`` by itself.
struct PendingChanges {
    /// A change of memory that follows the commit, in the order of the rows.
    enum Effect {
        /// A new delivery waits.
        case added(Entry)
        /// A new delivery waits on disk, and nothing of it in memory.
        case stored(Flow, DueKey)
        /// A claim ended for good.
        case ended(Entry)
        /// A claim ended and the delivery waits again, in the form of the second entry.
        case returned(Entry, as: Entry)
        /// A waiting delivery became final.
        case removed(Flow, DueKey, CollapseKey?)
    }

    /// A call of `claim` and what it gets.
    final class Assignment {
        let ticket: ClaimTicket
        let lease: Lease
        var entries: [Entry] = []
        /// How many of normal priority it may still get.
        var normal: Int

        init(_ ticket: ClaimTicket, _ lease: Lease) {
            self.ticket = ticket
            self.lease = lease
            normal = ticket.normal
        }

        var isFull: Bool { entries.count >= ticket.limit }

        func take(_ entry: Entry) {
            entries.append(entry)
            if !entry.flow.isUrgent { normal -= 1 }
        }
    }

    /// The codes of states, of which the last is 7 (``DeliveryState/code``).
    private static let states = 8

    /// Notes that a delivery ended.
    mutating func end(_ state: DeliveryState) { ends[Int(state.code)] += 1 }

    /// Whether a transaction has begun.
    var isOpen = false
    private(set) var effects: [Effect] = []
    var events: [[UInt8]] = []
    /// Deliveries taken from their owners, to be given back after a failure.
    var taken: [Entry] = []
    /// Deliveries given to owners, to be taken back after a failure; with whether they waited before.
    var given: [(entry: Entry, waited: Bool)] = []
    var assignments: [Assignment] = []
    /// The assignment of each queue that still takes deliveries.
    var filling: [ObjectIdentifier: Assignment] = [:]
    /// Leases to be listed on disk, with their deliveries.
    var listings: [(lease: Lease, deliveries: [Int64])] = []
    /// New deliveries that are kept without rows.
    var staged: StagedRows?
    /// Deliveries that got their rows, with where they were before.
    var written: [(entry: Entry, stagedRow: StagedRow)] = []
    /// Those of which all deliveries have rows now.
    var emptied: [StagedRows] = []
    /// How many deliveries of each lease came back.
    var endedClaims: [Int64: Int] = [:]
    /// New deliveries so far, which count against the bound.
    private(set) var added = 0
    /// Those of each caller, of which there are few.
    private var addedBy: [(caller: String, count: Int)] = []
    /// How many deliveries ended in each final state, by its code.
    var ends = [Int](repeating: 0, count: PendingChanges.states)
    /// Resolutions that changed nothing.
    var ignored = 0
    /// Backends that others take the place of from this transaction on, by the former ones' names.
    var moves: [String: String] = [:]
    /// New work to be answered after the commit: how many rows, in which flow.
    var accepted: [(rows: Int, flow: Flow, reply: EnqueueReply)] = []
    /// Whether the clocks are noted in it, as they stand.
    var areClocksSaved = false
    /// What to do after the commit: answers to callers.
    var answers: [() -> Void] = []
    /// The earliest expiry of what waits from now on.
    var newExpiry = Int64.max
    /// Whether the windows are read again after it, since times on disk change with it: then everything needs a row.
    var readsAgain = false
    /// The bytes that ``effects`` bring into memory.
    private(set) var bytes = 0

    /// Counts new deliveries.
    mutating func add(_ count: Int, by caller: String) {
        added += count
        let last = addedBy.indices.last.flatMap { addedBy[$0].caller == caller ? $0 : nil }
        if let place = last ?? addedBy.firstIndex(where: { $0.caller == caller }) {
            addedBy[place].count += count
        } else {
            addedBy.append((caller, count))
        }
    }

    /// The new deliveries of one caller.
    func added(by caller: String) -> Int { addedBy.reduce(0) { $0 + ($1.caller == caller ? $1.count : 0) } }

    /// Adds a change of memory.
    mutating func append(_ effect: Effect) {
        switch effect {
        case .added(let entry), .returned(_, as: let entry): bytes += entry.bytes
        case .stored, .ended, .removed: break
        }
        effects.append(effect)
    }

    /// Begins a new one in the memory of the last.
    mutating func reset() {
        isOpen = false
        effects.removeAll(keepingCapacity: true)
        events.removeAll(keepingCapacity: true)
        taken.removeAll(keepingCapacity: true)
        given.removeAll(keepingCapacity: true)
        assignments.removeAll(keepingCapacity: true)
        filling.removeAll(keepingCapacity: true)
        listings.removeAll(keepingCapacity: true)
        staged = nil
        written.removeAll(keepingCapacity: true)
        emptied.removeAll(keepingCapacity: true)
        endedClaims.removeAll(keepingCapacity: true)
        added = 0
        addedBy.removeAll(keepingCapacity: true)
        for code in ends.indices { ends[code] = 0 }
        ignored = 0
        moves.removeAll()
        accepted.removeAll(keepingCapacity: true)
        areClocksSaved = false
        answers.removeAll(keepingCapacity: true)
        newExpiry = .max
        readsAgain = false
        bytes = 0
    }
}
