internal import PushQueue
internal import Synchronization

/// The backends that other gateways on the same store have in their configurations, as ``GoneBackends`` last read them.
///
/// While configurations differ, as during a rolling change, one gateway has a backend that another has not: the second one leaves
/// alone what waits for it.
final class BackendsElsewhere: Sendable {
    private struct State {
        var backends: Set<String> = []
        /// Whether a gateway lives that has not said which backends it has: it may have any.
        var isIncomplete = false
    }

    private let state = Mutex(State())

    /// Notes what the other gateways that live have said.
    func note(_ others: [StoreNode]) {
        let backends = Set(others.flatMap { $0.backends ?? [] })
        let isIncomplete = others.contains { $0.backends == nil }
        state.withLock { $0 = State(backends: backends, isIncomplete: isIncomplete) }
    }

    /// Whether another gateway has a backend, as far as is known.
    func mayHave(_ backend: String) -> Bool { state.withLock { $0.isIncomplete || $0.backends.contains(backend) } }
}
