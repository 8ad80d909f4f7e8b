import Foundation
import ChaparCore
import ChaparStoreSQLite
import ChaparStoreContract
import Testing

@Suite("The embedded store keeps the contract", .timeLimit(.minutes(1)))
struct SQLiteConformanceTests {
    @Test("As it comes", arguments: StoreConformance.cases)
    func contract(_ check: StoreConformanceCase) async throws {
        try await TemporaryFolder.use { folder in
            try await check.run { time in
                try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time)
            }
        }
    }

    @Test("With next to no memory, so that everything goes through the disk", arguments: StoreConformance.cases)
    func contractWithoutMemory(_ check: StoreConformanceCase) async throws {
        try await TemporaryFolder.use { folder in
            try await check.run { time in
                var options = SQLiteStoreOptions(path: folder + "/store.db")
                options.windowCapacity = 3
                options.pageSize = 2
                options.eventsInMemory = 2
                options.rowsPerCommit = 5
                options.expiryScan = 2
                return try SQLiteStore(options, time: time)
            }
        }
    }
}
