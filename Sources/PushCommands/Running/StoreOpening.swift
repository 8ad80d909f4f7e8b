import Foundation
import Logging
import PushCore
import PushGateway
import PushQueue
import PushStoreSQLite

#if Postgres
    import PushStorePostgres
#endif

/// Opens the store that a configuration names.
enum StoreOpening {
    /// What a gateway needs of a store.
    typealias GatewayStore = NotificationStore & DeviceStore & OutboxStore & TraceStore

    /// - Throws: ``CommandFailure`` for a mistake of the configuration, else what is wrong with the store.
    static func open(_ store: GatewayConfiguration.Store, logger: Logger) async throws -> any GatewayStore {
        switch store.kind {
        case .sqlite: return try SQLiteStore(SQLiteStoreOptions(store), logger: logger)
        case .postgres:
            #if Postgres
                return try await PostgresStore.open(PostgresOptions(store), logger: logger)
            #else
                throw noPostgres
            #endif
        }
    }

    /// A PostgreSQL store in a program that has none.
    static let noPostgres = CommandFailure(
        "store.kind: this program was built without PostgreSQL; build it with the trait Postgres",
        .configuration
    )
}

extension SQLiteStoreOptions {
    /// The options that a configuration's section `store` asks for.
    init(_ store: GatewayConfiguration.Store) {
        self.init(path: store.path)
        version = BuildInfo.current.version
        durability = store.durability == .full ? .full : .normal
        minimumFreeBytes = store.minimumFreeBytes
        maximumWaiting = store.maximumWaiting
        maximumBytes = store.maximumBytes
    }
}

#if Postgres
    extension PostgresOptions {
        /// The options that a configuration's section `store` asks for.
        init(_ store: GatewayConfiguration.Store) throws(CommandFailure) {
            do throws(Mistake) {
                try self.init(url: store.postgres.url?.reveal() ?? "", password: store.postgres.password)
            } catch {
                throw CommandFailure("store.url \(error)", .configuration)
            }
            schema = store.postgres.schema
            nodeName = store.postgres.node ?? nodeName
            nodeLease = store.postgres.nodeLease
            preparesStatements = !store.postgres.isPooled
            // Who listens needs a session of its own, which such a pooler does not give.
            pollsOnly = store.postgres.pollsOnly || store.postgres.isPooled
            maximumWaiting = store.maximumWaiting
        }
    }
#endif
