internal import Foundation
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `GET /v1/keys` and `GET /v1/key`.
///
/// The first lists the configured API keys, with their scopes, expiry, last use and waiting deliveries. The second says
/// what the key of the request may do. Hashes are never shown.
package struct KeysAPI: Sendable {
    let state: GatewayState
    let uses: KeyUses

    /// Creates the endpoint; `uses` has the last use of each key.
    package init(state: GatewayState, uses: KeyUses) {
        self.state = state
        self.uses = uses
    }

    // MARK: The own key

    /// Answers with the rights and limits of the request's key.
    package func show(_ scope: RequestScope) throws(Problem) -> Response {
        try scope.allowParameters([])
        let (caller, gateway) = (scope.caller, scope.gateway)
        let own = gateway.configuration.apiKeys.first { $0.name == caller.name }
        let scopes = GatewayConfiguration.APIKey.Scope.allCases.filter(caller.has)
        return Response.json { writer in
            writer.field("name", caller.name)
            writer.name("scopes")
            writer.texts(scopes.map(\.rawValue).sorted())
            if caller.view != nil {
                writer.name("apps")
                writer.texts(gateway.configuration.apps.sorted().map(\.rawValue))
                writer.name("backends")
                writer.texts(gateway.backends.map(\.name).sorted())
            }
            Self.write(end: own?.notAfter, caller.maximumAudience, caller.queueShare, to: &writer)
        }
    }

    private static func write(
        end: Date?,
        _ maximumAudience: Int?,
        _ queueShare: Double,
        to writer: inout JSONWriter
    ) {
        if let end {
            writer.name("not_after")
            RFC3339.write(end, to: &writer)
        }
        writer.field("max_audience", maximumAudience)
        writer.name("queue_share")
        writer.double(queueShare)
    }

    // MARK: All keys

    /// Answers with the keys that the caller may know of, in the order of the configuration.
    package func list(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        let depths: [String: SenderDepth]?
        do throws(StoreError) {
            depths = try await state.store.depthsBySender()
        } catch {
            throw Problem(error)
        }
        let (now, configuration) = (state.clock.reading, scope.gateway.configuration)
        // The bound is that of the whole gateway, also for a caller that sees a part of it.
        let share = state.snapshot.configuration.queueShare
        // Of the others the caller learns nothing, not even their sum.
        let total = depths?.reduce(0) {
            scope.caller.maySee(sender: $1.key) ? $0.adding(clamping: $1.value.waiting) : $0
        }
        return Response.json { writer in
            writer.name("keys")
            writer.beginArray()
            for key in configuration.apiKeys {
                writer.beginObject()
                write(key, at: now, to: &writer)
                Self.write(end: key.notAfter, key.maximumAudience, key.queueShare ?? share, to: &writer)
                if let depths, let total {
                    Self.write(depths[key.name] ?? SenderDepth(), of: total, at: now, to: &writer)
                }
                writer.endObject()
            }
            writer.endArray()
        }
    }

    private func write(_ key: GatewayConfiguration.APIKey, at now: TimeReading, to writer: inout JSONWriter) {
        writer.field("name", key.name)
        writer.name("scopes")
        writer.texts(key.scopes.map(\.rawValue).sorted())
        writer.field("app", key.app?.rawValue)
        if let backends = key.backends {
            writer.name("backends")
            writer.texts(backends.sorted())
        }
        writer.field("rotating", key.hashes.count > 1)
        if let notAfter = key.notAfter { writer.field("expired", now.wall > notAfter) }
        if let last = uses.use(of: key.name).last {
            writer.name("last_used")
            RFC3339.write(last, to: &writer)
        }
    }

    private static func write(
        _ depth: SenderDepth,
        of total: Int,
        at now: TimeReading,
        to writer: inout JSONWriter
    ) {
        writer.field("waiting", depth.waiting)
        writer.name("share")
        writer.double(total > 0 ? (Double(depth.waiting) / Double(total) * 10_000).rounded() / 10_000 : 0)
        writer.age("oldest_age", since: depth.oldestDue, at: now.steady)
    }
}
