internal import PushQueue
internal import Synchronization

/// The backends that other gateways on the same store have in their configurations, as ``GoneBackends`` last read them.
///
/// While configurations differ, as during a rolling change, one gateway has a backend that another has not: the second
/// one leaves alone what waits for it.
final class BackendsElsewhere: Sendable {
    private struct State {
        /// Where the other gateways are found; nil while this one has its store for itself.
        var nodes: (any NodeExchange)?
        var backends: Set<String> = []
        /// Whether a gateway may live that has not said which backends it has: it may have any.
        var isIncomplete = false
    }

    private let state = Mutex(State())

    /// Begins to count with other gateways: until the first note they may have any backend.
    func begin(with nodes: any NodeExchange) { state.withLock { ($0.nodes, $0.isIncomplete) = (nodes, true) } }

    /// Notes what the other gateways that live have said.
    func note(_ others: [StoreNode]) {
        let backends = Set(others.flatMap { $0.backends ?? [] })
        let isIncomplete = others.contains { $0.backends == nil }
        state.withLock { ($0.backends, $0.isIncomplete) = (backends, isIncomplete) }
    }

    /// Whether this gateway can know which others live: see ``NodeExchange/mayJudge``.
    var mayJudge: Bool { state.withLock { $0.nodes }?.mayJudge ?? true }

    /// Whether another gateway has said that it has a backend.
    func has(_ backend: String) -> Bool { state.withLock { $0.backends.contains(backend) } }

    /// Whether another gateway has a backend, as far as is known.
    ///
    /// While it cannot be judged which gateways live, one that seems to be dead may come back with any.
    func mayHave(_ backend: String) -> Bool {
        guard mayJudge else { return true }
        return state.withLock { $0.isIncomplete || $0.backends.contains(backend) }
    }
}
