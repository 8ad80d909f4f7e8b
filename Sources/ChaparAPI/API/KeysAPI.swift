internal import Foundation
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore

/// `GET /v1/keys`: the configured API keys, with their scopes, expiry and last use.
///
/// Hashes are never shown.
package struct KeysAPI: Sendable {
    let state: GatewayState
    let uses: KeyUses

    /// Creates the endpoint; `uses` has the last use of each key.
    package init(state: GatewayState, uses: KeyUses) {
        self.state = state
        self.uses = uses
    }

    package func list(_ scope: RequestScope) throws(Problem) -> Response {
        try scope.allowParameters([])
        let now = state.clock.reading.wall
        return Response.json { writer in
            writer.name("keys")
            writer.beginArray()
            for key in scope.gateway.configuration.apiKeys {
                writer.beginObject()
                writer.field("name", key.name)
                writer.name("scopes")
                writer.beginArray()
                for name in key.scopes.map(\.rawValue).sorted() { writer.string(name) }
                writer.endArray()
                if let backends = key.backends {
                    writer.name("backends")
                    writer.beginArray()
                    for name in backends.sorted() { writer.string(name) }
                    writer.endArray()
                }
                writer.field("rotating", key.hashes.count > 1)
                if let notAfter = key.notAfter {
                    writer.name("not_after")
                    RFC3339.write(notAfter, to: &writer)
                    writer.field("expired", now > notAfter)
                }
                if let last = uses.use(of: key.name).last {
                    writer.name("last_used")
                    RFC3339.write(last, to: &writer)
                }
                writer.endObject()
            }
            writer.endArray()
        }
    }
}
