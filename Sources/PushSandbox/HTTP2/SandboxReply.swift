internal import PushCore

/// What a simulated service answers.
struct SandboxAnswer: Sendable {
    var status: Int
    var headers: [HTTPHeader] = []
    var body: [UInt8] = []

    /// The answer with further header fields, in place of its own of the same names.
    func with(_ fields: [HTTPHeader]) -> SandboxAnswer {
        var answer = self
        answer.headers.removeAll { own in fields.contains { $0.name == own.name } }
        answer.headers += fields
        return answer
    }
}

/// How a connection ends below HTTP.
@nonexhaustive
public enum SandboxConnectionEnd: String, Sendable, Hashable, CaseIterable {
    /// A TCP reset: what was not read yet is lost.
    case reset
    /// The socket is closed without a TLS goodbye.
    case fin
    /// The server stops sending but goes on reading.
    case halfClose = "half_close"
    /// An orderly TLS goodbye, then the socket is closed.
    case close
}

/// What a `GOAWAY` frame says, and what happens after it.
///
/// A rule of faults, a reply or a test asks for one; the simulated connection sends it and then does what ``ending``
/// says.
public struct SandboxGoAway: Sendable, Hashable {
    /// Which streams are still answered.
    @nonexhaustive
    public enum LastStream: Sendable, Hashable {
        /// All that the client has opened.
        case current
        /// None: everything that is open was not processed.
        case none
        /// The middle one of the streams that are open: half of them get no answer.
        case middle
        /// 2³¹−1: an announcement only, nothing is given up yet.
        case maximum
        /// This one.
        case stream(Int32)
    }

    /// What the server does with the connection afterwards.
    @nonexhaustive
    public enum Ending: String, Sendable, Hashable, CaseIterable {
        /// It answers what it still owes, then closes.
        case afterAnswers = "after_answers"
        /// It closes at once.
        case now
        /// It leaves the connection open until the client closes it.
        case linger
    }

    /// Which streams are still answered.
    public var last: LastStream
    /// The HTTP/2 error code, 0 for `NO_ERROR`.
    public var code: UInt32
    /// The debug data: APNs sends `{"reason":"…"}`.
    public var debugData: [UInt8]
    /// What follows.
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

/// One thing a server does beside answering.
enum SandboxStep: Sendable, Hashable {
    /// Waits before the next step.
    case delay(Duration)
    /// Sends settings.
    case settings([HTTP2ServerSession.Setting])
    /// Announces the end.
    case goAway(SandboxGoAway)
    /// Resets the request's stream with an HTTP/2 error code.
    case resetStream(UInt32)
    /// Ends the connection.
    case end(SandboxConnectionEnd)
    /// From now on takes bytes and sends none, not even acknowledgements.
    case blackHole
    /// From now on leaves pings unanswered.
    case ignorePings
    /// From now on sends so many bytes a second at most.
    case throttle(Int)
}

/// What becomes of one request.
struct SandboxReply: Sendable {
    /// Done between the decision and the answer.
    var before: [SandboxStep] = []
    /// The answer; nil leaves the stream open for ever.
    var answer: SandboxAnswer?
    /// Done between the answer's headers and its body.
    var afterHeaders: [SandboxStep] = []
    /// Done after the answer.
    var after: [SandboxStep] = []
}

/// How a connection begins.
struct SandboxOpening: Sendable {
    /// How long the TLS handshake is held up.
    var handshakeDelay: Duration = .zero
    /// How long the first byte of HTTP/2, which is the server's SETTINGS, is held up.
    var settingsDelay: Duration = .zero
    /// Done before the TLS handshake.
    var steps: [SandboxStep] = []
}
