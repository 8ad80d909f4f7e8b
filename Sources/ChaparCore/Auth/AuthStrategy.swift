/// Adds credentials to outgoing requests and decides what happens after a refusal.
///
/// Any strategy works with any backend that uses HTTP. A thousand refused requests cause one refresh. The conformance
/// kit of `ChaparTesting` checks strategies.
public protocol AuthStrategy: Sendable {
    /// Returns the credential to use now for a request to `destination`; fetches or makes one first when there is none.
    ///
    /// Throws when it cannot get a credential; the error says whether trying again makes sense. For an address that the
    /// strategy does not cover it throws ``PushError/Code/unsupported`` or returns a credential without fields: never
    /// the secret.
    func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential

    /// Decides what to do after the platform refused a request that carried `credential`.
    ///
    /// For a credential that was replaced in the meantime it returns ``AuthDecision/retry`` and refreshes nothing.
    func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision

    /// Whether a call to this address carries the credential; one that does not is sent unchanged.
    func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool

    /// Whether an answer says that the credential was refused.
    func isRefusal(_ answer: HTTPAnswer) -> Bool

    /// Shuts the strategy down after its last use: pending writes and requests are done when this returns.
    func shutdown() async
}

extension AuthStrategy {
    /// Returns true: every call carries it.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { true }
    /// Whether the status is 401.
    public func isRefusal(_ answer: HTTPAnswer) -> Bool { answer.status == 401 }
    /// Does nothing.
    public func shutdown() async {}
}

/// A credential in the form of header fields.
public struct AuthCredential: Sendable, Hashable {
    /// The header fields that carry it.
    public let headers: [Header]
    /// A number that rises with each new credential of a strategy.
    ///
    /// By it a refusal of an old credential is distinguished from a refusal of the current one.
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

/// The decision about a request whose credential was refused.
@nonexhaustive
public enum AuthDecision: Sendable, Hashable {
    /// Ask for the credential again and send the request once more.
    case retry
    /// No other credential will help; an operator must act. The sentence says how.
    case giveUp(String)
    /// Nothing is wrong with the credential, but the platform asks for a pause before the next one.
    case wait(Duration)
}
