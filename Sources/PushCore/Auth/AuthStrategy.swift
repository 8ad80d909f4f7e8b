/// Adds credentials to outgoing requests and decides what happens after a refusal.
///
/// Interchangeable: any strategy works with any backend that uses HTTP. Refresh is single-flight: a thousand refused
/// requests cause one refresh. Checked by the conformance kit of `PushTesting`.
public protocol AuthStrategy: Sendable {
    /// The credential to use now for a request to `destination`, fetched or made first when there is none.
    ///
    /// Throws when none can be had; the error says whether trying again makes sense. An address that it is not for gets
    /// ``PushError/Code/unsupported``, or a credential without fields: never the secret.
    func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential

    /// Decides after the platform refused a request that carried `credential`.
    ///
    /// A credential that was replaced in the meantime is answered with ``AuthDecision/retry`` and refreshes nothing.
    func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision

    /// Whether a call to this address carries the credential at all; one that does not goes out as it is.
    func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool

    /// Whether an answer says that the credential was refused.
    func isRefusal(_ answer: HTTPAnswer) -> Bool

    /// Ends the strategy after its last use: what it still has to store or to tell is done when this returns.
    func shutdown() async
}

extension AuthStrategy {
    /// Every call carries it.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { true }
    /// 401.
    public func isRefusal(_ answer: HTTPAnswer) -> Bool { answer.status == 401 }
    /// Nothing to end.
    public func shutdown() async {}
}

/// A credential as it goes on a request.
public struct AuthCredential: Sendable, Hashable {
    /// The header fields that carry it.
    public let headers: [Header]
    /// Rises with each new credential of a strategy, so that an old refusal is distinguished from a new one.
    public let generation: UInt64

    /// A header field whose value is a secret.
    public struct Header: Sendable, Hashable {
        /// The field's name, lower case.
        public let name: String
        /// The field's value.
        public let value: Secret

        /// Makes a field.
        public init(_ name: String, _ value: Secret) {
            self.name = name
            self.value = value
        }
    }

    /// Makes a credential.
    public init(headers: [Header], generation: UInt64) {
        self.headers = headers
        self.generation = generation
    }

    /// The fields, ready for an ``HTTPCall``.
    public var httpHeaders: [HTTPHeader] { headers.map { HTTPHeader($0.name, $0.value.reveal()) } }
}

/// What to do with a request whose credential was refused.
@nonexhaustive
public enum AuthDecision: Sendable, Hashable {
    /// Ask for the credential again and send the request once more.
    case retry
    /// No other credential will help; an operator must act. The sentence says how.
    case giveUp(String)
    /// Nothing is wrong with the credential, but the platform asks for a pause before the next.
    case wait(Duration)
}
