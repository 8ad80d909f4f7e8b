// A Hummingbird application that announces its orders by push: once `accept` has returned, the message is on disk and goes out,
// whatever happens to the process. To run it without an account a simulator takes Apple's place: `swift run Embedded`.
import Hummingbird
import Logging
import ChaparAPNs
import ChaparCore
import ChaparGateway
import ChaparHTTP
import ChaparQueue
import ChaparSandbox
import ChaparStoreSQLite

@main
enum Embedded {
    static func main() async throws {
        var arguments = CommandLine.arguments.dropFirst()
        let path = arguments.popFirst() ?? "orders.db"
        try await Sandbox.run { sandbox in
            let logger = Logger(label: "shop")
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), logger: logger)
            let client = PushClient(logger: logger)
            let gateway =
                if arguments.contains("from-a-file") {
                    try await FromFile.gateway(FromFile.write(sandbox), client, store, logger)
                } else {
                    try await gateway(SimulatedApple.options(sandbox), client, store, logger)
                }
            try await serve(gateway, client, logger)
        }
    }

    /// The gateway: a backend, a store and the settings, of which every one has a default.
    private static func gateway(
        _ options: APNsOptions,
        _ client: PushClient,
        _ store: SQLiteStore,
        _ logger: Logger
    ) async throws -> Gateway {
        let ios = try client.add(as: "ios", state: store) { try APNsBackend(options: options, context: $0) }
        return try await Gateway(store: store, logger: logger) { try $0.add(ios, as: "ios") }
    }

    /// The application, of which client and gateway are a part.
    private static func serve(_ gateway: Gateway, _ client: PushClient, _ logger: Logger) async throws {
        let router = Router()
        router.post("orders/:order/:phone") { _, context in
            let order = try context.parameters.require("order")
            let phone = try context.parameters.require("phone")
            let message = PushNotification(title: "Order \(order)", body: "is on its way")
            do throws(GatewayProblem) {
                return try await gateway.accept(
                    message,
                    to: [.token(phone, service: .iOSAPNs)],
                    idempotencyKey: "order-\(order)"
                ).id.description
            } catch {
                throw HTTPError(
                    error.retryAfter == nil ? .unprocessableContent : .serviceUnavailable,
                    message: "\(error)"
                )
            }
        }
        router.get("messages/:id") { _, context in
            guard let id = NotificationID(try context.parameters.require("id")) else { throw HTTPError(.notFound) }
            return try await gateway.states(of: id).map { "\($0.state.rawValue) \($0.platformID ?? $0.reason ?? "")" }
        }

        let application = Application(
            router: router,
            configuration: ApplicationConfiguration(
                address: .hostname("127.0.0.1", port: Environment().get("PORT", as: Int.self) ?? 8080)
            ),
            services: [client, gateway],
            logger: logger
        )
        try await application.runService()
    }
}
