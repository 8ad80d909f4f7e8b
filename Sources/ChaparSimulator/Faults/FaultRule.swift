public import ChaparCore

/// A fault to inject: the requests or connections it affects, and its steps.
///
/// Rules are tried in the order they were added; the first one that matches decides. Each rule has its own counts.
public struct FaultRule: Sendable, Hashable {
    /// The moment at which the steps are carried out.
    @nonexhaustive
    public enum Point: String, Sendable, Hashable, CaseIterable {
        /// A client connects; TLS has not begun. Only the conditions on listener, count, share and time apply.
        case connect
        /// TLS and HTTP/2 are up, before any request. The same conditions apply as at ``connect``.
        case opened
        /// The request's header block has arrived, its body has not.
        case requestHeaders = "request_headers"
        /// The request is complete and not processed yet: a push that meets a fault here was not accepted.
        case request
        /// The request is processed, and perhaps accepted; its answer is not sent.
        case processed
        /// The answer's headers are sent; its body is not.
        case answerHeaders = "answer_headers"
        /// The answer is sent.
        case answered
    }

    /// A name for people, and for removing the rule.
    public var name: String
    /// The moment at which the steps are carried out.
    public var point: Point
    /// The requests or connections it affects.
    public var match: FaultMatch
    /// The steps, in order.
    public var steps: [FaultStep]

    /// Makes a rule that applies to everything.
    public init(name: String = "", at point: Point = .request, match: FaultMatch = FaultMatch(), _ steps: [FaultStep]) {
        self.name = name
        self.point = point
        self.match = match
        self.steps = steps
    }

    /// Makes a rule with one step.
    public init(name: String = "", at point: Point = .request, match: FaultMatch = FaultMatch(), _ step: FaultStep) {
        self.init(name: name, at: point, match: match, [step])
    }

    /// Makes a rule that resets TCP connections right after they are made: all, or the first `count`.
    public static func refuseConnections(
        listener: SandboxListener? = nil,
        for duration: Duration? = nil,
        count: Int? = nil
    ) -> FaultRule {
        let match = FaultMatch(listener: listener, from: .zero, until: duration, count: count)
        return FaultRule(name: "refuse-connections", at: .connect, match: match, .end(.reset))
    }

    /// Makes a rule that answers 503 `Shutdown` and announces the end of the connection.
    public static func shutdown(match: FaultMatch = FaultMatch(count: 1)) -> FaultRule {
        FaultRule(
            name: "shutdown",
            match: match,
            [.answer(FaultAnswer(503, "Shutdown")), .goAway(SandboxGoAway(reason: "Shutdown"))]
        )
    }
}

/// The name of a simulator's listener, such as `production` of APNs, in fault rules and control calls.
public struct SandboxListener: RawRepresentable, Sendable, Hashable, ExpressibleByStringLiteral {
    /// The name.
    public let rawValue: String
    /// Makes a name.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// Makes a name.
    public init(stringLiteral value: String) { rawValue = value }
}

/// The requests that a fault affects: all conditions that are set must hold.
public struct FaultMatch: Sendable, Hashable {
    /// Only on this listener.
    public var listener: SandboxListener?
    /// Only for device tokens with this prefix; APNs tokens are compared in lower case.
    public var tokenPrefix: String?
    /// Only for this topic.
    public var topic: String?
    /// Only for paths with this prefix.
    public var pathPrefix: String?
    /// Only on this connection.
    public var connection: Int?
    /// Only for requests in this range, of those that meet the conditions above, counted from 1.
    public var requests: ClosedRange<Int>?
    /// Only for every n-th of those requests.
    public var every: Int?
    /// Only this share of those requests, 0 to 1, drawn from the simulator's seed.
    public var share: Double?
    /// Only from this time after the rule was added, by the simulator's clock.
    public var from: Duration
    /// Only until this time after the rule was added, by the simulator's clock; nil for ever.
    public var until: Duration?
    /// The most times that it applies; nil for no limit.
    public var count: Int?

    /// Makes conditions; those that are not given always hold.
    public init(
        listener: SandboxListener? = nil,
        tokenPrefix: String? = nil,
        topic: String? = nil,
        pathPrefix: String? = nil,
        connection: Int? = nil,
        requests: ClosedRange<Int>? = nil,
        every: Int? = nil,
        share: Double? = nil,
        from: Duration = .zero,
        until: Duration? = nil,
        count: Int? = nil
    ) {
        self.listener = listener
        self.tokenPrefix = tokenPrefix
        self.topic = topic
        self.pathPrefix = pathPrefix
        self.connection = connection
        self.requests = requests
        self.every = every
        self.share = share
        self.from = from
        self.until = until
        self.count = count
    }
}

/// One step of a fault.
@nonexhaustive
public enum FaultStep: Sendable, Hashable {
    /// Waits before the next step. At ``FaultRule/Point/connect`` it delays the TLS handshake.
    case delay(Duration)
    /// Delays the server's first SETTINGS. At ``FaultRule/Point/connect`` only.
    case delaySettings(Duration)
    /// Gives this answer instead of the rules' one. Before processing the push counts as not accepted.
    case answer(FaultAnswer)
    /// Gives the rules' answer, distorted.
    case distort(FaultDistortion)
    /// Gives no answer to this request; the stream stays open.
    case silence
    /// Resets the stream with an HTTP/2 error code.
    case resetStream(code: UInt32)
    /// Announces the end of the connection.
    case goAway(SandboxGoAway)
    /// Changes the client's stream limit, also to 0.
    case maximumStreams(Int)
    /// Changes the flow-control window of each stream.
    case initialWindow(Int)
    /// Ends the connection.
    case end(SandboxConnectionEnd)
    /// From now on reads bytes on this connection and sends none.
    case blackHole
    /// From now on leaves pings on this connection unanswered.
    case ignorePings
    /// From now on sends at most this many bytes a second on this connection.
    case throttle(bytesPerSecond: Int)
    /// From now on the first expired provider token makes this connection refuse everything as expired; APNs only.
    case wedgeAfterExpiry
}

/// An answer that a fault gives in place of the real one.
public struct FaultAnswer: Sendable, Hashable {
    /// The time in a 410.
    @nonexhaustive
    public enum Timestamp: Sendable, Hashable {
        /// None.
        case missing
        /// The simulator's time plus this offset: negative is the past.
        case now(offset: Duration)
        /// This one, in milliseconds since 1970.
        case milliseconds(Int64)
    }

    /// The HTTP status.
    public var status: Int
    /// The platform's reason in the body; nil for an empty body.
    public var reason: String?
    /// The time in the body.
    public var timestamp: Timestamp
    /// The value of `Retry-After`, in seconds.
    public var retryAfter: Int?
    /// Whether `Retry-After` is written as a date rather than in seconds; ignored for APNs, which never does that.
    public var retryAfterIsDate = false
    /// A body in place of the JSON object, such as HTML from a middlebox or broken JSON.
    public var body: [UInt8]?
    /// Header fields that replace the answer's own of the same names, such as a `retry-after` that is no number or a
    /// `date` that is far off.
    public var headers: [HTTPHeader]

    /// Makes an answer.
    public init(
        _ status: Int,
        _ reason: String? = nil,
        timestamp: Timestamp = .missing,
        retryAfter: Int? = nil,
        body: [UInt8]? = nil,
        headers: [HTTPHeader] = []
    ) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
        self.retryAfter = retryAfter
        self.body = body
        self.headers = headers
    }

    /// The answer of a proxy in between: 502 with a page of HTML.
    public static let htmlPage = FaultAnswer(
        502,
        body: Array("<html><body><h1>502 Bad Gateway</h1></body></html>".utf8)
    )
}

/// A distortion of the rules' answer.
@nonexhaustive
public enum FaultDistortion: String, Sendable, Hashable, CaseIterable {
    /// The field `apns-id` is left out; no effect on other platforms.
    case withoutID = "without_id"
    /// `apns-id` is in upper case; no effect on other platforms.
    case upperCaseID = "upper_case_id"
    /// The body is left out.
    case emptyBody = "empty_body"
    /// The body is cut off in the middle.
    case truncatedBody = "truncated_body"
}
