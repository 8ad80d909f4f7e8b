import Synchronization

/// Limits the number of searches that read the file at a time; the others wait in order.
///
/// Searches and the look-ups of delivery workers share the connections for reading. Since fewer searches run at a time
/// than there are connections, a look-up finds a free connection.
final class ScanGate: Sendable {
    private struct State {
        var free: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
        var entered = 0
    }

    private let state: Mutex<State>

    init(atOnce count: Int) { state = Mutex(State(free: count)) }

    /// The number of searches that entered, or wait to enter.
    var entered: Int { state.withLock { $0.entered } }

    /// Waits for a turn; ``leave()`` follows.
    func enter() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                state.entered += 1
                guard state.free > 0 else {
                    state.waiting.append(continuation)
                    return false
                }
                state.free -= 1
                return true
            }
            if isFree { continuation.resume() }
        }
    }

    /// Ends a turn: admits the search that has waited longest.
    func leave() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.free += 1
            return nil
        }
        next?.resume()
    }
}
