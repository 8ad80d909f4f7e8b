internal import Foundation
internal import PushCore
internal import PushComposition
internal import Synchronization

/// What each peer holds and has done lately: open connections, and attempts that were refused.
///
/// Its memory is bounded by the connections there are and by ``mostRemembered``.
final class Peers: Sendable {
    /// Refused attempts a second that a peer may make for long, and at once.
    static let refusals = Pacing(perSecond: 20, burst: .seconds(10))
    /// The most peers whose refused attempts are remembered; with more the fullest buckets are forgotten, which are those of
    /// peers that have done least.
    private static let mostRemembered = 10_000

    private struct State {
        var connections: [PeerAddress: Int] = [:]
        var refusals: [PeerAddress: TokenBucket] = [:]
    }

    private let state = Mutex(State())

    /// Counts a connection in, unless the peer has as many as it may; ``disconnect(_:)`` counts it out.
    func connect(_ peer: PeerAddress, limit: Int) -> Bool {
        state.withLock { state in
            let count = state.connections[peer, default: 0]
            guard count < limit else { return false }
            state.connections[peer] = count + 1
            return true
        }
    }

    /// Counts a connection out.
    func disconnect(_ peer: PeerAddress) {
        state.withLock { state in
            let count = state.connections[peer, default: 0] - 1
            state.connections[peer] = count > 0 ? count : nil
        }
    }

    /// Notes an attempt that was refused; gives how long the peer has to wait if it has made too many.
    func refuse(_ peer: PeerAddress, at now: Date) -> Duration? {
        state.withLock { state in
            if state.refusals.count >= Self.mostRemembered, state.refusals[peer] == nil { Self.forget(&state, at: now) }
            var bucket = state.refusals[peer] ?? TokenBucket(Self.refusals, at: now)
            let (granted, retryAt) = bucket.reserve(1, at: now)
            state.refusals[peer] = bucket
            return granted == 1 ? nil : .seconds(clamping: max(0, retryAt.timeIntervalSince(now)))
        }
    }

    /// Whether the next attempt of a peer would be one too many, were it refused.
    func isRefused(_ peer: PeerAddress, at now: Date) -> Bool {
        state.withLock { state in
            guard var bucket = state.refusals[peer] else { return false }
            return bucket.reserve(1, at: now).granted == 0
        }
    }

    /// Forgets the peers whose buckets are full again, and half of the others if none is.
    private static func forget(_ state: inout State, at now: Date) {
        let count = state.refusals.count
        state.refusals = state.refusals.filter { entry in
            var bucket = entry.value
            _ = bucket.available(at: now)
            return bucket.fill < 1
        }
        guard state.refusals.count == count else { return }
        let kept = state.refusals.sorted { $0.value.fill < $1.value.fill }.prefix(count / 2)
        state.refusals = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
    }

    /// How many peers' refused attempts are remembered.
    var remembered: Int { state.withLock { $0.refusals.count } }

    /// Peers with connections, and the most that one has.
    var load: (peers: Int, most: Int) {
        state.withLock { ($0.connections.count, $0.connections.values.max() ?? 0) }
    }
}
