internal import ChaparQueue
internal import Synchronization

/// The backends in the configurations of other gateways on the same store, as ``GoneBackends`` last read them.
///
/// While configurations differ, as during a rolling change, a gateway may lack a backend that another gateway has. Then
/// it does not change the deliveries for that backend.
package final class BackendsElsewhere: Sendable {
    private struct State {
        /// The exchange with the other gateways; nil if this gateway has its own store.
        var nodes: (any NodeExchange)?
        var backends: Set<String> = []
        /// Whether a live gateway may not have declared its backends yet: it may have any.
        var isIncomplete = false
    }

    private let state = Mutex(State())

    /// Begins to respect other gateways: until the first reading they may have any backend.
    func begin(with nodes: any NodeExchange) { state.withLock { ($0.nodes, $0.isIncomplete) = (nodes, true) } }

    /// Records the declarations of the other live gateways.
    func note(_ others: [StoreNode]) {
        let backends = Set(others.flatMap { $0.backends ?? [] })
        let isIncomplete = others.contains { $0.backends == nil }
        state.withLock { ($0.backends, $0.isIncomplete) = (backends, isIncomplete) }
    }

    /// Whether this gateway can know which others are alive: see ``NodeExchange/mayJudge``.
    var mayJudge: Bool { state.withLock { $0.nodes }?.mayJudge ?? true }

    /// Whether another gateway has declared a backend.
    func has(_ backend: String) -> Bool { state.withLock { $0.backends.contains(backend) } }

    /// Whether another gateway may have a backend, as far as is known.
    ///
    /// While it is not known which gateways are alive, a gateway that seems dead may return with any backend.
    func mayHave(_ backend: String) -> Bool {
        guard mayJudge else { return true }
        return state.withLock { $0.isIncomplete || $0.backends.contains(backend) }
    }
}
