internal import HTTPTypes
internal import Hummingbird

/// One route of the API: a method and a path, who may use it, and what answers.
///
/// All of them stand in ``RouteTable/init(_:)-(Handlers)``; routing, the check of scopes, metrics' labels and the
/// security section of the API's description are made from that list.
struct Route: Sendable {
    /// Answers a request; `values` are the variable steps of its path, as they came.
    typealias Handler =
        @Sendable (_ request: Request, _ values: [Substring], _ scope: RequestScope) async throws(Problem) -> Response

    /// Who may use a route.
    enum Access: Equatable {
        /// Everybody: it reveals nothing that is worth keeping, or brings a credential of its own.
        case open
        /// Whoever has a key.
        case anyKey
        /// Whoever has a key with the scope, or with one that includes it.
        case scope(GatewayConfiguration.APIKey.Scope)
    }

    /// The method; whoever may GET may HEAD.
    let method: HTTPRequest.Method
    /// The path, its variable steps as names in braces: `/v1/notifications/{id}`.
    let path: String
    let access: Access
    /// Whether it is answered however many requests are in progress, at whatever rate.
    let isProbe: Bool
    /// Whether an open route tells more to a caller with a key.
    ///
    /// The key is checked as on other routes; a wrong key is recorded, and the answer is that without a key.
    let tellsKeysMore: Bool
    let handler: Handler

    /// Whether the first variable step of the path may stand in the record: users' ids may not.
    var namesTarget: Bool { !path.hasPrefix("/v1/users/") }

    /// Whether every request is put on record: administration, and what erases.
    let isOnRecord: Bool

    init(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ access: Access,
        isProbe: Bool = false,
        tellsKeysMore: Bool = false,
        erases: Bool = false,
        _ handler: @escaping Handler
    ) {
        self.method = method
        self.path = path
        self.access = access
        self.isProbe = isProbe
        self.tellsKeysMore = tellsKeysMore
        isOnRecord = erases || access == .scope(.admin)
        self.handler = handler
    }
}
