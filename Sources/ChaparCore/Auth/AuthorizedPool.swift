internal import Synchronization

/// A pool whose calls carry the credential of a strategy, so that any ``AuthStrategy`` works with any backend.
///
/// A refused call is sent once more if the strategy says so, so each call has at most two exchanges. If a call already
/// has a header field of the credential's name, the field is replaced. A call to an address that the strategy does not
/// cover is sent unchanged.
public struct AuthorizedPool: HTTPPool {
    private let pool: any HTTPPool
    private let endpoint: HTTPEndpoint
    private let strategy: any AuthStrategy

    /// Makes a pool over another one that leads to `endpoint`.
    public init(_ pool: any HTTPPool, endpoint: HTTPEndpoint, strategy: any AuthStrategy) {
        self.pool = pool
        self.endpoint = endpoint
        self.strategy = strategy
    }

    /// Sends every call and reports each exactly once; the refused ones after their second exchange.
    public func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
        var covered: [Int] = []
        var others: [Int] = []
        for index in calls.indices {
            if strategy.covers(endpoint, path: calls[index].path) {
                covered.append(index)
            } else {
                others.append(index)
            }
        }
        async let plain: Void = pass(calls, others, report)
        await authorize(calls, covered, report)
        await plain
    }

    private func pass(_ calls: [HTTPCall], _ places: [Int], _ report: @escaping @Sendable ([HTTPReply]) -> Void) async {
        guard !places.isEmpty else { return }
        await pool.send(places.map { calls[$0] }) { replies in report(replies.map { $0.moved(to: places[$0.index]) }) }
    }

    private func authorize(
        _ calls: [HTTPCall],
        _ places: [Int],
        _ report: @escaping @Sendable ([HTTPReply]) -> Void
    ) async {
        guard !places.isEmpty else { return }
        guard let credential = await credential(places, report) else { return }
        let refused = RefusedCalls()
        let strategy = strategy
        await pool.send(places.map { calls[$0].carrying(credential) }) { replies in
            var told: [HTTPReply] = []
            for reply in replies {
                if case .success(let answer) = reply.result, strategy.isRefusal(answer) {
                    refused.add(places[reply.index], answer)
                } else {
                    told.append(reply.moved(to: places[reply.index]))
                }
            }
            if !told.isEmpty { report(told) }
        }
        let (again, answer) = refused.all
        guard let answer else { return }
        switch await strategy.refused(credential, status: answer.status, reason: answer.bearerError) {
        case .retry:
            guard !Task.isCancelled else {
                return fail(again, HTTPFailure(.notProcessed, .cancelled, "the caller was cancelled"), report)
            }
            guard let fresh = await self.credential(again, report) else { return }
            await pool.send(again.map { calls[$0].carrying(fresh) }) { replies in
                report(replies.map { $0.moved(to: again[$0.index]) })
            }
        case .giveUp(let sentence): fail(again, HTTPFailure(.notProcessed, .credentials, sentence), report)
        case .wait(let pause):
            let seconds = Int64(clamping: pause.inSeconds.rounded(.up))
            let words = "no new credential for now; again in \(seconds) s"
            fail(again, HTTPFailure(.notProcessed, .credentialsUnavailable, words, retryAfter: pause), report)
        }
    }

    /// Returns the credential, or nil after failing all calls because there is none.
    private func credential(_ places: [Int], _ report: ([HTTPReply]) -> Void) async -> AuthCredential? {
        do throws(PushError) {
            return try await strategy.credential(for: endpoint)
        } catch {
            fail(places, HTTPFailure(noCredential: error), report)
            return nil
        }
    }

    /// Reports the failure of calls that the platform has not acted on: never sent, or answered with a refusal.
    private func fail(_ places: [Int], _ failure: HTTPFailure, _ report: ([HTTPReply]) -> Void) {
        report(places.map { HTTPReply(index: $0, result: .failure(failure), connection: 0) })
    }

    /// The status of the underlying pool.
    public var status: HTTPPoolStatus { pool.status }

    /// Replaces the connections of the underlying pool.
    public func replaceConnections() { pool.replaceConnections() }

    /// Shuts the pool down; the strategy, which other pools may share, keeps running.
    public func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }
}

/// A transport all of whose pools carry the credential of a strategy.
public struct AuthorizedTransport: HTTPTransport {
    private let transport: any HTTPTransport
    private let strategy: any AuthStrategy

    /// Makes a transport over another one.
    public init(_ transport: any HTTPTransport, strategy: any AuthStrategy) {
        self.transport = transport
        self.strategy = strategy
    }

    /// Makes a pool that authorizes its calls.
    public func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        AuthorizedPool(try transport.pool(configuration), endpoint: configuration.endpoint, strategy: strategy)
    }
}

extension HTTPCall {
    /// Returns the call with the credential's fields in place of its own fields of these names.
    package func carrying(_ credential: AuthCredential) -> HTTPCall {
        let names = Set(credential.headers.map(\.name))
        guard !names.isEmpty else { return self }
        var call = self
        call.headers.removeAll { names.contains($0.name) }
        if template.headers.contains(where: { names.contains($0.name) }) {
            call.template = HTTPCallTemplate(
                method: template.method,
                headers: template.headers.filter { !names.contains($0.name) },
                deadline: template.deadline
            )
        }
        call.headers += credential.httpHeaders
        return call
    }
}

extension HTTPReply {
    /// Returns the reply for another place of a batch.
    func moved(to index: Int) -> HTTPReply {
        HTTPReply(index: index, result: result, connection: connection)
    }
}

/// The calls of one send that were refused.
private final class RefusedCalls: Sendable {
    private let state = Mutex((places: [Int](), answer: HTTPAnswer?.none))

    func add(_ place: Int, _ answer: HTTPAnswer) {
        state.withLock { state in
            state.places.append(place)
            state.answer = answer
        }
    }

    var all: ([Int], HTTPAnswer?) { state.withLock { ($0.places, $0.answer) } }
}
