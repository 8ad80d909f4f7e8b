import Foundation
import Logging
import ChaparCore
import ChaparGateway
import ChaparQueue
import ChaparStoreSQLite

#if Postgres
    import ChaparStorePostgres
#endif

/// Opens the store that a configuration names.
enum StoreOpening {
    /// The protocols of a gateway's store.
    typealias GatewayStore = NotificationStore & DeviceStore & OutboxStore

    /// - Throws: ``CommandFailure`` for a mistake of the configuration, else the store's own error.
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

    /// Checks that a store can be at a path, before anything is created there; the error names the field.
    ///
    /// A missing folder is no mistake: its disk may be mounted later.
    private static func checkPlace(of path: String) throws {
        if FolderPath.isFolder(path) == true {
            throw CommandFailure(
                "store.path: \(path) is a folder: name a file in it, such as \(path)/chapar.db",
                .configuration
            )
        }
        let folder = FolderPath.folder(of: path)
        guard !folder.isEmpty else { return }
        guard let isFolder = FolderPath.isFolder(folder) else {
            throw StoreError.failed("store.path: there is no folder \(folder): make it, or mount its disk")
        }
        guard isFolder else {
            throw CommandFailure("store.path: \(folder) is a file and no folder: write another path", .configuration)
        }
    }

    /// Returns what is wrong with the text of `store.url`; nil in a program without PostgreSQL, where the start reports
    /// that.
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

    /// The failure for a PostgreSQL store in a program built without it.
    static let noPostgres = CommandFailure(
        "store.kind: this program was built without PostgreSQL; build it with the trait Postgres",
        .configuration
    )
}

extension SQLiteStoreOptions {
    /// Makes the options from the section `store` of a configuration.
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
        /// Makes the options from the section `store` of a configuration.
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
            // LISTEN needs a session of its own, which such a pooler does not give.
            pollsOnly = store.postgres.pollsOnly || store.postgres.isPooled
            maximumWaiting = store.maximumWaiting
        }
    }
#endif
