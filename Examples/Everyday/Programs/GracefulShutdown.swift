import ChaparClient
import ServiceLifecycle
import UnixSignals

/// A service that ends in order at SIGTERM: the reminders first, then the client, with five seconds for what is sent.
func gracefulShutdown(_ apple: PushAccount<some PushBackend>, phone: Recipient, logger: Logger) async throws {
    let client = PushClient(logger: logger)
    let ios = try client.add(apple, as: "ios")
    let reminders = ClosureService {
        while !Task.isShuttingDownGracefully {
            let outcome = await ios.send(PushNotification(body: "Your cart waits"), to: phone)
            print("reminder:", outcome.isAccepted)
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: .seconds(60)) }
        }
    }
    try await ServiceGroup(services: [client, reminders], gracefulShutdownSignals: [.sigterm], logger: logger).run()
}
