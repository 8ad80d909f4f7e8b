internal import Synchronization

/// Pools by endpoint, for a platform whose recipients are addresses at many hosts, such as Web Push and WNS.
///
/// A pool is made with the first call to its endpoint. At most `limit` pools exist: when another one is needed, the
/// pool that has been without calls for longest is closed. While all pools have calls under way, a call to a further
/// endpoint fails as `queueFull`, after which it can be tried again. Where calls carry a credential, pass an
/// ``AuthorizedTransport``; the rule of its strategy decides which endpoints get the credential.
public final class HTTPPools: Sendable {
    /// A call and its endpoint.
    public struct Call: Sendable {
        /// Scheme, host and port.
        public var endpoint: HTTPEndpoint
        /// The call.
        public var call: HTTPCall

        /// Makes a call.
        public init(_ endpoint: HTTPEndpoint, _ call: HTTPCall) {
            self.endpoint = endpoint
            self.call = call
        }
    }

    private struct Entry {
        let pool: any HTTPPool
        /// The number of sends that use it now.
        var uses = 0
        /// The number of its last use: the lowest one is closed first.
        var last: UInt64 = 0
    }

    private struct State {
        var entries: [HTTPEndpoint: Entry] = [:]
        var count: UInt64 = 0
        var isEnded = false
    }

    private let http: any HTTPTransport
    private let configuration: HTTPPoolConfiguration
    private let limit: Int
    private let state = Mutex(State())

    /// Makes a set that has no pools yet; no connection is opened before the first call.
    ///
    /// - Parameters:
    ///   - http: The transport that makes the pools.
    ///   - configuration: The settings of every pool; the endpoint in it is replaced by the endpoint of the calls.
    ///   - limit: The most pools at a time, at least 1.
    public init(_ http: any HTTPTransport, _ configuration: HTTPPoolConfiguration, limit: Int = 64) {
        self.http = http
        self.configuration = configuration
        self.limit = max(1, limit)
    }

    /// Sends every call once through the pool of its endpoint, and reports each exactly once, as the answers come.
    ///
    /// It follows the rules of ``HTTPPool/send(_:report:)``; a reply's `index` is the call's place in `calls`.
    public func send(_ calls: [Call], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
        var places: [HTTPEndpoint: [Int]] = [:]
        for (index, call) in calls.enumerated() { places[call.endpoint, default: []].append(index) }
        await withTaskGroup(of: Void.self) { group in
            for (number, (endpoint, own)) in places.enumerated() {
                if number >= limit { await group.next() }
                group.addTask { await self.send(calls, own, to: endpoint, report) }
            }
        }
    }

    /// Sends one call and waits for its answer.
    public func send(_ call: HTTPCall, to endpoint: HTTPEndpoint) async throws(HTTPFailure) -> HTTPAnswer {
        let slot = ReplySlot()
        await send([Call(endpoint, call)]) { replies in
            for reply in replies { slot.put(reply.result) }
        }
        return try slot.take().get()
    }

    /// The current states of the pools, for ``BackendHealth``.
    public var statuses: [HTTPPoolStatus] {
        let pools = state.withLock { $0.entries.values.map(\.pool) }
        return pools.map(\.status)
    }

    /// The current state of all pools as of one.
    public var status: HTTPPoolStatus { HTTPPoolStatus(merging: statuses) }

    /// Retires every connection of every pool: open streams end normally, new calls open new connections.
    public func replaceConnections() {
        for pool in state.withLock({ $0.entries.values.map(\.pool) }) { pool.replaceConnections() }
    }

    /// Shuts every pool down: waiting calls fail as `cancelled`, open ones have `grace` to end; later calls fail.
    public func shutdown(grace: Duration) async {
        let pools = state.withLock { state in
            state.isEnded = true
            return state.entries.values.map(\.pool)
        }
        await withDiscardingTaskGroup { group in
            for pool in pools { group.addTask { await pool.shutdown(grace: grace) } }
        }
    }

    // MARK: One endpoint

    private func send(
        _ calls: [Call],
        _ places: [Int],
        to endpoint: HTTPEndpoint,
        _ report: @escaping @Sendable ([HTTPReply]) -> Void
    ) async {
        let found: (pool: any HTTPPool, closing: (any HTTPPool)?)
        do throws(HTTPFailure) {
            found = try use(endpoint)
        } catch {
            return report(places.map { HTTPReply(index: $0, result: .failure(error), connection: 0) })
        }
        await found.closing?.shutdown(grace: .zero)
        await found.pool.send(places.map { calls[$0].call }) { replies in
            report(replies.map { $0.moved(to: places[$0.index]) })
        }
        state.withLock { state in state.entries[endpoint]?.uses -= 1 }
    }

    /// Returns the pool of an endpoint, which counts as in use, and the one that gave way to it.
    private func use(_ endpoint: HTTPEndpoint) throws(HTTPFailure) -> (any HTTPPool, closing: (any HTTPPool)?) {
        try state.withLock { state throws(HTTPFailure) in
            guard !state.isEnded else { throw HTTPFailure(.notProcessed, .cancelled, "the pools have ended") }
            state.count += 1
            if var entry = state.entries[endpoint] {
                entry.uses += 1
                entry.last = state.count
                state.entries[endpoint] = entry
                return (entry.pool, nil)
            }
            let idle = state.entries.filter { $0.value.uses == 0 }.min { $0.value.last < $1.value.last }
            guard state.entries.count < limit || idle != nil else {
                throw HTTPFailure(.notProcessed, .queueFull, "calls to \(limit) hosts are under way already")
            }
            let pool = try pool(endpoint)
            let closing = state.entries.count < limit ? nil : idle
            if let closing { state.entries[closing.key] = nil }
            state.entries[endpoint] = Entry(pool: pool, uses: 1, last: state.count)
            return (pool, closing?.value.pool)
        }
    }

    private func pool(_ endpoint: HTTPEndpoint) throws(HTTPFailure) -> any HTTPPool {
        var configuration = configuration
        configuration.endpoint = endpoint
        do throws(HTTPPoolError) {
            return try http.pool(configuration)
        } catch {
            throw HTTPFailure(.notProcessed, .connect, error.description)
        }
    }
}
