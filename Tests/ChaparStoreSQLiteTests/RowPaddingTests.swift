import GRDB
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("Padding in a row for its first attempt", .timeLimit(.minutes(1)))
struct RowPaddingTests {
    @Test("A row has the same size before and after its first attempt", arguments: [1, 57, 58, 120, 121, 150, 175])
    func sameSize(attemptLog: Int) throws {
        let padding = try #require(RowPadding.left(beside: attemptLog))
        // A record is its header, which has a number for each value, and the values.
        func record(_ attemptLog: Int?, _ padding: Int) -> Int {
            func number(_ kind: Int) -> Int { kind < 128 ? 1 : 2 }
            return number(attemptLog.map { 13 + 2 * $0 } ?? 0) + (attemptLog ?? 0) + number(12 + 2 * padding) + padding
        }
        let before = record(nil, RowPadding.initial)
        // The length of a padding of 57 bytes takes one byte less than that of 58: there the row shrinks by one.
        #expect((before - 1...before).contains(record(attemptLog, padding)))
        if padding != 57 { #expect(record(attemptLog, padding) == before) }
    }

    @Test("An attempt log that is too long takes all of the padding", arguments: [176, 200, 10_000])
    func tooLong(attemptLog: Int) { #expect((RowPadding.left(beside: attemptLog) ?? 0) <= 1) }

    @Test("A campaign that keeps failures only has rows without padding, and the logs of its failures")
    func campaigns() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time)
            for keepsAll in [false, true, false] {
                var part = store.sample(time, recipients: 2)
                part.record.partOf = CampaignPart(campaign: 1, first: 0, keepsAll: keepsAll)
                _ = try await store.enqueue(EnqueueBatch([part]))
            }
            try await store.accept(time, recipients: 2)
            let sizes = try await store.read { db in
                let sql = "SELECT coalesce(length(padding), 0) FROM deliveries ORDER BY id"
                return try Int.fetchAll(db, sql: sql)
            }
            #expect(sizes == [0, 0, 176, 176, 0, 0, 176, 176])
            let claimed = try await store.claimNow().sorted { $0.id < $1.id }
            let (accepted, failed) = (claimed[0], claimed[1])
            let attempt = Array(#"{"outcome":"refused"}"#.utf8)
            try await store.record([
                Resolution(of: accepted, .end(.acceptedByPlatform)),
                Resolution(of: failed, .end(.failed), attempt: attempt),
            ])
            let logs = try await store.read { db in
                let sql = "SELECT coalesce(attempt_log, '') FROM deliveries ORDER BY id LIMIT 3"
                return try String.fetchAll(db, sql: sql)
            }
            #expect(logs == ["", #"{"outcome":"refused"}"#, ""])
            await store.close()
        }
    }

    @Test("A delivery handed over at once is not in the index of waiting ones, and is after a crash")
    func index() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let store = try SQLiteStore(options, time: time)
            try await withThrowingTaskGroup(of: Int.self) { group in
                group.addTask {
                    try await store.claim(backend: "apns", limit: 1, wait: .seconds(60)).count
                }
                while try await store.look({ $0.queues.first?.tickets.count ?? 0 }) != 1 { await Task.yield() }
                try await store.accept(time)
                #expect(try await group.next() == 1)
            }
            #expect(try await Self.indexed(store) == 0)
            await store.close()
            let next = try SQLiteStore(options, time: time)
            #expect(try await Self.indexed(next) == 1)
            #expect(try await next.claimNow(1).map(\.isRecovered) == [true])
            await next.close()
        }
    }

    private static func indexed(_ store: SQLiteStore) async throws -> Int? {
        try await store.read {
            let sql = "SELECT count(*) FROM deliveries INDEXED BY waiting WHERE state = 0 AND mark <> 2"
            return try Int.fetchOne($0, sql: sql)
        }
    }
}
