package import ChaparCore

/// An answer of a simulated service.
package struct SandboxAnswer: Sendable {
    package var status: Int
    package var headers: [HTTPHeader] = []
    package var body: [UInt8] = []

    package init(status: Int, headers: [HTTPHeader] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Returns the answer with further header fields, which replace its own of the same names.
    package func with(_ fields: [HTTPHeader]) -> SandboxAnswer {
        var answer = self
        answer.headers.removeAll { own in fields.contains { $0.name == own.name } }
        answer.headers += fields
        return answer
    }
}

/// The way in which a connection ends below HTTP.
@nonexhaustive
public enum SandboxConnectionEnd: String, Sendable, Hashable, CaseIterable {
    /// A TCP reset: bytes not read yet are lost.
    case reset
    /// The socket is closed without a TLS goodbye.
    case fin
    /// The server stops sending but goes on reading.
    case halfClose = "half_close"
    /// An orderly TLS goodbye, then the socket is closed.
    case close
}

/// A `GOAWAY` frame, and the end of the connection after it.
///
/// A fault rule, a reply or a test asks for one; the simulated connection sends it and then follows ``ending``.
public struct SandboxGoAway: Sendable, Hashable {
    /// The streams that are still answered.
    @nonexhaustive
    public enum LastStream: Sendable, Hashable {
        /// All that the client has opened.
        case current
        /// None: no open stream was processed.
        case none
        /// The middle one of the open streams: half of them get no answer.
        case middle
        /// 2³¹−1: an announcement only, no stream is dropped yet.
        case maximum
        /// This one.
        case stream(Int32)
    }

    /// The server's treatment of the connection after the frame.
    @nonexhaustive
    public enum Ending: String, Sendable, Hashable, CaseIterable {
        /// It sends the remaining answers, then closes.
        case afterAnswers = "after_answers"
        /// It closes at once.
        case now
        /// It leaves the connection open until the client closes it.
        case linger
    }

    /// The streams that are still answered.
    public var last: LastStream
    /// The HTTP/2 error code, 0 for `NO_ERROR`.
    public var code: UInt32
    /// The debug data: APNs sends `{"reason":"…"}`.
    public var debugData: [UInt8]
    /// The treatment of the connection after the frame.
    public var ending: Ending

    /// Makes a frame with any debug data.
    public init(last: LastStream = .current, code: UInt32 = 0, debugData: [UInt8] = [], ending: Ending = .afterAnswers)
    {
        self.last = last
        self.code = code
        self.debugData = debugData
        self.ending = ending
    }

    /// Makes a frame with APNs' form of debug data.
    public init(reason: String, last: LastStream = .current, code: UInt32 = 0, ending: Ending = .afterAnswers) {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("reason")
        writer.string(reason)
        writer.endObject()
        self.init(last: last, code: code, debugData: writer.bytes, ending: ending)
    }
}

/// A step of a server beside answering.
package enum SandboxStep: Sendable, Hashable {
    /// Waits before the next step.
    case delay(Duration)
    /// Sends settings.
    case settings([HTTP2Setting])
    /// Sends a `GOAWAY`.
    case goAway(SandboxGoAway)
    /// Resets the request's stream with an HTTP/2 error code.
    case resetStream(UInt32)
    /// Ends the connection.
    case end(SandboxConnectionEnd)
    /// From now on reads bytes and sends none, not even acknowledgements.
    case blackHole
    /// From now on leaves pings unanswered.
    case ignorePings
    /// From now on sends at most this many bytes a second.
    case throttle(Int)
}

/// The reply to one request: the answer, and the steps around it.
package struct SandboxReply: Sendable {
    /// The steps before the answer.
    package var before: [SandboxStep] = []
    /// The answer; nil leaves the stream open for ever.
    package var answer: SandboxAnswer?
    /// The steps between the answer's headers and its body.
    package var afterHeaders: [SandboxStep] = []
    /// The steps after the answer.
    package var after: [SandboxStep] = []

    package init(
        before: [SandboxStep] = [],
        answer: SandboxAnswer? = nil,
        afterHeaders: [SandboxStep] = [],
        after: [SandboxStep] = []
    ) {
        self.before = before
        self.answer = answer
        self.afterHeaders = afterHeaders
        self.after = after
    }
}

/// The opening of a connection.
package struct SandboxOpening: Sendable {
    /// The delay of the TLS handshake.
    package var handshakeDelay: Duration = .zero
    /// The delay of the first byte of HTTP/2, the server's SETTINGS.
    package var settingsDelay: Duration = .zero
    /// The steps before the TLS handshake.
    package var steps: [SandboxStep] = []
}
