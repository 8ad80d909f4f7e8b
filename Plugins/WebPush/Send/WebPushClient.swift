internal import ChaparCore
internal import Synchronization

/// The connections to push services: a pool for each origin, over HTTP/2, or over HTTP/1.1 where a service lacks
/// HTTP/2.
///
/// Redirects are never followed. Calls to hosts that are not named go to public addresses only, checked at each
/// connection.
final class WebPushClient: Sendable {
    /// A call, its origin, and how far that is trusted.
    struct Call: Sendable {
        let origin: HTTPEndpoint
        let trust: WebPushHosts.Trust
        let call: HTTPCall
    }

    private struct Group: Hashable {
        let trust: WebPushHosts.Trust
        let isHTTP2: Bool
    }

    /// The largest answer that is read; Google's refusals are pages of HTML.
    private static let mostAnswerBytes = 65_536
    /// The most origins that are remembered for speaking HTTP/1.1 only.
    private static let capacity = 1_024

    private let pools: [Group: HTTPPools]
    private let older = Mutex<Set<HTTPEndpoint>>([])

    init(common: CommonBackendOptions, http: any HTTPTransport) {
        var pools: [Group: HTTPPools] = [:]
        for trust in [WebPushHosts.Trust.named, .publicOnly] {
            for isHTTP2 in [true, false] {
                // Each pool has the endpoint of its calls.
                var configuration = HTTPPoolConfiguration(
                    endpoint: HTTPEndpoint(host: "push.invalid"),
                    version: isHTTP2 ? .http2 : .http1
                )
                common.apply(to: &configuration)
                configuration.maximumAnswerBytes = Self.mostAnswerBytes
                configuration.requiresPublicAddress = trust == .publicOnly
                pools[Group(trust: trust, isHTTP2: isHTTP2)] = HTTPPools(http, configuration)
            }
        }
        self.pools = pools
    }

    /// Sends every call once and reports each exactly once, as the answers come.
    func send(_ calls: [Call], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
        let known = older.withLock { $0 }
        let refused = Mutex<[Int]>([])
        await send(Array(calls.indices), of: calls, isHTTP2: { !known.contains($0) }) { replies in
            var others: [HTTPReply] = []
            for reply in replies {
                if case .failure(let failure) = reply.result, failure.cause == .protocolNotNegotiated,
                    !known.contains(calls[reply.index].origin)
                {
                    refused.withLock { $0.append(reply.index) }
                } else {
                    others.append(reply)
                }
            }
            if !others.isEmpty { report(others) }
        }
        let rest = refused.withLock { $0 }
        guard !rest.isEmpty else { return }
        older.withLock { older in
            if older.count >= Self.capacity { older.removeAll() }
            for index in rest { older.insert(calls[index].origin) }
        }
        await send(rest, of: calls, isHTTP2: { _ in false }, report: report)
    }

    /// Sends one call.
    func send(_ call: Call) async throws(HTTPFailure) -> HTTPAnswer {
        let result = Mutex<Result<HTTPAnswer, HTTPFailure>?>(nil)
        await send([call]) { replies in
            for reply in replies { result.withLock { $0 = reply.result } }
        }
        guard let answer = result.withLock({ $0 }) else {
            throw HTTPFailure(.unknown, .cancelled, "the call was given up")
        }
        return try answer.get()
    }

    /// The states of the pools that have been used.
    var statuses: [HTTPPoolStatus] {
        let older = older.withLock { $0 }
        guard older.isEmpty else {
            // The HTTP/2 pools of services without HTTP/2 have failed for good. They must not count as an outage.
            return pools.values.flatMap(\.statuses).filter { $0.lastConnectFailure?.cause != .protocolNotNegotiated }
        }
        return pools.values.flatMap(\.statuses)
    }

    /// Shuts all connections down within `grace`.
    func shutdown(grace: Duration) async {
        await withDiscardingTaskGroup { group in
            for pools in pools.values { group.addTask { await pools.shutdown(grace: grace) } }
        }
    }

    private func send(
        _ places: [Int],
        of calls: [Call],
        isHTTP2: (HTTPEndpoint) -> Bool,
        report: @escaping @Sendable ([HTTPReply]) -> Void
    ) async {
        var groups: [Group: [Int]] = [:]
        for place in places {
            groups[Group(trust: calls[place].trust, isHTTP2: isHTTP2(calls[place].origin)), default: []].append(place)
        }
        await withDiscardingTaskGroup { group in
            for (kind, own) in groups {
                guard let pools = pools[kind] else { continue }
                group.addTask {
                    await pools.send(own.map { HTTPPools.Call(calls[$0].origin, calls[$0].call) }) { replies in
                        report(
                            replies.map { reply in
                                HTTPReply(index: own[reply.index], result: reply.result, connection: reply.connection)
                            }
                        )
                    }
                }
            }
        }
    }
}
