internal import ChaparCore
internal import ChaparQueue

/// A place in the order in which a flow's deliveries are claimed.
struct ClaimPlace: Comparable {
    var due: Int64
    var id: Int64

    /// The place before every other.
    static let first = ClaimPlace(due: .min, id: .min)

    static func < (one: Self, other: Self) -> Bool { (one.due, one.id) < (other.due, other.id) }
}

/// The part of a flow in which a statement searches for deliveries.
struct ClaimRange {
    var after: ClaimPlace
    /// The latest due time.
    var upTo: Int64

    init(after: ClaimPlace?, upTo: Int64) {
        self.after = after ?? .first
        self.upTo = upTo
    }
}

/// The place up to which this node has claimed each flow's deliveries; it searches for more only behind that.
///
/// A claimed row stays in the index of waiting ones until the server removes it, and the server may not while any
/// session holds an older snapshot: a search from the beginning would pass over all such rows each time. A mark is
/// never less than ``slack`` before the present, since a row is committed a little after it is accepted, and other
/// nodes' clocks may be a little behind. Rows that appear before a mark all the same are found by ``IncrementalScan``.
struct ClaimMarks {
    /// The least distance of a mark from the present, in milliseconds.
    static let slack: Int64 = 2_000

    private var marks: [Int64: ClaimPlace] = [:]

    subscript(flow: Int64) -> ClaimPlace? { marks[flow] }

    /// Moves marks behind the claimed deliveries, and those of empty flows to ``slack`` before the present.
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

    /// Moves back marks that a wrong clock has moved beyond the present.
    mutating func goBack(to now: Int64) {
        marks = marks.mapValues { min($0, ClaimPlace(due: now.subtracting(clamping: Self.slack), id: 0)) }
    }

    /// Moves the marks of these claims' flows back to the last of the claims, which were due before the marks: more may
    /// wait there.
    mutating func lower(_ claimed: [Claim]) {
        var last: [Int64: ClaimPlace] = [:]
        for claim in claimed { last[claim.flow] = max(last[claim.flow] ?? .first, claim.place) }
        for (flow, place) in last { marks[flow] = place }
    }
}

extension Claim {
    fileprivate var place: ClaimPlace { ClaimPlace(due: due, id: delivery.id) }
}
