import ChaparGateway
import ChaparStoreSQLite
import Hummingbird

/// An application that announces orders: what `post` has returned for is on disk, and goes out after a crash too.
func durableOrders(_ apple: PushAccount<some PushBackend>, _ my: ServerSettings, log: Logger) async throws {
    let store = try SQLiteStore(SQLiteStoreOptions(path: my.database), logger: log)
    let client = PushClient(logger: log)
    let gateway = try await Gateway(store: store, logger: log) { try $0.add(client.add(apple, as: "ios"), as: "ios") }
    let router = Router()
    router.post("orders/:order/:phone") { _, context in
        let (order, phone) = (try context.parameters.require("order"), try context.parameters.require("phone"))
        let options = SendOptions(idempotencyKey: order)
        let message = PushNotification(title: "Order \(order)", body: "is on its way")
        return try await gateway.post(message, to: .token(phone, service: .iOSAPNs), options: options).id ?? ""
    }
    async let web: Void = Application(router: router, configuration: my.web, services: [client, gateway]).runService()
    for try await event in gateway.events(after: 0) { print(event.type, event.reason ?? "") }
    try await web
}
