import ChaparCore
import ChaparQueue

/// The deliveries that wait for one backend, and the calls that wait for work.
///
/// It has a flow for each caller and priority. Those of high priority go first, but leave one in ten to the others. The
/// flows of one priority take turns, so that a million messages of one caller do not delay one of another. Used by the
/// writer's thread only.
final class BackendQueue {
    /// The number of deliveries that a flow gives in its turn: enough for a backend that sends many recipients in one
    /// request.
    private static let turn = 64
    /// The number of turns of high priority before one of normal priority, while both wait.
    private static let urgentTurns = 9

    /// The flows of one priority, and whose turn it is.
    private struct Round {
        var flows: [Flow] = []
        var index = 0
        var given = 0

        mutating func takeNext(now: Int64) -> Entry? {
            for _ in flows.indices {
                if given < BackendQueue.turn, let entry = flows[index].takeNext(now: now) {
                    given += 1
                    return entry
                }
                index = index + 1 < flows.count ? index + 1 : 0
                given = 0
            }
            // All others had nothing: the flow whose turn just ended goes on.
            guard !flows.isEmpty, let entry = flows[index].takeNext(now: now) else { return nil }
            given = 1
            return entry
        }

        func hasDue(_ now: Int64, besides flow: Flow) -> Bool {
            flows.contains { $0 !== flow && $0.hasDue(now) }
        }
    }

    /// The backend's name.
    let name: String
    @exclusivity(unchecked) private var urgent = Round()
    @exclusivity(unchecked) private var normal = Round()
    /// The number of deliveries of high priority that were given since the turn of normal priority, and of those given
    /// in that turn.
    @exclusivity(unchecked) private var run = (urgent: 0, normal: 0)
    /// The number of claimed deliveries.
    @exclusivity(unchecked) var claimed = 0
    /// The calls that wait for work, the oldest first.
    @exclusivity(unchecked) var tickets: [ClaimTicket] = []

    init(name: String) { self.name = name }

    var flows: [Flow] { urgent.flows + normal.flows }
    var waiting: Int { urgent.flows.reduce(0) { $0 + $1.waiting } + normal.flows.reduce(0) { $0 + $1.waiting } }

    func add(_ flow: Flow) {
        flow.queue = self
        if flow.isUrgent { urgent.flows.append(flow) } else { normal.flows.append(flow) }
    }

    /// Moves all of its flows to another queue.
    func moveFlows(to other: BackendQueue) {
        for flow in flows { other.add(flow) }
        (urgent, normal) = (Round(), Round())
    }

    /// Returns the flow of a caller and priority; nil when there is none yet.
    func flow(isUrgent: Bool, caller: String) -> Flow? {
        (isUrgent ? urgent : normal).flows.first { $0.caller == caller }
    }

    /// Takes the delivery whose turn it is.
    func takeNext(now: Int64, normal takesNormal: Bool) -> Entry? {
        guard takesNormal else { return urgent.takeNext(now: now) }
        if run.urgent == Self.urgentTurns * Self.turn {
            if run.normal < Self.turn, let entry = normal.takeNext(now: now) {
                run.normal += 1
                return entry
            }
            run = (0, 0)
        }
        if let entry = urgent.takeNext(now: now) {
            run.urgent += 1
            return entry
        }
        run = (0, 0)
        return normal.takeNext(now: now)
    }

    /// Whether a new delivery may go before everything that waits.
    func isNext(_ entry: Entry, now: Int64) -> Bool {
        guard entry.flow.isNext(entry.key), !urgent.hasDue(now, besides: entry.flow) else { return false }
        return entry.flow.isUrgent || !normal.hasDue(now, besides: entry.flow)
    }

    /// The earliest due time of a delivery that one of the waiting calls would take; nil when nothing waits for them.
    var nextDue: Int64? {
        guard !tickets.isEmpty else { return nil }
        let takesNormal = tickets.contains { $0.normal > 0 }
        var next = Int64.max
        for flow in urgent.flows { next = min(next, flow.next?.due ?? .max) }
        if takesNormal { for flow in normal.flows { next = min(next, flow.next?.due ?? .max) } }
        return next < .max ? next : nil
    }

    /// Returns the figures of the queue.
    func depth(now: Int64) -> QueueDepth {
        var depth = QueueDepth(waiting: 0, claimed: claimed)
        var oldest = Int64.max
        for flow in flows {
            depth.waiting += flow.waiting
            if let due = flow.oldestDue(now: now) { oldest = min(oldest, due) }
        }
        if oldest < .max { depth.oldestDue = .init(millisecondsSince1970: oldest) }
        return depth
    }
}
