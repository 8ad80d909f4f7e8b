import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

@Suite("After a crash", .timeLimit(.minutes(1)))
struct SQLiteCrashTests {
    /// Opens what the disk holds of a store at this moment, as the next process would find it if this one were killed
    /// now.
    private func afterKill(_ path: String, in folder: String, _ number: Int, _ time: ManualTime) throws -> SQLiteStore {
        let copy = "\(folder)/copy\(number).db"
        // The file before its log: without a checkpoint between the two, that is a state the disk really had.
        for suffix in ["", "-wal"] { try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix) }
        return try SQLiteStore(SQLiteStoreOptions(path: copy), time: time)
    }

    @Test("Everything acknowledged before the kill is there, and nothing by halves")
    func acknowledged() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.checkpointPages = 0  // Never, so that the copies below are faithful.
            let store = try SQLiteStore(options, time: time)
            let path = options.path
            let log = Log()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<6 {
                    group.addTask {
                        for round in 0..<60 {
                            let id = try await store.accept(time, recipients: 4, name: "w\(writer)r\(round)-")
                            log.note { $0.acknowledged.append(id) }
                        }
                    }
                }
                group.addTask {
                    while !log.now.isOver {
                        let some = try await store.claimNow(7)
                        log.note { $0.claimed.formUnion(some.map(\.id)) }
                        let most = some.dropLast(2)
                        try await store.record(most.map { Resolution(delivery: $0.id, transition: .end(.delivered)) })
                        log.note { $0.ended.formUnion(most.map(\.id)) }
                    }
                }
                for copy in 0..<4 {
                    // Of what was claimed two of seven have no end.
                    while log.now.acknowledged.count < 60 * (copy + 1) || log.now.claimed.isEmpty {
                        await Task.yield()
                    }
                    let before = log.now
                    let next = try afterKill(path, in: folder, copy, time)
                    var waiting: Set<Int64> = []
                    for id in before.acknowledged {
                        let rows = try await next.deliveries(of: id, after: nil, limit: 10)
                        #expect(rows.count == 4, "an acknowledged notification is there, whole")
                        let counts = try await next.notification(id)?.counts ?? [:]
                        #expect(counts.values.reduce(0, +) == 4)
                        for row in rows where !row.state.isFinal { waiting.insert(row.id) }
                    }
                    #expect(waiting.isDisjoint(with: before.ended), "an acknowledged end stays an end")
                    let again = try await next.claimNow(10_000)
                    #expect(Set(again.map(\.id)).isSuperset(of: waiting), "what is not final can be claimed")
                    let given = again.filter { before.claimed.contains($0.id) }
                    #expect(!given.isEmpty)
                    for delivery in given {
                        #expect(delivery.isRecovered && delivery.isReplay, "a claim that was given out is known")
                    }
                    await next.close()
                }
                log.note { $0.isOver = true }
                try await group.waitForAll()
            }
            await store.close()
        }
    }

    @Test("A delivery that was never claimed is not taken for sent")
    func neverClaimed() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.checkpointPages = 0
            let store = try SQLiteStore(options, time: time)
            try await store.accept(time, recipients: 20)
            let claimed = Set(try await store.claimNow(5).map(\.id))
            #expect(claimed.count == 5)
            let next = try afterKill(options.path, in: folder, 1, time)
            let found = try await next.claimNow()
            #expect(Set(found.map(\.id)).count == 20 && found.count == 20, "all of them can be claimed again")
            #expect(Set(found.filter(\.isRecovered).map(\.id)) == claimed)
            await next.close()
            await store.close()
        }
    }
}

/// The notes of callers so far.
private final class Log: Sendable {
    struct Lines {
        var acknowledged: [NotificationID] = []
        var ended: Set<Int64> = []
        var claimed: Set<Int64> = []
        var isOver = false
    }

    private let lines = Mutex(Lines())
    var now: Lines { lines.withLock { $0 } }
    func note(_ change: (inout Lines) -> Void) { lines.withLock { change(&$0) } }
}
