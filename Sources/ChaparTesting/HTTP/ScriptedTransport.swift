public import ChaparCore
internal import Synchronization

/// An HTTP transport without sockets: a closure plays the platform, so that a test reads like the conversation it
/// checks.
///
/// It follows the contract of `HTTPPool` where plugins depend on it: policies are asked for header fields when a
/// connection opens, and for a verdict on every answer that is no success; a retired connection gets no further call.
/// Every call of all pools is kept in ``calls``. Stream limits, deadlines and real failures are not simulated: test
/// them on real sockets.
public final class ScriptedTransport: HTTPTransport {
    /// A call as it would have been sent.
    public struct Sent: Sendable {
        /// The endpoint.
        public let endpoint: HTTPEndpoint
        /// The connection's number.
        public let connection: UInt64
        /// The method.
        public let method: String
        /// The path.
        public let path: String
        /// All header fields: the policy's, the template's, the call's own.
        public let headers: [HTTPHeader]
        /// The body.
        public let body: [UInt8]

        /// Returns the first value of a field; the name is in lower case.
        public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
        /// The body as text.
        public var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// Returns the platform's answer to a call.
    public typealias Platform = @Sendable (Sent) -> Result<HTTPAnswer, HTTPFailure>

    private let platform: Platform
    private let sent = Mutex<[Sent]>([])
    private let made = Mutex<[HTTPPoolConfiguration]>([])
    private let presetStatus = Mutex<HTTPPoolStatus?>(nil)
    fileprivate static let nextConnection = Mutex<UInt64>(1)

    /// Makes a transport whose platform answers with the closure.
    public init(_ platform: @escaping Platform) { self.platform = platform }

    /// Makes a transport whose platform answers everything with 200.
    public convenience init() { self.init { _ in .success(HTTPAnswer(status: 200)) } }

    /// All calls so far, in order.
    public var calls: [Sent] { sent.withLock { $0 } }

    /// The configurations of the pools that were made.
    public var configurations: [HTTPPoolConfiguration] { made.withLock { $0 } }

    /// The status that the pools report from now on; nil for their own.
    public var status: HTTPPoolStatus? {
        get { presetStatus.withLock { $0 } }
        set { presetStatus.withLock { $0 = newValue } }
    }

    /// Makes a pool.
    public func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        made.withLock { $0.append(configuration) }
        return Pool(configuration: configuration, transport: self)
    }

    fileprivate func answer(_ call: Sent) -> Result<HTTPAnswer, HTTPFailure> {
        sent.withLock { $0.append(call) }
        return platform(call)
    }

    private final class Pool: HTTPPool {
        private struct State {
            var connection: (info: HTTPConnectionInfo, headers: [HTTPHeader])?
            var opened = 0
            var isEnded = false
        }

        private let configuration: HTTPPoolConfiguration
        private let transport: ScriptedTransport
        private let state = Mutex(State())

        init(configuration: HTTPPoolConfiguration, transport: ScriptedTransport) {
            self.configuration = configuration
            self.transport = transport
        }

        func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
            // Calls that are sent together use the same connection, as streams do; a verdict affects later ones.
            var replies: [HTTPReply] = []
            for (index, call) in calls.enumerated() {
                if Task.isCancelled {
                    let failure = HTTPFailure(.notProcessed, .cancelled, "the caller was cancelled")
                    replies.append(HTTPReply(index: index, result: .failure(failure), connection: 0))
                } else {
                    replies.append(perform(call, index))
                }
            }
            if !replies.isEmpty { report(replies) }
        }

        private func perform(_ call: HTTPCall, _ index: Int) -> HTTPReply {
            let connection: (info: HTTPConnectionInfo, headers: [HTTPHeader])
            do throws(HTTPFailure) {
                connection = try open()
            } catch {
                return HTTPReply(index: index, result: .failure(error), connection: 0)
            }
            let result = transport.answer(
                Sent(
                    endpoint: configuration.endpoint,
                    connection: connection.info.id,
                    method: call.template.method,
                    path: call.path,
                    headers: connection.headers + call.template.headers + call.headers,
                    body: call.body
                )
            )
            if case .success(let answer) = result, !(200..<300).contains(answer.status),
                configuration.policy?.verdict(on: answer, from: connection.info) == .retire
            {
                state.withLock { if $0.connection?.info.id == connection.info.id { $0.connection = nil } }
            }
            return HTTPReply(index: index, result: result, connection: connection.info.id)
        }

        private func open() throws(HTTPFailure) -> (info: HTTPConnectionInfo, headers: [HTTPHeader]) {
            let known = state.withLock { $0.isEnded ? nil : $0.connection }
            if let known {
                let headers = try configuration.policy?.headers(for: known.info) ?? []
                return (known.info, headers)
            }
            if state.withLock({ $0.isEnded }) {
                throw HTTPFailure(.notProcessed, .cancelled, "the pool was shut down")
            }
            let id = ScriptedTransport.nextConnection.withLock { next -> UInt64 in
                defer { next += 1 }
                return next
            }
            let info = HTTPConnectionInfo(id: id, openedAt: .now)
            let opened = (info, try configuration.policy?.headers(for: info) ?? [])
            state.withLock { state in
                state.connection = opened
                state.opened += 1
            }
            return opened
        }

        var status: HTTPPoolStatus {
            if let preset = transport.status { return preset }
            return state.withLock { state in
                let connections = state.connection == nil ? 0 : 1
                return HTTPPoolStatus(
                    connections: connections,
                    streamLimit: connections * 1000,
                    connectionsOpened: state.opened
                )
            }
        }

        func replaceConnections() { state.withLock { $0.connection = nil } }

        func shutdown(grace: Duration) async {
            state.withLock { state in
                state.isEnded = true
                state.connection = nil
            }
        }
    }
}
