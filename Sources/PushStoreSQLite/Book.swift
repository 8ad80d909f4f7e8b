import PushCore

/// Everything the store knows in memory about waiting and claimed deliveries.
///
/// Used by the writer's thread only, so what it does for each delivery goes unchecked for exclusive access.
final class Book {
    private let windowCapacity: Int
    private var lanesByNumber: [Int64: Lane] = [:]
    private var lanesByName: [String: Lane] = [:]
    private var highestLane: Int64 = 0
    /// Lanes whose names are not on disk yet.
    private(set) var unsavedLanes: [Lane] = []
    /// The claimed deliveries, by number.
    @exclusivity(unchecked) private(set) var claims: [Int64: Entry] = [:]
    /// The leases with deliveries that are still out, by number.
    private(set) var leases: [Int64: Lease] = [:]
    /// What is in flight under a collapse id, with the deliveries that wait for its end.
    private var flying: [CollapseKey: [Entry]] = [:]
    private var lastLease: Int64
    /// Deliveries without rows, the oldest first.
    private(set) var arrivals: [Arrivals] = []
    private var lastArrivals: Int64 = 0
    /// No lease lapses before this moment.
    var nextLapse = Int64.max
    /// No waiting delivery expires before this moment, as far as is known.
    var expiryFloor = Int64.min

    /// Makes an empty book, whose lease numbers are above one.
    init(windowCapacity: Int, lastLease: Int64) {
        self.windowCapacity = windowCapacity
        self.lastLease = lastLease
    }

    var lanes: some Collection<Lane> { lanesByNumber.values }
    var waiting: Int { lanesByNumber.values.reduce(0) { $0 + $1.waiting } }
    /// The deliveries that are in memory without being claimed.
    var inMemory: Int { lanesByNumber.values.reduce(0) { $0 + $1.windowCount + $1.held } }

    // MARK: Lanes

    /// Notes a lane found on disk.
    func load(number: Int64, name: String, waiting: Int, frontier: DueKey?) {
        let lane = Lane(number: number, name: name, capacity: windowCapacity, waiting: waiting, frontier: frontier)
        lanesByNumber[number] = lane
        lanesByName[name] = lane
        highestLane = max(highestLane, number)
    }

    func lane(number: Int64) -> Lane? { lanesByNumber[number] }

    /// The lane of a name, a new one if need be.
    func lane(named name: String) -> Lane {
        if let lane = lanesByName[name] { return lane }
        load(number: highestLane + 1, name: name, waiting: 0, frontier: nil)
        guard let lane = lanesByName[name] else { return Lane(number: 0, name: name, capacity: 0) }
        unsavedLanes.append(lane)
        return lane
    }

    func lanesWereSaved() { unsavedLanes.removeAll() }

    // MARK: Deliveries without rows

    /// Begins a row of new deliveries; ``keep(_:)`` follows when it was committed.
    func makeArrivals(at moment: Int64) -> Arrivals {
        lastArrivals += 1
        return Arrivals(number: lastArrivals, at: moment)
    }

    func keep(_ new: Arrivals) { arrivals.append(new) }

    /// The delivery of a notification that has no row.
    func withoutRow(_ id: NotificationID) -> Entry? {
        for arrivals in arrivals { if let entry = arrivals.entry(id.rawValue) { return entry } }
        return nil
    }

    /// Forgets those whose deliveries all have rows.
    func dropEmptyArrivals() { arrivals.removeAll { $0.open == 0 } }

    /// Lets go of all of them when the store closes: they are on disk.
    func forgetArrivals() {
        for arrivals in arrivals { arrivals.forget() }
        arrivals = []
    }

    // MARK: Claims

    func makeLease(until deadline: Int64) -> Lease {
        lastLease += 1
        return Lease(number: lastLease, deadline: deadline)
    }

    /// Gives a delivery to an owner.
    ///
    /// False, and held back, when one with the same collapse id is in flight.
    func claim(_ entry: Entry, under lease: Lease) -> Bool {
        if let key = entry.collapseKey {
            if flying[key] != nil {
                entry.lane.hold()
                flying[key]?.append(entry)
                return false
            }
            flying[key] = []
        }
        entry.lease = lease
        lease.entries.append(entry)
        lease.remaining += 1
        entry.lane.claimed += 1
        claims[entry.id] = entry
        return true
    }

    func isInFlight(_ key: CollapseKey?) -> Bool { key.map { flying[$0] != nil } ?? false }

    /// Starts the clock of a lease.
    func start(_ lease: Lease) {
        leases[lease.number] = lease
        nextLapse = min(nextLapse, lease.deadline)
    }

    /// Takes a delivery from its owner, for now: ``settle(_:now:)`` or ``restore(_:)`` follows.
    func take(_ id: Int64) -> Entry? { claims.removeValue(forKey: id) }

    /// Undoes ``take(_:)``.
    func restore(_ entry: Entry) { claims[entry.id] = entry }

    /// Undoes ``claim(_:under:)``.
    func takeBack(_ entry: Entry, now: Int64) {
        claims[entry.id] = nil
        settle(entry, now: now)
    }

    /// Ends for good a claim whose delivery was taken from its owner; what was held back behind it waits again.
    func settle(_ entry: Entry, now: Int64) {
        entry.lane.claimed -= 1
        if let lease = entry.lease {
            lease.remaining -= 1
            if lease.remaining == 0 { leases[lease.number] = nil }
        }
        entry.lease = nil
        if let key = entry.collapseKey, let held = flying.removeValue(forKey: key) {
            for entry in held {
                entry.lane.unhold()
                entry.lane.add(entry, now: now)
            }
        }
    }

    /// Forgets a waiting delivery, wherever it is.
    func remove(_ key: DueKey, collapse: CollapseKey?, from lane: Lane) {
        if let place = heldPlace(key.id, collapse), let collapse {
            flying[collapse]?.remove(at: place)
            lane.unhold()
        } else {
            lane.remove(key)
        }
    }

    /// Whether a waiting delivery is held back.
    func isHeld(_ id: Int64, _ collapse: CollapseKey?) -> Bool { heldPlace(id, collapse) != nil }

    private func heldPlace(_ id: Int64, _ collapse: CollapseKey?) -> Int? {
        collapse.flatMap { flying[$0]?.firstIndex { $0.id == id } }
    }

    /// Finds out anew when the next lease lapses.
    func updateNextLapse() { nextLapse = leases.values.reduce(.max) { min($0, $1.deadline) } }
}
