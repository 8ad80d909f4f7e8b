internal import Foundation
internal import PushCore
internal import PushComposition
internal import Synchronization

/// Counts for each peer its open connections, its requests through a proxy, and its refused attempts of late.
///
/// When nearly all connections are taken, a peer that has few gets the place of one of the peer that has most: so a few
/// addresses cannot keep others away, whatever the limit of one is. Its memory is bounded by the connections there are
/// and by ``mostRemembered``.
final class Peers: Sendable {
    /// Refused attempts a second that a peer may make for long, and at once.
    static let refusals = Pacing(perSecond: 20, burst: .seconds(10))
    /// The most peers whose refused attempts are remembered; with more the fullest buckets are forgotten, which are
    /// those of peers that have done least.
    private static let mostRemembered = 10_000
    /// An empty bucket has its next attempt within so many milliseconds, and some for rounding.
    private static let longestEmpty = Int64(clamping: 1000 / refusals.perSecond + 2)

    /// Places of requests that peers share: each may take one as long as it has fewer than are free.
    ///
    /// Of `n` peers that take all they get side by side, each comes to a share of `1 / (n + 1)`, and one such share
    /// stays free. A request in progress gives no way: its time is limited in place of that.
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

    /// Ends a connection that has no request in progress at once, another one after its answer.
    typealias GiveWay = @Sendable () -> Void

    /// Connections that peers share: as long as some are left, each peer may have as many as its limit says.
    ///
    /// Of the last ones (``spare(of:)``) a peer gets one only if another peer has at least two more, and a connection
    /// of the peer that has most then gives way. So peers that take all they get come to equal shares, in whatever
    /// order they come.
    private struct Connections {
        /// All that there are, those that are giving way and those of trusted proxies included.
        var total = 0
        private(set) var ofPeer: [PeerAddress: [(number: UInt64, giveWay: GiveWay)]] = [:]
        private var lastNumber: UInt64 = 0

        /// How many connections are left for peers that have few.
        static func spare(of capacity: Int) -> Int { max(1, min(256, capacity / 8)) }

        /// Counts a connection in; nil without a place for it.
        ///
        /// The connection that is to give way, if one is, is not counted for its peer from here on.
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
        /// Requests in progress behind trusted proxies.
        var forwarded = Places()
        var refusals: [PeerAddress: TokenBucket] = [:]
    }

    /// The most connections that the server takes.
    private let capacity: Int
    private let state = Mutex(State())
    /// The steady time of the last attempt that was refused, in milliseconds: as long as that is past, no peer is over
    /// its limit.
    private let lastRefusal = Atomic<Int64>(Int64.min)

    /// Makes a record for a server that takes so many connections.
    init(connections: Int = .max) { capacity = connections }

    /// Counts a connection in; ``disconnect(_:_:)`` counts it out.
    ///
    /// - Parameters:
    ///   - peer: Who connects.
    ///   - limit: The most connections of a peer.
    ///   - giveWay: Ends the connection when another peer gets its place; called once at most.
    /// - Returns: The connection's number; nil when the peer has as many as it may.
    func connect(_ peer: PeerAddress, limit: Int, giveWay: @escaping GiveWay) -> UInt64? {
        let taken = state.withLock { $0.connections.take(peer, limit: limit, of: capacity, giveWay) }
        taken?.other?()
        return taken?.number
    }

    /// Counts a connection out.
    func disconnect(_ peer: PeerAddress, _ number: UInt64) {
        state.withLock { $0.connections.giveBack(peer, number) }
    }

    /// Counts a connection of a trusted proxy in, which has no limit; ``disconnectProxy()`` counts it out.
    func connectProxy() { state.withLock { $0.connections.total += 1 } }

    /// Counts a connection of a trusted proxy out.
    func disconnectProxy() { state.withLock { $0.connections.total -= 1 } }

    /// Counts in a request of a peer that a trusted proxy names, of `all` that there may be; ``endForwarded(_:)``
    /// counts it out.
    func beginForwarded(_ peer: PeerAddress, limit: Int, of all: Int) -> Bool {
        state.withLock { $0.forwarded.take(peer, limit: limit, of: all) }
    }

    /// Counts out a request of a peer that a trusted proxy names.
    func endForwarded(_ peer: PeerAddress) { state.withLock { $0.forwarded.giveBack(peer) } }

    /// Notes an attempt that was refused; gives how long the peer has to wait if it has made too many.
    func refuse(_ peer: PeerAddress, at now: Date) -> Duration? {
        lastRefusal.store(Int64(clamping: now.timeIntervalSince1970 * 1000), ordering: .relaxed)
        return state.withLock { state in
            if state.refusals.count >= Self.mostRemembered, state.refusals[peer] == nil { Self.forget(&state, at: now) }
            var bucket = state.refusals[peer] ?? TokenBucket(Self.refusals, at: now)
            let (granted, retryAt) = bucket.reserve(1, at: now)
            state.refusals[peer] = bucket
            return granted == 1 ? nil : .seconds(clamping: max(0, retryAt.timeIntervalSince(now)))
        }
    }

    /// Whether a peer has made too many wrong attempts: then only credentials that were good from there lately are
    /// compared.
    func isOverLimit(_ peer: PeerAddress, at now: Date) -> Bool {
        // An empty bucket gets its next attempt within 50 ms of the last one.
        let (last, _) = lastRefusal.load(ordering: .relaxed).addingReportingOverflow(Self.longestEmpty)
        guard Int64(clamping: now.timeIntervalSince1970 * 1000) <= last else { return false }
        return state.withLock { state in
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

    /// Peers with connections or requests through a proxy, the most that one has, and the connections of all.
    var load: (peers: Int, most: Int, total: Int) {
        state.withLock { state in
            let counts = state.connections.ofPeer.mapValues(\.count)
                .merging(state.forwarded.ofPeer, uniquingKeysWith: +)
            return (counts.count, counts.values.max() ?? 0, state.connections.total)
        }
    }
}
