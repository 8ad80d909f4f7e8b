// A Hummingbird application that announces its orders by push: once `accept` has returned, the message is on disk and goes out,
// whatever happens to the process. To run it without an account a simulator takes Apple's place: `swift run Embedded`.
import Hummingbird
import Logging
import PushAPNs
import PushCore
import PushGateway
import PushHTTP
import PushQueue
import PushSandbox
import PushStoreSQLite

@main
enum Embedded {
    static func main() async throws {
        let path = CommandLine.arguments.dropFirst().first ?? "orders.db"
        try await Sandbox.run { sandbox in
            try await serve(SimulatedApple.options(sandbox), store: path, logger: Logger(label: "shop"))
        }
    }

    /// The whole of it.
    private static func serve(_ options: APNsOptions, store path: String, logger: Logger) async throws {
        let store = try SQLiteStore(SQLiteStoreOptions(path: path), logger: logger)
        let client = PushClient(logger: logger)
        let ios = try client.backend("ios", state: store) { try APNsBackend(options: options, context: $0) }
        let gateway = try await Gateway.assemble(
            GatewaySnapshot(configuration: GatewayConfiguration(), backends: [.init(name: "ios", backend: ios)]),
            store: store,
            servesAPI: false,
            logger: logger
        )

        let router = Router()
        router.post("orders/:order/:phone") { _, context in
            let order = try context.parameters.require("order")
            let phone = try context.parameters.require("phone")
            let message = PushNotification(title: .plain("Order \(order)"), body: "is on its way")
            do throws(AcceptanceProblem) {
                return try await gateway.accept(
                    message,
                    to: [.token(phone, service: .iOSAPNs)],
                    idempotencyKey: "order-\(order)"
                ).id.description
            } catch {
                throw HTTPError(error.retryAfter == nil ? .unprocessableContent : .serviceUnavailable, message: "\(error)")
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
