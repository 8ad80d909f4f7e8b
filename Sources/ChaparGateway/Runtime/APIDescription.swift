package import Logging
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
package import ChaparCore
package import ChaparQueue
internal import ServiceLifecycle

/// The description of the API without a running gateway: `chapar openapi`.
package enum APIDescription {
    /// Returns the document that a gateway of this build serves under `/openapi.json`.
    ///
    /// - Parameters:
    ///   - store: An empty store, which nothing is written to; the caller closes it.
    ///   - logger: Logs failures of the store.
    /// - Returns: The document, OpenAPI 3.1 in JSON.
    /// - Throws: When the store cannot be read.
    package static func openAPI(
        store: any NotificationStore & DeviceStore & OutboxStore,
        logger: Logger
    ) async throws(StoreError) -> JSONValue {
        var routes: [Route] = []
        _ = try await Gateway(
            GatewaySnapshot(configuration: GatewayConfiguration(), backends: []),
            store: store,
            knownKinds: [],
            notices: EventSink(),
            time: nil,
            metrics: GatewayMetrics(),
            logger: logger,
            planning: OutboxPlanner.ownThread()
        ) { api in
            routes = api.responder.table.routes
            return NoFront()
        }
        return (try? JSONValue(parsing: StaticDocuments.description(BuildInfo.current, routes))) ?? .null
    }

    /// A service that serves nothing.
    private struct NoFront: Service {
        func run() async throws {}
    }
}
