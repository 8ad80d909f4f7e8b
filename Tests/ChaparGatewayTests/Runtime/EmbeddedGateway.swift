import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparStoreSQLite
import ChaparTesting
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A gateway that serves no API, over a store of either kind.
enum EmbeddedGateway {
    enum Kind: CaseIterable, Sendable {
        case memory, file
    }

    /// Runs a gateway while `body` runs, then lets it end in order.
    ///
    /// Its address is one that cannot be listened on. `wrap` puts another store in front.
    static func run(
        _ kind: Kind,
        _ backends: [BackendRegistry.ConfiguredBackend],
        wrap: @Sendable (any WrappingStore.Whole) -> any WrappingStore.Whole = { $0 },
        _ change: (inout GatewayConfiguration) -> Void = { _ in },
        _ body: @Sendable (Gateway) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-embedded-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var configuration = GatewayConfiguration.keyless
        configuration.server.host = "203.0.113.1"
        configuration.queue.drain = .seconds(1)
        change(&configuration)
        let base: any WrappingStore.Whole =
            switch kind {
            case .memory: MemoryStore(MemoryDatabase(time: SystemTime()))
            case .file: try SQLiteStore(SQLiteStoreOptions(path: folder.appending(path: "test.db").path))
            }
        let gateway = try await Gateway.assemble(
            GatewaySnapshot(configuration: configuration, backends: backends),
            store: wrap(base),
            servesAPI: false,
            logger: quiet
        )
        try await run(gateway, body)
    }

    /// Runs a gateway while `body` runs, then lets it end in order.
    static func run(_ gateway: Gateway, _ body: @Sendable (Gateway) async throws -> Void) async throws {
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await gateway.run() }
                let result: Result<Void, any Error>
                do {
                    result = .success(try await body(gateway))
                } catch {
                    result = .failure(error)
                }
                trigger.triggerGracefulShutdown()
                try await tasks.waitForAll()
                try result.get()
            }
        }
    }
}
