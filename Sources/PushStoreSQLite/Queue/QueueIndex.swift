import PushCore
import PushQueue

/// Everything the store knows in memory about waiting and claimed deliveries: queues, flows, leases, staged rows.
///
/// ``CommitLoop`` owns it and changes it after each commit; ``OpenedStore`` fills it from the file. It writes nothing
/// itself. Used by the writer's thread only, so what it does for each delivery goes unchecked for exclusive access.
final class QueueIndex {
    private let budget: Flow.Budget
    private var flowsByNumber: [Int64: Flow] = [:]
    private var queuesByName: [String: BackendQueue] = [:]
    private var highestFlow: Int64 = 0
    /// The flow that was asked for last: nearly always the next one too.
    private var lastFlow: (backend: String, flow: Flow)?
    /// Flows that are not on disk yet.
    private(set) var unsavedFlows: [Flow] = []
    /// Which backend takes what plans give to another, by that one's name.
    private(set) var moves: [String: String]
    /// The claimed deliveries, by number.
    @exclusivity(unchecked) private(set) var claims: [Int64: Entry] = [:]
    /// The leases with deliveries that are still out, by number.
    private(set) var leases: [Int64: Lease] = [:]
    /// What is in flight under a collapse id, with the deliveries that wait for its end.
    private var flying: [CollapseKey: [Entry]] = [:]
    private var lastLease: Int64
    /// Deliveries without rows, the oldest first.
    private(set) var staged: [StagedRows] = []
    private var lastStagedRows: Int64 = 0
    /// No waiting delivery expires before this moment, as far as is known.
    var expiryFloor = Int64.min

    /// Makes an empty queueIndex, whose lease numbers are above one.
    init(budget: Flow.Budget, lastLease: Int64, moves: [String: String] = [:]) {
        self.budget = budget
        self.lastLease = lastLease
        self.moves = moves
    }

    var queues: some Collection<BackendQueue> { queuesByName.values }
    var flows: some Collection<Flow> { flowsByNumber.values }
    var waiting: Int { flowsByNumber.values.reduce(0) { $0 + $1.waiting } }
    /// The waiting deliveries of one caller, at all backends.
    func waiting(of caller: String) -> Int {
        flowsByNumber.values.reduce(0) { $0 + ($1.caller == caller ? $1.waiting : 0) }
    }
    /// The deliveries that are in memory without being claimed.
    var inMemory: Int { flowsByNumber.values.reduce(0) { $0 + $1.windowCount + $1.held } }
    /// The bytes of the windows.
    var bytesInMemory: Int { budget.used }

    /// The numbers of the claimed deliveries of a backend.
    func claimedIDs(in queue: BackendQueue) -> Set<Int64> {
        var found = Set<Int64>(minimumCapacity: queue.claimed)
        for (id, entry) in claims where entry.flow.queue === queue { found.insert(id) }
        return found
    }

    // MARK: Queues

    /// Notes a flow found on disk.
    func load(
        number: Int64,
        backend: String,
        isUrgent: Bool,
        caller: String,
        waiting: Int = 0,
        frontier: DueKey? = nil
    ) {
        let queue = queue(named: backend)
        let flow = Flow(
            number: number,
            in: queue,
            isUrgent: isUrgent,
            caller: caller,
            budget: budget,
            waiting: waiting,
            frontier: frontier
        )
        queue.add(flow)
        flowsByNumber[number] = flow
        highestFlow = max(highestFlow, number)
    }

    func flow(number: Int64) -> Flow? { flowsByNumber[number] }

    /// The queue of a backend; nil when there is none yet.
    func existingQueue(_ name: String) -> BackendQueue? { queuesByName[name] }

    /// The queue of a backend, a new one if need be.
    func queue(named name: String) -> BackendQueue {
        if let queue = queuesByName[name] { return queue }
        let queue = BackendQueue(name: name)
        queuesByName[name] = queue
        return queue
    }

    /// The flow of a backend that a plan names, or of the one that takes its place, a new one if need be.
    func flow(of backend: String, isUrgent: Bool, caller: String) -> Flow {
        if let last = lastFlow, last.flow.isUrgent == isUrgent, last.backend == backend, last.flow.caller == caller {
            return last.flow
        }
        let queue = queue(named: moves[backend] ?? backend)
        let flow = queue.flow(isUrgent: isUrgent, caller: caller) ?? makeFlow(in: queue, isUrgent, caller)
        lastFlow = (backend, flow)
        return flow
    }

    private func makeFlow(in queue: BackendQueue, _ isUrgent: Bool, _ caller: String) -> Flow {
        highestFlow = highestFlow.adding(clamping: 1)
        let flow = Flow(number: highestFlow, in: queue, isUrgent: isUrgent, caller: caller, budget: budget)
        queue.add(flow)
        flowsByNumber[flow.number] = flow
        unsavedFlows.append(flow)
        return flow
    }

    func flowsWereSaved() { unsavedFlows.removeAll() }

    /// Hands a queue's flows to another backend, also those that are still to come.
    func move(_ queue: BackendQueue, to other: String) {
        lastFlow = nil
        queue.moveFlows(to: self.queue(named: other))
        for (name, target) in moves where target == queue.name { moves[name] = other }
        moves[queue.name] = other
    }

    /// Ends a move: the backend is there again.
    func endMove(of name: String) {
        lastFlow = nil
        moves[name] = nil
    }

    // MARK: Deliveries without rows

    /// Begins a row of new deliveries; ``keep(_:)`` follows when it was committed.
    func makeStagedRows(at moment: Int64) -> StagedRows {
        lastStagedRows = lastStagedRows.adding(clamping: 1)
        return StagedRows(number: lastStagedRows, at: moment)
    }

    func keep(_ new: StagedRows) { staged.append(new) }

    /// The delivery of a notification that has no row.
    func withoutRow(_ id: NotificationID) -> Entry? {
        for staged in staged { if let entry = staged.entry(id.rawValue) { return entry } }
        return nil
    }

    /// The deliveries of a queue that have no row and are not claimed.
    func stagedAndWaiting(in queue: BackendQueue) -> [Entry] {
        staged.flatMap { $0.open > 0 ? $0.entries : [] }.compactMap { entry in
            entry.flatMap { $0.lease == nil && $0.flow.queue === queue ? $0 : nil }
        }
    }

    /// Deliveries of a caller that have no row, up to a number, as many as `limit`.
    func withoutRow(of caller: String, upTo end: Int64, limit: Int) -> [Entry] {
        var found: [Entry] = []
        for staged in staged where staged.open > 0 {
            for case let entry? in staged.entries where entry.flow.caller == caller && entry.id <= end {
                guard found.count < limit else { return found }
                found.append(entry)
            }
        }
        return found
    }

    /// Forgets those whose deliveries all have rows.
    func dropEmptyStagedRows() { staged.removeAll { $0.open == 0 } }

    /// Lets go of all of them when the store closes: they are on disk.
    func forgetStagedRows() {
        for staged in staged { staged.forget() }
        staged = []
    }

    // MARK: Claims

    func makeLease() -> Lease {
        lastLease = lastLease.adding(clamping: 1)
        return Lease(number: lastLease)
    }

    /// Gives a delivery to an owner.
    ///
    /// False, and held back, when one with the same collapse id is in flight.
    func claim(_ entry: Entry, under lease: Lease) -> Bool {
        if let key = entry.collapseKey {
            if flying[key] != nil {
                entry.flow.hold()
                flying[key]?.append(entry)
                return false
            }
            flying[key] = []
        }
        entry.lease = lease
        lease.remaining += 1
        entry.flow.queue.claimed += 1
        claims[entry.id] = entry
        return true
    }

    func isInFlight(_ key: CollapseKey?) -> Bool { key.map { flying[$0] != nil } ?? false }

    /// Notes a lease that was given out.
    func start(_ lease: Lease) { leases[lease.number] = lease }

    /// Takes a delivery from its owner, for now: ``endClaim(_:now:)`` or ``restoreClaim(_:)`` follows.
    func removeClaim(_ id: Int64) -> Entry? { claims.removeValue(forKey: id) }

    /// Undoes ``removeClaim(_:)``.
    func restoreClaim(_ entry: Entry) { claims[entry.id] = entry }

    /// Undoes ``claim(_:under:)``.
    func undoClaim(_ entry: Entry, now: Int64) {
        claims[entry.id] = nil
        endClaim(entry, now: now)
    }

    /// Ends for good a claim whose delivery was taken from its owner; what was held back behind it waits again.
    func endClaim(_ entry: Entry, now: Int64) {
        entry.flow.queue.claimed -= 1
        if let lease = entry.lease {
            lease.remaining -= 1
            if lease.remaining == 0 { leases[lease.number] = nil }
        }
        entry.lease = nil
        if let key = entry.collapseKey, let held = flying.removeValue(forKey: key) {
            for entry in held {
                entry.flow.unhold()
                entry.flow.add(entry, now: now)
            }
        }
    }

    /// Forgets a waiting delivery, wherever it is.
    func remove(_ key: DueKey, collapse: CollapseKey?, from flow: Flow) {
        if let index = heldIndex(key.id, collapse), let collapse {
            flying[collapse]?.remove(at: index)
            flow.unhold()
        } else {
            flow.remove(key)
        }
    }

    /// Whether a waiting delivery is held back.
    func isHeld(_ id: Int64, _ collapse: CollapseKey?) -> Bool { heldIndex(id, collapse) != nil }

    private func heldIndex(_ id: Int64, _ collapse: CollapseKey?) -> Int? {
        collapse.flatMap { flying[$0]?.firstIndex { $0.id == id } }
    }
}
