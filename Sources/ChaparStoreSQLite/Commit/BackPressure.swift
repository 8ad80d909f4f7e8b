import Dispatch
import ChaparCore
import ChaparQueue

/// Delays the answers to new work for a moment while a flow gets more deliveries than are claimed from it.
///
/// A caller that posts again as soon as it is answered would otherwise drive every delivery out of memory and make the
/// store read it back from disk, which costs both of them throughput. The delayed work is already committed; only its
/// answer waits, until the flow has caught up, and never longer than the options say. A flow from which little is
/// claimed in that time is left alone until it has caught up or more is claimed, so a slow or stopped consumer costs
/// its callers one pause. Used by the writer's thread only, with the real clock: a pause is a matter of throughput, not
/// of the store's time.
final class BackPressure {
    private struct Held {
        var flow: Flow
        var rows: Int
        var until: DispatchTime
        /// The number that the flow had given out when the pause began.
        var taken: Int
        var reply: EnqueueReply
    }

    private let threshold: Int
    private let longestPause: Duration
    private var held: [Held] = []

    /// Makes the back-pressure for flows that keep `windowCapacity` deliveries in memory.
    ///
    /// A flow may have a quarter of them waiting, which is enough for its consumers and leaves room for work under way.
    init(windowCapacity: Int, longestPause: Duration) {
        threshold = windowCapacity / 4
        self.longestPause = longestPause
    }

    /// The latest end of the first pause; nil when no answer is delayed.
    var deadline: DispatchTime? { held.first?.until }

    /// Answers committed new work, now or after a pause.
    func accept(_ rows: Int, in flow: Flow, _ reply: EnqueueReply) {
        reconsider(flow)
        guard longestPause > .zero, flow.isOutrun(above: threshold) else { return reply.succeed(.accepted) }
        held.append(Held(flow: flow, rows: rows, until: pauseEnd(.now()), taken: flow.taken, reply: reply))
    }

    /// Ends the exemption of a flow from which enough was claimed lately for a pause to make sense again.
    private func reconsider(_ flow: Flow) {
        guard let last = flow.leftAlone else { return }
        let now = DispatchTime.now()
        guard last.until <= now else { return }
        flow.leftAlone = flow.taken - last.taken < threshold ? (pauseEnd(now), flow.taken) : nil
    }

    private func pauseEnd(_ now: DispatchTime) -> DispatchTime {
        now + .milliseconds(Int(longestPause.boundedMilliseconds))
    }

    /// Answers calls whose flow has caught up, as far as it has room, and those that have waited long enough.
    func release() {
        guard !held.isEmpty else { return }
        let now = DispatchTime.now()
        for item in held where item.until <= now && item.flow.taken - item.taken < threshold {
            item.flow.leftAlone = (pauseEnd(now), item.flow.taken)
        }
        var released: [Int64: Int] = [:]
        held.removeAll { item in
            let rows = released[item.flow.number, default: 0]
            guard item.until <= now || !item.flow.isOutrun(above: threshold - rows) else { return false }
            released[item.flow.number] = rows + item.rows
            item.reply.succeed(.accepted)
            return true
        }
    }

    /// Answers all delayed calls.
    func releaseAll() {
        for item in held { item.reply.succeed(.accepted) }
        held.removeAll()
    }
}
