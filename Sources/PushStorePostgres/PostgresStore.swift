internal import Foundation
public import Logging
public import PushCore
internal import PushQueue
internal import Synchronization

/// The store for several gateways: tables in a PostgreSQL database that all of them share.
///
/// Each kind of work has a connection on a thread of its own, so that a slow reading holds up no commit. It asks no plugin and
/// sends nothing.
public final class PostgresStore: Sendable {
    let options: PostgresOptions
    let logger: Logger
    /// The clock, which the database's own one sets.
    public let time: any TimeSource
    /// For the device registry and the outbox.
    let registry: PostgresConnection
    /// For what is looked up in these.
    let reader: PostgresConnection
    let outboxSignals = OutboxSignals()
    let outboxLeases = OutboxLeases()
    private let closed = Atomic(false)

    /// Opens a store, and makes its tables when there are none.
    ///
    /// - Parameters:
    ///   - options: Where the database is.
    ///   - time: In place of the database's clock: for tests.
    ///   - logger: For what happens without a caller.
    /// - Throws: `StoreError.failed` with the fix when the database cannot be used, `StoreError.full` when it cannot be reached now.
    public static func open(
        _ options: PostgresOptions,
        time: (any TimeSource)? = nil,
        logger: Logger = Logger(label: "chapar.store")
    ) async throws(StoreError) -> PostgresStore {
        let store = PostgresStore(options, time: time, logger: logger)
        do throws(PostgresError) {
            try await Schema.migrate(store.registry, options)
        } catch {
            await store.close()
            throw error.storeError
        }
        return store
    }

    private init(_ options: PostgresOptions, time: (any TimeSource)?, logger: Logger) {
        self.options = options
        self.logger = logger
        self.time = time ?? SystemTime()
        registry = PostgresConnection(options, name: "registry")
        reader = PostgresConnection(options, name: "registry-reader")
    }

    /// Whether ``close()`` was called.
    var isClosed: Bool { closed.load(ordering: .acquiring) }

    /// Ends the store after what is under way is committed; later calls throw `StoreError.closed`.
    public func close() async {
        guard !closed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        await endLeases()
        await registry.close()
        await reader.close()
        outboxSignals.close()
    }

    /// Runs a transaction, once more when it met another one.
    func transaction<Value: Sendable>(
        on connection: PostgresConnection,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Value
    ) async throws(StoreError) -> Value {
        var attempts = 0
        while true {
            do throws(PostgresError) {
                return try await connection.transaction(body)
            } catch {
                attempts += 1
                guard error.isConflict, attempts < 8 else { throw error.storeError }
            }
        }
    }

    /// Runs single statements.
    func session<Value: Sendable>(
        on connection: PostgresConnection,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Value
    ) async throws(StoreError) -> Value {
        do throws(PostgresError) {
            return try await connection.session(body)
        } catch {
            throw error.storeError
        }
    }
}
