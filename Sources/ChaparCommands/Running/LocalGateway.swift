import Logging
import ChaparCore
import ChaparGateway
import ChaparHTTP
import ServiceLifecycle
import Synchronization

/// A gateway that runs within the program while something else needs it: `demo` and `bench`.
enum LocalGateway {
    /// Starts the gateway of a configuration, runs `body` with its port, and shuts it down in order.
    static func run<Value: Sendable>(
        path: String,
        log: LogOutput.Settings,
        adjust: (inout GatewayConfiguration) -> Void,
        _ body: @escaping @Sendable (_ port: Int) async throws -> Value
    ) async throws -> Value {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self, bufferingPolicy: .bufferingNewest(1))
        let assembly = try await GatewayAssembly(path: path, log: log, adjust: adjust) { listening.yield($0) }
        let services = ServiceGroup(
            configuration: .init(
                services: [.init(service: assembly.gateway, successTerminationBehavior: .gracefullyShutdownGroup)],
                logger: Logger(label: "services") { _ in SwiftLogNoOpLogHandler() }
            )
        )
        let value = try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                defer { listening.finish() }  // Ends the wait for the port when the gateway could not listen.
                try await services.run()
                return nil
            }
            group.addTask {
                var found: Int?
                for await port in ports {
                    found = port
                    break
                }
                guard let found else { return nil }
                do {
                    let value = try await body(found)
                    await services.triggerGracefulShutdown()
                    return value
                } catch {
                    await services.triggerGracefulShutdown()
                    throw error
                }
            }
            var value: Value?
            while let result = try await group.next() { value = result ?? value }
            return value
        }
        await assembly.transport.shutdown(grace: .seconds(1))
        guard let value else { throw CommandFailure("the gateway ended before it took requests") }
        return value
    }
}
