internal import PushCore
internal import PushQueue
internal import Synchronization

/// How many deliveries of each caller have not ended, for the share of the queue that each may take.
///
/// As approximate as the number of all is (``Keeper``): a look every few seconds, at what all gateways have accepted; where the count takes
/// long it is used for longer (``DepthCount``). Nothing is counted while all callers together have less than the smallest share.
final class CallerCounts: Sendable {
    private struct State {
        /// The smallest bound that any caller has.
        var bound = Int.max
        var counts: [String: Int] = [:]
    }

    private let state = Mutex(State())

    /// Notes how much a caller may have.
    func note(bound: Int) { state.withLock { if bound < $0.bound { $0.bound = bound } } }

    /// How much a caller has, as of the last look; 0 where nobody can have too much.
    func of(_ caller: String) -> Int { state.withLock { $0.counts[caller] ?? 0 } }

    /// Works until the task is cancelled.
    func run(_ core: StoreCore) async {
        while true {
            do { try await Task.sleep(for: core.options.nodeLease / 3) } catch { return }
            await look(core)
        }
    }

    private func look(_ core: StoreCore) async {
        guard core.waiting >= state.withLock({ $0.bound }) else { return state.withLock { $0.counts = [:] } }
        do throws(PostgresError) {
            let depths = try await DepthCount(core).depthsOfCallers()
            state.withLock { $0.counts = depths.mapValues { $0.waiting + $0.claimed } }
        } catch {
            // What was counted last holds until the next look. Those who store and claim tell of an outage.
            return
        }
    }
}
