public import ChaparCore
internal import Synchronization

/// A request that a backend handed to its transport.
public struct SentRequest: Sendable, Hashable {
    /// The endpoint of the pool.
    public var endpoint: HTTPEndpoint
    /// The method.
    public var method: String
    /// The path with its query.
    public var path: String
    /// The template's fields, then the call's own; those that a connection adds are not among them.
    public var headers: [HTTPHeader]
    /// The body.
    public var body: [UInt8]

    /// Makes a request.
    public init(endpoint: HTTPEndpoint, method: String, path: String, headers: [HTTPHeader], body: [UInt8]) {
        self.endpoint = endpoint
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
    }

    /// Returns the first value of a field; the name is in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
    /// The body as text.
    public var text: String { String(decoding: body, as: UTF8.self) }
}

/// A transport that keeps what goes out through another one, so that a test can look into the requests.
///
/// Give the backend this one in the place of its own, and ``requests`` to `BackendConformance.Subject.sent`. It keeps
/// the newest ``limit`` requests.
public final class RecordedTransport: HTTPTransport {
    /// The most requests that are kept.
    public static let limit = 10_000

    private let transport: any HTTPTransport
    private let sent = Mutex<[SentRequest]>([])

    /// Makes a transport over another one.
    public init(_ transport: any HTTPTransport) { self.transport = transport }

    /// The requests so far, in the order in which the pools got them.
    public var requests: [SentRequest] { sent.withLock { $0 } }

    /// Makes a pool of the other transport whose requests are kept.
    public func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        Pool(pool: try transport.pool(configuration), endpoint: configuration.endpoint, transport: self)
    }

    fileprivate func note(_ calls: [HTTPCall], _ endpoint: HTTPEndpoint) {
        let requests = calls.map { call in
            SentRequest(
                endpoint: endpoint,
                method: call.template.method,
                path: call.path,
                headers: call.template.headers + call.headers,
                body: call.body
            )
        }
        sent.withLock { sent in
            sent += requests
            if sent.count > Self.limit { sent.removeFirst(sent.count - Self.limit) }
        }
    }

    private struct Pool: HTTPPool {
        let pool: any HTTPPool
        let endpoint: HTTPEndpoint
        let transport: RecordedTransport

        func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
            transport.note(calls, endpoint)
            await pool.send(calls, report: report)
        }

        var status: HTTPPoolStatus { pool.status }
        func replaceConnections() { pool.replaceConnections() }
        func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }
    }
}
