/// One header field of a call or an answer.
///
/// Names are lower case, as HTTP/2 sends them.
public struct HTTPHeader: Hashable, Sendable {
    /// How an HTTP/2 encoder treats the field.
    ///
    /// HTTP/1.1 ignores it.
    @nonexhaustive
    public enum Indexing: Sendable {
        /// Constant on a connection: kept in the compression table.
        case indexed
        /// Different in every call: sent as a literal, so that it does not push useful entries out of the table.
        case literal
    }

    /// The field name, lower case.
    public let name: String
    /// The field value, without line breaks.
    public let value: String
    /// How an HTTP/2 encoder treats the field.
    public let indexing: Indexing

    /// Makes a field; `name` must be lower case already: it is not converted, since this runs once for each message.
    public init(_ name: String, _ value: String, _ indexing: Indexing = .indexed) {
        self.name = name
        self.value = value
        self.indexing = indexing
    }
}

/// The common part of many calls, made once: method, constant header fields, the request deadline.
public final class HTTPCallTemplate: Sendable {
    /// The method, upper case.
    public let method: String
    /// The fields every call of this template carries.
    public let headers: [HTTPHeader]
    /// The longest time a call may take, from hand-over to the last byte of the answer.
    ///
    /// With nil the pool's own deadline applies.
    public let deadline: Duration?

    /// Makes a template.
    public init(method: String, headers: [HTTPHeader] = [], deadline: Duration? = nil) {
        self.method = method
        self.headers = headers
        self.deadline = deadline
    }
}

/// One request of a plugin: a template, and the parts that are this request's own.
public struct HTTPCall: Sendable {
    /// The part that this call shares with others.
    public var template: HTTPCallTemplate
    /// The path with its query, beginning with `/`.
    public var path: String
    /// The fields of this call alone.
    public var headers: [HTTPHeader]
    /// The body; shared by calls that send the same bytes.
    public var body: [UInt8]

    /// Makes a call.
    public init(_ template: HTTPCallTemplate, path: String, headers: [HTTPHeader] = [], body: [UInt8] = []) {
        self.template = template
        self.path = path
        self.headers = headers
        self.body = body
    }
}

/// A complete answer to a call: status, fields, body.
public struct HTTPAnswer: Sendable {
    /// The status code.
    public var status: Int
    /// The fields, names in lower case, in the order received.
    public var headers: [HTTPHeader]
    /// The body, at most the pool's limit.
    public var body: [UInt8]

    /// Makes an answer.
    public init(status: Int, headers: [HTTPHeader] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Returns the first value of the field `name`, which is given in lower case.
    public func header(_ name: String) -> String? {
        headers.first { $0.name == name }?.value
    }
}

/// The reason why a call has no answer, and whether it can have been processed, which decides what may be done next.
public struct HTTPFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// Whether the platform can have acted on the call.
    public enum Stage: String, Sendable {
        /// The call was surely not processed: it was never written, was refused by `REFUSED_STREAM`, or is above the
        /// last stream of a `GOAWAY`.
        ///
        /// Sending it again is safe.
        case notProcessed
        /// It was written, at least in part, and no answer came: it may have been processed.
        case unknown
    }

    /// The cause of a failure, for metrics and for a plugin's mapping.
    @nonexhaustive
    public enum Cause: Hashable, Sendable {
        /// The name could not be resolved, or the connection was refused or timed out.
        case connect
        /// The TLS handshake failed; the detail names a certificate problem when there is one.
        case tls
        /// The peer did not choose the protocol that was asked for.
        case protocolNotNegotiated
        /// The proxy refused the tunnel.
        case proxy
        /// The peer refused the stream before any processing.
        case refusedStream
        /// The peer announced the end of the connection.
        case goAway
        /// The peer reset the stream with this HTTP/2 error code.
        case reset(UInt32)
        /// The connection ended or failed while the call was on it.
        case connectionLost
        /// The call's deadline passed.
        case deadline
        /// The pool already holds the most waiting calls that it may.
        case queueFull
        /// The caller was cancelled, or the pool shut down.
        case cancelled
        /// The answer broke the protocol or was larger than the pool accepts.
        case badAnswer
        /// The connection's credential could not be made.
        case credentials
        /// There is no credential for now: the service that issues it failed or asked for a pause.
        case credentialsUnavailable
        /// The call itself cannot be sent: a path or field that HTTP forbids, or fields that are too large.
        case invalidCall
        /// The host has an address that is not public, though only public ones may be connected to.
        case forbiddenAddress

        /// A stable word for attempt logs and metric labels.
        public var reason: String {
            switch self {
            case .connect: "connect_failed"
            case .tls: "tls_failed"
            case .protocolNotNegotiated: "protocol_not_negotiated"
            case .proxy: "proxy_refused"
            case .refusedStream: "refused_stream"
            case .goAway: "go_away"
            case .reset: "stream_reset"
            case .connectionLost: "connection_lost"
            case .deadline: "deadline"
            case .queueFull: "queue_full"
            case .cancelled: "cancelled"
            case .badAnswer: "bad_answer"
            case .credentials: "credentials"
            case .credentialsUnavailable: "credentials_unavailable"
            case .invalidCall: "invalid_call"
            case .forbiddenAddress: "forbidden_address"
            }
        }
    }

    /// Whether the platform can have acted on the call.
    public let stage: Stage
    /// The cause.
    public let cause: Cause
    /// A sentence for people: never a token, key or payload.
    public let detail: String
    /// The pause that the service which issues the credential asked for; nil when it asked for none.
    public let retryAfter: Duration?

    /// Makes a failure.
    public init(_ stage: Stage, _ cause: Cause, _ detail: String, retryAfter: Duration? = nil) {
        self.stage = stage
        self.cause = cause
        self.detail = detail
        self.retryAfter = retryAfter
    }

    /// Makes the failure of a call for which its strategy gave no credential, from the strategy's error.
    ///
    /// The call was never sent. If the credentials were refused, the failure parks the backend. Any other error pauses
    /// it, for the time that the error names.
    public init(noCredential error: PushError) {
        let isLasting = error.code == .credentialsRefused || error.code == .unsupported
        self.init(
            .notProcessed,
            isLasting ? .credentials : .credentialsUnavailable,
            error.message,
            retryAfter: isLasting ? nil : error.retryAfter
        )
    }

    /// The cause and its detail, for logs.
    public var description: String { "\(cause) (\(stage.rawValue)): \(detail)" }
}

/// The result of one call of a batch.
public struct HTTPReply: Sendable {
    /// The call's place in the batch that was sent.
    public let index: Int
    /// The answer, or why there is none.
    public let result: Result<HTTPAnswer, HTTPFailure>
    /// The number of the connection the call went out on; 0 when it never left.
    public let connection: UInt64

    /// Makes a reply.
    public init(index: Int, result: Result<HTTPAnswer, HTTPFailure>, connection: UInt64) {
        self.index = index
        self.result = result
        self.connection = connection
    }
}
