package import Foundation
package import ChaparDelivery
package import ChaparCore
internal import ChaparComposition
internal import Synchronization

/// The counts for each peer: its open connections, its requests through a proxy, and its recent refused attempts.
///
/// When nearly all connections are taken, a peer with few gets the place of one of the peer with most, so a few
/// addresses cannot block others, with any limit of a peer. Its memory is bounded by the number of connections
/// and by ``mostRemembered``.
package final class Peers: Sendable {
    /// The refused attempts that a peer may make, a second over a long time and in a burst.
    package static let refusals = Pacing(perSecond: 20, burst: .seconds(10))
    /// The most peers whose refused attempts are remembered.
    ///
    /// Beyond it the fullest buckets are dropped: those of the peers with the fewest attempts.
    private static let mostRemembered = 10_000
    /// The longest time, in milliseconds, until an empty bucket has its next attempt, with some for rounding.
    private static let longestEmpty = Int64(clamping: 1000 / refusals.perSecond + 2)

    /// The places of requests that peers share: a peer may take a place while it has fewer places than are free.
    ///
    /// If `n` peers take as many as they get, each reaches a share of `1 / (n + 1)`, and one such share stays free. A
    /// request in progress is never ended for another peer; its time is limited instead.
    private struct Places {
        var total = 0
        var ofPeer: [PeerAddress: Int] = [:]

        mutating func take(_ peer: PeerAddress, limit: Int, of capacity: Int) -> Bool {
            let count = ofPeer[peer, default: 0]
            guard count < limit, count < capacity - total else { return false }
            ofPeer[peer] = count + 1
            total += 1
            return true
        }

        mutating func giveBack(_ peer: PeerAddress) {
            let count = ofPeer[peer, default: 0] - 1
            ofPeer[peer] = count > 0 ? count : nil
            total -= 1
        }
    }

    /// A function that ends a connection: at once without a request in progress, otherwise after its answer.
    package typealias GiveWay = @Sendable () -> Void

    /// The connections that peers share: while there are enough left, each peer may have as many as its limit allows.
    ///
    /// One of the last connections (``spare(of:)``) goes to a peer only if another peer has at least two more; a
    /// connection of the peer with most is then closed. Peers that take as many as they get thus reach equal shares, in
    /// any order.
    private struct Connections {
        /// All connections, including those being closed for another peer and those of trusted proxies.
        var total = 0
        private(set) var ofPeer: [PeerAddress: [(number: UInt64, giveWay: GiveWay)]] = [:]
        private var lastNumber: UInt64 = 0

        /// Returns the number of connections that are left for peers with few.
        static func spare(of capacity: Int) -> Int { max(1, min(256, capacity / 8)) }

        /// Counts a connection; nil when there is no place for it.
        ///
        /// If another connection must be closed to make room, the closed connection no longer counts for its peer.
        mutating func take(
            _ peer: PeerAddress,
            limit: Int,
            of capacity: Int,
            _ giveWay: @escaping GiveWay
        ) -> (number: UInt64, other: GiveWay?)? {
            let count = ofPeer[peer]?.count ?? 0
            guard count < limit, total < capacity else { return nil }
            var other: GiveWay?
            if total >= capacity - Self.spare(of: capacity) {
                guard let largest = ofPeer.max(by: { $0.value.count < $1.value.count }), largest.value.count > count + 1
                else { return nil }
                other = ofPeer[largest.key]?.removeFirst().giveWay
            }
            lastNumber += 1
            ofPeer[peer, default: []].append((lastNumber, giveWay))
            total += 1
            return (lastNumber, other)
        }

        mutating func giveBack(_ peer: PeerAddress, _ number: UInt64) {
            total -= 1
            ofPeer[peer]?.removeAll { $0.number == number }
            if ofPeer[peer]?.isEmpty ?? false { ofPeer[peer] = nil }
        }
    }

    private struct State {
        var connections = Connections()
        /// The requests in progress behind trusted proxies.
        var forwarded = Places()
        var refusals: [PeerAddress: TokenBucket] = [:]
    }

    /// The most connections of the server.
    private let capacity: Int
    private let state = Mutex(State())
    /// The steady time of the last refused attempt, in milliseconds: once that is long enough ago, no peer is over its
    /// limit.
    private let lastRefusal = Atomic<Int64>(Int64.min)

    /// Makes a record for a server with a limit of connections.
    package init(connections: Int = .max) { capacity = connections }

    /// Counts a connection; ``disconnect(_:_:)`` ends that.
    ///
    /// - Parameters:
    ///   - peer: The other end.
    ///   - limit: The most connections of a peer.
    ///   - giveWay: Ends the connection when another peer gets its place; called at most once.
    /// - Returns: The connection's number; nil when the peer has as many as it may.
    package func connect(_ peer: PeerAddress, limit: Int, giveWay: @escaping GiveWay) -> UInt64? {
        let taken = state.withLock { $0.connections.take(peer, limit: limit, of: capacity, giveWay) }
        taken?.other?()
        return taken?.number
    }

    /// Ends the counting of a connection.
    package func disconnect(_ peer: PeerAddress, _ number: UInt64) {
        state.withLock { $0.connections.giveBack(peer, number) }
    }

    /// Counts a connection of a trusted proxy, which has no limit; ``disconnectProxy()`` ends that.
    package func connectProxy() { state.withLock { $0.connections.total += 1 } }

    /// Ends the counting of a trusted proxy's connection.
    package func disconnectProxy() { state.withLock { $0.connections.total -= 1 } }

    /// Counts a request of a peer that a trusted proxy names, out of at most `all`; ``endForwarded(_:)`` ends that.
    func beginForwarded(_ peer: PeerAddress, limit: Int, of all: Int) -> Bool {
        state.withLock { $0.forwarded.take(peer, limit: limit, of: all) }
    }

    /// Ends the counting of a request of a peer that a trusted proxy names.
    func endForwarded(_ peer: PeerAddress) { state.withLock { $0.forwarded.giveBack(peer) } }

    /// Records a refused attempt; returns the time that the peer has to wait after too many.
    package func refuse(_ peer: PeerAddress, at now: Date) -> Duration? {
        lastRefusal.store(Int64(clamping: now.timeIntervalSince1970 * 1000), ordering: .relaxed)
        return state.withLock { state in
            if state.refusals.count >= Self.mostRemembered, state.refusals[peer] == nil { Self.forget(&state, at: now) }
            var bucket = state.refusals[peer] ?? TokenBucket(Self.refusals, at: now)
            let (granted, retryAt) = bucket.reserve(1, at: now)
            state.refusals[peer] = bucket
            return granted == 1 ? nil : .seconds(clamping: max(0, retryAt.timeIntervalSince(now)))
        }
    }

    /// Whether a peer has made too many wrong attempts, so that only credentials that were used successfully from there
    /// lately are compared.
    package func isOverLimit(_ peer: PeerAddress, at now: Date) -> Bool {
        // An empty bucket gets its next attempt within 50 ms of the last one.
        let (last, _) = lastRefusal.load(ordering: .relaxed).addingReportingOverflow(Self.longestEmpty)
        guard Int64(clamping: now.timeIntervalSince1970 * 1000) <= last else { return false }
        return state.withLock { state in
            guard var bucket = state.refusals[peer] else { return false }
            return bucket.reserve(1, at: now).granted == 0
        }
    }

    /// Forgets the peers whose buckets are full again, or the fuller half of them if none is full.
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

    /// The number of peers whose refused attempts are remembered.
    var remembered: Int { state.withLock { $0.refusals.count } }

    /// The number of peers with connections or requests through a proxy, the most of one peer, and all connections.
    package var load: (peers: Int, most: Int, total: Int) {
        state.withLock { state in
            let counts = state.connections.ofPeer.mapValues(\.count)
                .merging(state.forwarded.ofPeer, uniquingKeysWith: +)
            return (counts.count, counts.values.max() ?? 0, state.connections.total)
        }
    }
}
