@testable import ChaparStoreSQLite
import ChaparTesting

extension SQLiteStore {
    /// Runs `body` with a store in a folder of its own, and closes the store at the end.
    static func use(
        _ change: (inout SQLiteStoreOptions) -> Void = { _ in },
        _ body: (SQLiteStore, SQLiteStoreOptions, ManualTime) async throws -> Void
    ) async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            change(&options)
            let store = try SQLiteStore(options, time: time)
            try await body(store, options, time)
            await store.close()
        }
    }
}
