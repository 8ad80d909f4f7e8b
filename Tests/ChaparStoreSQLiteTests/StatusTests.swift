import Foundation
import GRDB
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("Status of a store", .timeLimit(.minutes(1)))
struct StatusTests {
    @Test("Failed transactions are warned of, ten seconds' worth in a line")
    func failures() {
        let log = RecordedLog()
        let status = StoreStatus(logger: log.logger)
        for now: Int64 in [1_000, 1_001, 10_999, 11_000, 11_001, 25_000, 5] {
            status.record(.failed("the disk is on fire"), now: now)
        }
        #expect(log.lines.allSatisfy { $0.hasPrefix("warning ") && $0.contains("the disk is on fire") })
        #expect(log.lines.count == 4, "\(log.lines)")
        for (line, count) in zip(log.lines, [1, 3, 2, 1]) {
            #expect(line.replacing("\"", with: "").contains("store.failures: \(count)"), "\(line)")
        }
    }

    @Test("A file that a newer version brought up to date is refused before anything is written")
    func newer() async throws {
        try await TemporaryFolder.use { folder in
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.version = "9.8.7"
            let store = try SQLiteStore(options, time: ManualTime())
            try await store.publish([[1]])
            await store.close()
            let queue = try DatabaseQueue(path: options.path)
            try await queue.write { db in
                try db.execute(sql: "INSERT INTO grdb_migrations (identifier) VALUES ('77 thoughts')")
            }
            try queue.close()
            let before = try Data(contentsOf: URL(fileURLWithPath: options.path))
            options.version = "1.0.0"
            let error = #expect(throws: StoreError.self) { try SQLiteStore(options, time: ManualTime()) }
            let sentence = error?.description ?? ""
            for word in ["9.8.7", "77 thoughts", options.path, "start that version or a newer one"] {
                #expect(sentence.contains(word), "\(sentence)")
            }
            #expect(try Data(contentsOf: URL(fileURLWithPath: options.path)) == before)
        }
    }

    @Test("A file that an older version without a name wrote is opened, and the version is kept")
    func older() async throws {
        try await TemporaryFolder.use { folder in
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            await (try SQLiteStore(options, time: ManualTime())).close()
            options.version = "1.0.0"
            let store = try SQLiteStore(options, time: ManualTime())
            #expect(try await store.loadState("store.version") == Array("1.0.0".utf8))
            await store.close()
        }
    }
}
