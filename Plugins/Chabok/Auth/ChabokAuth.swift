public import ChaparCore

/// One opaque access token, written into a header field, the query, or both; it is never refreshed.
///
/// Only calls to its own origin get the token. `AuthorizedPool` adds the header field; ``stamped(_:for:)`` writes the
/// query parameter, and the plugin calls it for every call.
public final class ChabokAuth: AuthStrategy {
    private let token: Secret
    private let placement: ChabokOptions.TokenPlacement
    private let origin: HTTPEndpoint
    private let headerName: String
    private let queryName: String

    /// Makes a strategy.
    ///
    /// - Parameters:
    ///   - token: The access token.
    ///   - placement: Where it goes.
    ///   - origin: The only scheme, host and port that it may be sent to.
    ///   - headerName: The header field, lower case.
    ///   - queryName: The query parameter.
    public init(
        _ token: Secret,
        placement: ChabokOptions.TokenPlacement,
        origin: HTTPEndpoint,
        headerName: String = "x-access-token",
        queryName: String = "access_token"
    ) {
        self.token = token
        self.placement = placement
        self.origin = origin
        self.headerName = headerName
        self.queryName = queryName
    }

    /// Whether the call goes to the backend's own origin.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { endpoint == origin }

    /// Returns the header field; no field when the token goes into the query only.
    public func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        guard destination == origin, placement != .query else { return AuthCredential(headers: [], generation: 1) }
        return AuthCredential(headers: [.init(headerName, token)], generation: 1)
    }

    /// Returns false always: there is no other token, and Chabok's own answer says more than a refusal would.
    public func isRefusal(_ answer: HTTPAnswer) -> Bool { false }

    /// Gives up: only a person can make an access token, in the panel.
    public func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        .giveUp("Chabok refused the access token (\(status)): check access_token and environment")
    }

    /// Returns the path with the token in its query, if the options put it there and the call goes to the token's
    /// origin.
    ///
    /// - Throws: When the path has another token already, which is a mistake of the program.
    public func stamped(_ path: String, for endpoint: HTTPEndpoint) throws(PushError) -> String {
        guard endpoint == origin else { return path }
        let written = FormEncoding.encode(token.reveal())
        let query = path.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        for pair in query.split(separator: "&") where pair.hasPrefix("\(queryName)=") {
            guard pair.dropFirst(queryName.count + 1) == written else {
                throw PushError(.invalidRequest, "the address carries another \(queryName)", reason: "foreign_token")
            }
            return path
        }
        guard placement != .header else { return path }
        return "\(path)\(path.contains("?") ? "&" : "?")\(queryName)=\(written)"
    }

    /// Returns a text without the token's value, for logs.
    public func redacted(_ text: String) -> String {
        let plain = token.reveal()
        guard !plain.isEmpty else { return text }
        return text.replacing(FormEncoding.encode(plain), with: "***").replacing(plain, with: "***")
    }
}
