package import ChaparDelivery
package import HTTPTypes
package import Hummingbird

/// A route of the API: a method and a path, the required access, and the handler.
///
/// All routes are listed in `GatewayRoutes.swift` of ChaparServer; routing, scope checks, metrics labels and the
/// security section of the API's description are derived from that list.
package struct Route: Sendable {
    /// A function that answers a request; `values` are the variable steps of its path, still encoded.
    package typealias Handler =
        @Sendable (_ request: Request, _ values: [Substring], _ scope: RequestScope) async throws(Problem) -> Response

    /// The access that a route requires.
    package enum Access: Equatable {
        /// No key: the route reveals nothing worth protecting, or has its own credential.
        case open
        /// Any key.
        case anyKey
        /// A key with the scope, or with one that includes it.
        case scope(GatewayConfiguration.APIKey.Scope)
        /// A key with one of two scopes, or with one that includes it; the first is named to callers that have neither.
        case either(GatewayConfiguration.APIKey.Scope, GatewayConfiguration.APIKey.Scope)

        /// The scopes one of which is needed; empty where none is.
        package var scopes: [GatewayConfiguration.APIKey.Scope] {
            switch self {
            case .open, .anyKey: []
            case .scope(let scope): [scope]
            case .either(let first, let second): [first, second]
            }
        }
    }

    /// The method; GET includes HEAD.
    package let method: HTTPRequest.Method
    /// The path, with its variable steps as names in braces: `/v1/notifications/{id}`.
    package let path: String
    package let access: Access
    /// Whether it is answered regardless of the number of requests in progress and of their rate.
    package let isProbe: Bool
    /// Whether an open route tells more to a caller with a key.
    ///
    /// The key is checked as on other routes; a wrong key is recorded, and the answer is that without a key.
    package let tellsKeysMore: Bool
    package let handler: Handler

    /// Whether the first variable step of the path may be recorded: users' ids may not.
    package var namesTarget: Bool { !path.hasPrefix("/v1/users/") }

    /// Whether every request is recorded: administration, erasures, and searches.
    package let isOnRecord: Bool

    package init(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ access: Access,
        isProbe: Bool = false,
        tellsKeysMore: Bool = false,
        erases: Bool = false,
        isOnRecord: Bool = false,
        _ handler: @escaping Handler
    ) {
        self.method = method
        self.path = path
        self.access = access
        self.isProbe = isProbe
        self.tellsKeysMore = tellsKeysMore
        self.isOnRecord = isOnRecord || erases || access == .scope(.admin)
        self.handler = handler
    }
}
