import ChaparCore
import ChaparQueue

/// The index in memory of waiting and claimed deliveries: queues, flows, leases, staged rows.
///
/// ``Transaction`` changes it after each commit, ``Claims`` and ``Expiry`` before; ``OpenedStore`` fills it from the
/// file. It writes nothing itself. Used by the writer's thread only, so what it does for each delivery is not checked
/// for exclusive access.
final class QueueIndex {
    private let budget: Flow.Budget
    private var flowsByNumber: [Int64: Flow] = [:]
    private var queuesByName: [String: BackendQueue] = [:]
    private var highestFlow: Int64 = 0
    /// The last flow that was asked for: nearly always the next one too.
    private var lastFlow: (backend: String, flow: Flow)?
    /// Flows that are not on disk yet.
    private(set) var unsavedFlows: [Flow] = []
    /// The backends that take what plans give to others, by the others' names.
    private(set) var moves: [String: String]
    /// The claimed deliveries, by number.
    @exclusivity(unchecked) private(set) var claims: [Int64: Entry] = [:]
    /// The leases with deliveries that are still out, by number.
    private(set) var leases: [Int64: Lease] = [:]
    /// The collapse keys of claimed deliveries, with the deliveries that wait for the claim's end.
    private var flying: [CollapseKey: [Entry]] = [:]
    private var lastLease: Int64
    /// Deliveries without rows, the oldest first.
    private(set) var staged: [StagedRows] = []
    private var lastStagedRows: Int64 = 0
    /// The expiry of what waits, as far as the search for expired deliveries knows it.
    var expiry = ExpiryRound()

    /// Makes an empty index, whose lease numbers are above `lastLease`.
    init(budget: Flow.Budget, lastLease: Int64, moves: [String: String] = [:]) {
        self.budget = budget
        self.lastLease = lastLease
        self.moves = moves
    }

    var queues: some Collection<BackendQueue> { queuesByName.values }
    var flows: some Collection<Flow> { flowsByNumber.values }
    var waiting: Int { flowsByNumber.values.reduce(0) { $0 + $1.waiting } }
    /// Returns the number of waiting deliveries of one caller, at all backends.
    func waiting(of caller: String) -> Int {
        flowsByNumber.values.reduce(0) { $0 + ($1.caller == caller ? $1.waiting : 0) }
    }
    /// The number of unclaimed deliveries in memory.
    var inMemory: Int { flowsByNumber.values.reduce(0) { $0 + $1.windowCount + $1.held } }
    /// The bytes of the windows.
    var bytesInMemory: Int { budget.used }

    /// Returns the numbers of the claimed deliveries of a backend.
    func claimedIDs(in queue: BackendQueue) -> Set<Int64> {
        var found = Set<Int64>(minimumCapacity: queue.claimed)
        for (id, entry) in claims where entry.flow.queue === queue { found.insert(id) }
        return found
    }

    // MARK: Queues

    /// Adds a flow that was found on disk.
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

    /// Returns the queue of a backend; nil when there is none yet.
    func existingQueue(_ name: String) -> BackendQueue? { queuesByName[name] }

    /// Returns the queue of a backend, and makes it if needed.
    func queue(named name: String) -> BackendQueue {
        if let queue = queuesByName[name] { return queue }
        let queue = BackendQueue(name: name)
        queuesByName[name] = queue
        return queue
    }

    /// Returns the flow of a backend that a plan names, or of the one that takes its place, and makes it if needed.
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

    /// Moves a queue's flows to another backend, and those that are made later.
    func move(_ queue: BackendQueue, to other: String) {
        lastFlow = nil
        queue.moveFlows(to: self.queue(named: other))
        for (name, target) in moves where target == queue.name { moves[name] = other }
        moves[queue.name] = other
    }

    /// Ends the move of a backend that is in use again.
    func endMove(of name: String) {
        lastFlow = nil
        moves[name] = nil
    }

    // MARK: Deliveries without rows

    /// Makes a staged row for new deliveries; ``keep(_:)`` follows after the commit.
    func makeStagedRows(at moment: Int64) -> StagedRows {
        lastStagedRows = lastStagedRows.adding(clamping: 1)
        return StagedRows(number: lastStagedRows, at: moment)
    }

    func keep(_ new: StagedRows) { staged.append(new) }

    /// Returns the delivery of a notification that has no row.
    func withoutRow(_ id: NotificationID) -> Entry? {
        for staged in staged { if let entry = staged.entry(id.rawValue) { return entry } }
        return nil
    }

    /// Returns the deliveries of a queue that have no row and are not claimed.
    func stagedAndWaiting(in queue: BackendQueue) -> [Entry] {
        staged.flatMap { $0.open > 0 ? $0.entries : [] }.compactMap { entry in
            entry.flatMap { $0.lease == nil && $0.flow.queue === queue ? $0 : nil }
        }
    }

    /// Returns deliveries of a caller that have no row, up to a number, as many as `limit`.
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

    /// Removes staged rows whose deliveries all have rows.
    func dropEmptyStagedRows() { staged.removeAll { $0.open == 0 } }

    /// Releases all staged rows when the store closes: they are on disk.
    func forgetStagedRows() {
        for staged in staged { staged.forget() }
        staged = []
    }

    // MARK: Claims

    func makeLease() -> Lease {
        lastLease = lastLease.adding(clamping: 1)
        return Lease(number: lastLease)
    }

    /// Claims a delivery under a lease.
    ///
    /// Returns false, and holds the delivery back, when one with the same collapse ID is claimed.
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

    /// Records a lease that was given out.
    func start(_ lease: Lease) { leases[lease.number] = lease }

    /// Removes a claim for now: ``endClaim(_:now:)`` or ``restoreClaim(_:)`` follows.
    func removeClaim(_ id: Int64) -> Entry? { claims.removeValue(forKey: id) }

    /// Undoes ``removeClaim(_:)``.
    func restoreClaim(_ entry: Entry) { claims[entry.id] = entry }

    /// Undoes ``claim(_:under:)``.
    func undoClaim(_ entry: Entry, now: Int64) {
        claims[entry.id] = nil
        endClaim(entry, now: now)
    }

    /// Ends a removed claim for good; deliveries that were held back behind it wait again.
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

    /// Removes a waiting delivery, wherever it is.
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
