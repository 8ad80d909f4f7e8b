import ChaparCore
import ChaparQueue

/// The changes of a transaction that follow its commit, and those that memory already shows and a rollback undoes.
///
/// The parts of the writer fill it while they carry out commands; ``Transaction`` applies it after the commit or undoes
/// it. It is reset and used again for each transaction, and itself changes neither the file nor the ``QueueIndex``.
struct PendingChanges {
    /// A change of memory that follows the commit, in the order of the rows.
    enum Effect {
        /// A new delivery waits.
        case added(Entry)
        /// A new delivery waits on disk only.
        case stored(Flow, DueKey)
        /// A claim ended for good.
        case ended(Entry)
        /// A claim ended and the delivery waits again, in the form of the second entry.
        case returned(Entry, as: Entry)
        /// A waiting delivery became final.
        case removed(Flow, DueKey, CollapseKey?)
    }

    /// A call of `claim` and the deliveries that it gets.
    final class Assignment {
        let ticket: ClaimTicket
        let lease: Lease
        @exclusivity(unchecked) var entries: [Entry] = []
        /// The number of deliveries of normal priority that it may still get.
        @exclusivity(unchecked) var normal: Int

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

    /// The number of codes of states, of which the highest is 7 (``DeliveryState/code``).
    private static let states = 8

    /// Counts deliveries that ended.
    mutating func end(_ state: DeliveryState, count: Int = 1) { ends[Int(state.code)] += count }

    /// Whether a transaction has begun.
    var isOpen = false
    private(set) var effects: [Effect] = []
    var events: [[UInt8]] = []
    /// Deliveries taken from their owners, to be given back after a failure.
    var taken: [Entry] = []
    /// Deliveries given to owners, to be taken back after a failure, and whether they waited before.
    var given: [(entry: Entry, waited: Bool)] = []
    var assignments: [Assignment] = []
    /// The assignment of each queue that still takes deliveries.
    var filling: [ObjectIdentifier: Assignment] = [:]
    /// Leases to be listed on disk, with their deliveries.
    var listings: [(lease: Lease, deliveries: [Int64])] = []
    /// New deliveries that are kept without rows.
    var staged: StagedRows?
    /// Deliveries that got their rows, with their former places.
    var written: [(entry: Entry, stagedRow: StagedRow)] = []
    /// Staged rows of which all deliveries have rows now.
    var emptied: [StagedRows] = []
    /// The number of deliveries of each lease that came back.
    var endedClaims: [Int64: Int] = [:]
    /// The new deliveries so far, which count against the bound.
    private(set) var added = 0
    /// The new deliveries of each caller, of which there are few.
    private var addedBy: [(caller: String, count: Int)] = []
    /// The number of deliveries that ended in each final state, by its code.
    var ends = [Int](repeating: 0, count: PendingChanges.states)
    /// Resolutions that changed nothing.
    var ignored = 0
    /// The backends that take the place of others from this transaction on, by the former names.
    var moves: [String: String] = [:]
    /// New work to be answered after the commit: its rows, and its flow.
    var accepted: [(rows: Int, flow: Flow, reply: EnqueueReply)] = []
    /// Whether it saves the clocks.
    var areClocksSaved = false
    /// The closures to call after the commit, which answer callers.
    var answers: [() -> Void] = []
    /// The earliest expiry of the deliveries that wait from now on.
    var newExpiry = Int64.max
    /// Whether the windows are read again after it, since it changes times on disk: then everything needs a row.
    var readsAgain = false
    /// The bytes that ``effects`` add to memory.
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

    /// Returns the number of new deliveries of one caller.
    func added(by caller: String) -> Int { addedBy.reduce(0) { $0 + ($1.caller == caller ? $1.count : 0) } }

    /// Adds a change of memory.
    mutating func append(_ effect: Effect) {
        switch effect {
        case .added(let entry), .returned(_, as: let entry): bytes += entry.bytes
        case .stored, .ended, .removed: break
        }
        effects.append(effect)
    }

    /// Resets everything for the next transaction, and keeps the memory.
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
