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
        case .sqlite:
            try checkPlace(of: store.path)
            return try SQLiteStore(SQLiteStoreOptions(store), logger: logger)
        case .postgres:
            #if Postgres
                return try await PostgresStore.open(PostgresOptions(store), logger: logger)
            #else
                throw noPostgres
            #endif
        }
    }

    /// Names the field of a place at which no store can be, before anything is made there.
    ///
    /// A missing folder may be that of a disk that comes later, so it is no mistake of the configuration.
    private static func checkPlace(of path: String) throws {
        var isFolder: ObjCBool = false
        if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue {
            throw CommandFailure(
                "store.path: \(path) is a folder: name a file in it, such as \(path)/chapar.db",
                .configuration
            )
        }
        let folder = FolderPath.folder(of: path)
        guard folder.isEmpty || FileManager.default.fileExists(atPath: folder) else {
            throw StoreError.failed("store.path: there is no folder \(folder): make it, or mount its disk")
        }
    }

    /// What is wrong with `store.url`, by its text alone; nil in a program without PostgreSQL, which says that at the
    /// start.
    static func mistake(_ postgres: GatewayConfiguration.Store.Postgres) -> String? {
        #if Postgres
            do throws(PostgresOptions.Mistake) {
                _ = try PostgresOptions(url: postgres.url?.reveal() ?? "", password: postgres.password)
            } catch {
                return error.description
            }
        #endif
        return nil
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
