internal import PushCore
internal import PushQueue
internal import Synchronization

/// How many deliveries of each caller have not ended, for the share of the queue that each may take.
///
/// A look every few seconds counts what all gateways have accepted; where the count takes long it is used for longer
/// (``DepthCount``). To that come those that this node has accepted since. Nothing is counted while all callers
/// together have less than the smallest share.
final class CallerCounts: Sendable {
    private struct State {
        /// The smallest bound that any caller has.
        var bound = Int.max
        /// What the last look found.
        var seen = DepthCount.OfCallers(waiting: [:], accepted: [:])
        /// Whether that was counted; false when there was too little to be counted.
        var isCounted = false
        /// What this node has accepted of each caller with a share, since it started.
        var accepted: [String: Int] = [:]
        /// Whether a look was asked for that has not ended.
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
    private let looked = AsyncSignal()

    /// What this node has accepted of each caller with a share, since it started.
    var accepted: [String: Int] { state.withLock { $0.accepted } }

    /// Notes how much a caller may have.
    func note(bound: Int) { state.withLock { if bound < $0.bound { $0.bound = bound } } }

    /// Notes that deliveries of a caller with a share are stored.
    func add(_ deliveries: Int, of caller: String) {
        state.withLock { $0.accepted[caller, default: 0] += deliveries }
    }

    /// How much a caller can have when each other node has accepted as much since the last look as this one has.
    func of(_ caller: String, nodes: Int = 1) -> Int { state.withLock { $0.of(caller, nodes) } }

    /// Looks anew where a caller would have more than `bound` as far as is known, or where nothing was counted.
    ///
    /// What takes long is not waited for, since those of all callers wait meanwhile: what is known has to do then.
    /// Between two looks is twenty times as long as the last one took.
    func look(of caller: String, more: Int, bound: Int, nodes: Int) async {
        let mark = looked.mark
        let isDue = state.withLock { state in
            guard !state.isAsked, state.pace.mayCount(at: .now),
                !state.isCounted || state.of(caller, nodes).adding(clamping: more) > bound
            else { return false }
            state.isAsked = true
            return true
        }
        guard isDue else { return }
        asked.signal()
        await looked.wait(after: mark, atMost: Self.longestWait, SystemTime())
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
            looked.signal()
        }
    }

    private func count(_ core: StoreCore) async {
        do throws(PostgresError) {
            let seen = try await DepthCount(core).ofCallers()
            state.withLock { ($0.seen, $0.isCounted) = (seen, true) }
        } catch {
            // What was counted last holds until the next look. Those who store and claim tell of an outage.
            return
        }
    }
}
