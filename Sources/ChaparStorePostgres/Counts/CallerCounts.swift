internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The number of deliveries of each caller that have not ended, for callers with a limited share of the queue.
///
/// Every few seconds the deliveries of all gateways are counted; a count that takes long is used for longer
/// (``DepthCount``). Deliveries that this node has accepted since are added to it. Nothing is counted while all callers
/// together have less than the smallest bound.
final class CallerCounts: Sendable {
    private struct State {
        /// The smallest bound that any caller has.
        var bound = Int.max
        /// The last count.
        var seen = DepthCount.OfCallers(waiting: [:], accepted: [:])
        /// Whether ``seen`` was counted; false when there were too few deliveries to count.
        var isCounted = false
        /// The deliveries of each caller with a share that this node has accepted since it started.
        var accepted: [String: Int] = [:]
        /// Whether a count was requested and has not ended.
        var isAsked = false
        var pace = WaitingEstimate.Pace()

        func of(_ caller: String, _ nodes: Int) -> Int {
            let since = (accepted[caller] ?? 0) - (seen.accepted[caller] ?? 0)
            return (seen.waiting[caller] ?? 0).adding(clamping: since.multiplied(clamping: nodes))
        }
    }

    private static let longestWait = Duration.milliseconds(200)

    private let state = Mutex(State())
    private let asked = AsyncSignal()
    private let counted = AsyncSignal()

    /// The deliveries of each caller with a share that this node has accepted since it started.
    var accepted: [String: Int] { state.withLock { $0.accepted } }

    /// Records the bound of a caller.
    func note(bound: Int) { state.withLock { if bound < $0.bound { $0.bound = bound } } }

    /// Records that deliveries of a caller with a share are stored.
    func add(_ deliveries: Int, of caller: String) {
        state.withLock { $0.accepted[caller, default: 0] += deliveries }
    }

    /// Returns the number of a caller's deliveries that have not ended, if each other node has accepted as many since
    /// the last count as this one.
    func of(_ caller: String, nodes: Int = 1) -> Int { state.withLock { $0.of(caller, nodes) } }

    /// Requests a new count when a caller would exceed `bound` by the known count, or when nothing was counted.
    ///
    /// The wait is short, since requests of all callers wait meanwhile: after it the known count has to do. The time
    /// between two counts is twenty times as long as the last one took.
    func refresh(for caller: String, more: Int, bound: Int, nodes: Int) async {
        let mark = counted.mark
        let isDue = state.withLock { state in
            guard !state.isAsked, state.pace.mayCount(at: .now),
                !state.isCounted || state.of(caller, nodes).adding(clamping: more) > bound
            else { return false }
            state.isAsked = true
            return true
        }
        guard isDue else { return }
        asked.signal()
        await counted.wait(after: mark, atMost: Self.longestWait, SystemTime())
    }

    /// Works until the task is cancelled.
    func run(_ core: StoreCore) async {
        let pace = RoundPace(asked)
        while true {
            await pace.wait(atMost: core.options.nodeLease / 3, SystemTime())
            guard !Task.isCancelled else { return }
            let begin = ContinuousClock.now
            if core.waiting >= state.withLock({ $0.bound }) {
                await count(core)
            } else {
                let nothing = DepthCount.OfCallers(waiting: [:], accepted: accepted)
                state.withLock { ($0.seen, $0.isCounted) = (nothing, false) }
            }
            state.withLock { state in
                state.isAsked = false
                state.pace.note(from: begin, to: .now)
            }
            counted.signal()
        }
    }

    private func count(_ core: StoreCore) async {
        do throws(PostgresError) {
            let seen = try await DepthCount(core).ofCallers()
            state.withLock { ($0.seen, $0.isCounted) = (seen, true) }
        } catch {
            // The last count is used until the next one. The loops that store and claim report an outage.
            return
        }
    }
}
