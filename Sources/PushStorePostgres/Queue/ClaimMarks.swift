internal import PushCore
internal import PushQueue

/// A place in the order in which a flow's deliveries are claimed.
struct ClaimPlace: Comparable {
    var due: Int64
    var id: Int64

    /// Before all that there can be.
    static let first = ClaimPlace(due: .min, id: .min)

    static func < (one: Self, other: Self) -> Bool { (one.due, one.id) < (other.due, other.id) }
}

/// Where a statement looks for deliveries of a flow.
struct ClaimRange {
    var after: ClaimPlace
    /// The latest due time.
    var upTo: Int64

    init(after: ClaimPlace?, upTo: Int64) {
        self.after = after ?? .first
        self.upTo = upTo
    }
}

/// Up to where each flow's deliveries have been claimed by this node, which looks for more only behind that.
///
/// What was claimed stays in the index of what waits until the server removes it, and it may not while some session
/// holds a snapshot: a look from the beginning would pass over all of it each time. Less than ``slack`` ago nothing
/// counts as claimed, since what is accepted is committed a little later and other nodes' clocks may be a little
/// behind. What comes to wait before a mark all the same is found by ``PortionedLooks``.
struct ClaimMarks {
    /// In milliseconds.
    static let slack: Int64 = 2_000

    private var marks: [Int64: ClaimPlace] = [:]

    subscript(flow: Int64) -> ClaimPlace? { marks[flow] }

    /// Moves marks behind what was claimed, and those of empty flows to the present.
    mutating func raise(_ claimed: [Claim], empty: Set<Int64>, now: Int64) {
        let end = now.subtracting(clamping: Self.slack)
        for flow in empty { raise(flow, to: ClaimPlace(due: end, id: 0)) }
        for claim in claimed where !empty.contains(claim.flow) {
            raise(claim.flow, to: claim.due < end ? claim.place : ClaimPlace(due: end, id: 0))
        }
    }

    private mutating func raise(_ flow: Int64, to place: ClaimPlace) {
        marks[flow] = max(marks[flow] ?? .first, place)
    }

    /// Moves marks back to the present that a wrong time has brought beyond it.
    mutating func goBack(to now: Int64) {
        marks = marks.mapValues { min($0, ClaimPlace(due: now.subtracting(clamping: Self.slack), id: 0)) }
    }

    /// Moves marks back behind what was claimed before them, where there is more of it.
    mutating func lower(_ claimed: [Claim]) {
        var last: [Int64: ClaimPlace] = [:]
        for claim in claimed { last[claim.flow] = max(last[claim.flow] ?? .first, claim.place) }
        for (flow, place) in last { marks[flow] = place }
    }
}

extension Claim {
    fileprivate var place: ClaimPlace { ClaimPlace(due: due, id: delivery.id) }
}
