internal import ChaparCore
internal import ChaparQueue

/// A delivery that was claimed just now.
struct Claim: Sendable {
    var delivery: ClaimedDelivery
    var flow: Int64
    var due: Int64
    var isUrgent: Bool
    var collapse: Int64?

    /// The order in which deliveries are sent: by due time, and by number where that is the same.
    static func isEarlier(_ one: Claim, _ other: Claim) -> Bool {
        (one.due, one.delivery.id) < (other.due, other.delivery.id)
    }
}

/// The deliveries that the tickets of a backend want together, and those that were claimed for them.
struct ClaimOrder {
    let backend: String
    let tickets: [ClaimTicket]
    let limit: Int
    let normalLimit: Int
    private(set) var urgentFlows: [Int64]
    private(set) var normalFlows: [Int64]
    var claimed: [Claim] = []

    /// Makes an order for tickets: `kept` deliveries were prefetched, and at least a quarter of the order is
    /// always claimed from the table.
    init(_ backend: String, _ tickets: [ClaimTicket], kept: Int, flows: (urgent: [Int64], normal: [Int64])) {
        self.backend = backend
        self.tickets = tickets.filter { $0.limit > 0 } + tickets.filter { $0.limit <= 0 }
        let wanted = tickets.reduce(0) { $0 + max(0, $1.limit) }
        limit = max(wanted - kept, (wanted + 3) / 4)
        normalLimit = tickets.reduce(0) { $0 + max(0, min($1.limit, $1.normal)) }
        (urgentFlows, normalFlows) = flows
    }

    /// Makes an order for later calls.
    init(_ backend: String, ahead amount: ClaimWaiters.Amount, flows: (urgent: [Int64], normal: [Int64])) {
        self.backend = backend
        tickets = []
        (limit, normalLimit) = (amount.count, amount.normal)
        (urgentFlows, normalFlows) = flows
    }

    var flows: [Int64] { urgentFlows + normalFlows }

    /// Whether at most one of the two priorities has deliveries that wait.
    var isWithoutRivals: Bool { urgentFlows.isEmpty || normalFlows.isEmpty }

    /// Leaves out flows in which nothing more waits.
    mutating func leaveOut(_ empty: Set<Int64>) {
        urgentFlows.removeAll(where: empty.contains)
        normalFlows.removeAll(where: empty.contains)
    }

    var left: Int { limit - claimed.count }
    var isFilled: Bool { limit > 0 && left <= 0 }
    var normalLeft: Int { min(left, normalLimit - claimed.count { !$0.isUrgent }) }
}

/// The parameters of one claiming statement: flows, with the range and the limit of each, and the total of each class
/// of flows.
struct ClaimRequest {
    private(set) var flows: [Int64] = []
    private(set) var ranges: [ClaimRange] = []
    private(set) var limits: [Int64] = []
    private(set) var classes: [Int64] = []
    private(set) var totals: [Int64] = []
    private var places: [Int64: Int] = [:]

    func place(of flow: Int64) -> Int? { places[flow] }

    /// Adds what an order still wants: up to `share` of normal priority, and more where nothing urgent waits.
    ///
    /// `range` returns the part of a flow to search, nil to leave the flow out.
    mutating func add(_ order: ClaimOrder, at place: Int, share: Int, range: (Int64) -> ClaimRange?) {
        guard order.left > 0 else { return }
        let normal = order.normalFlows.isEmpty ? 0 : order.urgentFlows.isEmpty ? order.normalLeft : share
        let urgent = order.urgentFlows.isEmpty ? 0 : order.left - normal
        add(order.urgentFlows, urgent, place, class: Int64(2 * place), range)
        add(order.normalFlows, normal, place, class: Int64(2 * place + 1), range)
    }

    private mutating func add(
        _ flows: [Int64],
        _ total: Int,
        _ place: Int,
        class number: Int64,
        _ range: (Int64) -> ClaimRange?
    ) {
        guard total > 0, !flows.isEmpty else { return }
        let each = (total + flows.count - 1) / flows.count
        for flow in flows {
            guard let range = range(flow) else { continue }
            self.flows.append(flow)
            ranges.append(range)
            limits.append(Int64(each))
            classes.append(number)
            totals.append(Int64(total))
            places[flow] = place
        }
    }

    /// Returns the flows that gave less than they were asked for, except those of a filled class, of which nothing is
    /// known.
    func empty(_ found: [Claim]) -> Set<Int64> {
        var counts: [Int64: Int] = [:]
        for claim in found { counts[claim.flow, default: 0] += 1 }
        var sums: [Int64: Int] = [:]
        for (index, flow) in flows.enumerated() { sums[classes[index], default: 0] += counts[flow, default: 0] }
        return Set(
            flows.indices.filter {
                counts[flows[$0], default: 0] < limits[$0] && sums[classes[$0], default: 0] < totals[$0]
            }.map { flows[$0] }
        )
    }
}
