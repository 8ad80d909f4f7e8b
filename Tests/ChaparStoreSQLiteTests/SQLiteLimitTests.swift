import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

@Suite("The store's limits", .timeLimit(.minutes(1)))
struct SQLiteLimitTests {
    private func isFull(_ call: () async throws -> Void) async -> Bool {
        do { try await call() } catch { if case .full? = error as? StoreError { return true } }
        return false
    }

    @Test("A disk that is nearly full takes no new work, and lets the old work end")
    func diskGuard() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let free = FreeSpace()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            // Free pages within the file count as well; a new file has some.
            options.minimumFreeBytes = 1_000_000
            options.freeBytes = { _ in free.bytes.load(ordering: .relaxed) }
            let store = try SQLiteStore(options, time: time)
            let id = try await store.accept(time, recipients: 3)
            let entry = IdempotencyEntry(
                caller: "a",
                key: "k",
                fingerprint: [1],
                answer: [2],
                keepUntil: time.now + 99
            )
            _ = try await store.enqueue(EnqueueBatch([store.sample(time)], idempotency: entry))
            free.bytes.store(900_000, ordering: .relaxed)
            time.advance(by: .seconds(1))
            #expect(await isFull { try await store.accept(time) })
            let again = try await store.enqueue(EnqueueBatch([store.sample(time)], idempotency: entry))
            #expect(again == .replayed(answer: [2]), "what was accepted before is still known")
            let health = await store.health()
            #expect(
                !health.acceptsWork && health.freeBytes == 900_000 && health.detail?.contains("min_free_bytes") == true
            )
            let claimed = try await store.claimNow()
            #expect(claimed.count == 4)
            try await store.record(claimed.map { Resolution(delivery: $0.id, transition: .end(.failed)) })
            #expect(try await store.notification(id)?.counts == [.failed: 3])
            free.bytes.store(5_000_000, ordering: .relaxed)
            time.advance(by: .seconds(1))
            try await store.accept(time)
            #expect(await store.health().acceptsWork)
            await store.close()
        }
    }

    @Test("The writer lets go of what it has done, also while more keeps coming")
    func letsGo() async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: ManualTime())
            let (kept, done) = (Kept(), Flag())
            /// Two chains of operations, of which one waits while the other's next one is carried out: never none
            /// waits.
            @Sendable func add(_ left: Int) {
                let token = kept.token()
                let work = TableWork(rows: 1_000) { _ in
                    token.use()
                    if left > 0 { add(left - 1) } else { done.set() }
                    return {}
                } fail: { _ in
                }
                _ = store.core.inbox.add(.work(work))
            }
            for _ in 0..<2 { add(2_000) }
            while !done.isSet { await Task.yield() }
            #expect(kept.most < 20, "operations in memory at once, of which two waited")
            await store.close()
        }
    }

    @Test("No more than the maximum waits, and room comes back")
    func maximumWaiting() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.maximumWaiting = 10
            let store = try SQLiteStore(options, time: time)
            try await store.accept(time, recipients: 8)
            #expect(await isFull { try await store.accept(time, recipients: 3) })
            try await store.accept(time, recipients: 2)
            #expect(await isFull { try await store.accept(time) })
            _ = try await store.claimNow(5)
            try await store.accept(time, recipients: 5)
            #expect(try await store.depths()["apns"]?.waiting == 10)
            await store.close()
        }
    }

    @Test("A caller has its share of the queue, after a restart too, and the rest is left to other callers")
    func share() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.maximumWaiting = 200
            var store = try SQLiteStore(options, time: time)
            func refusal(of caller: String, _ count: Int) async throws -> StoreError? {
                var new = store.sample(time, recipients: count)
                new.caller = caller
                new.dueAt = time.now + 360 * 86_400
                do { _ = try await store.enqueue(EnqueueBatch([new], share: 0.5)) } catch { return error }
                return nil
            }
            #expect(try await refusal(of: "shop", 60) == nil)
            guard case .shareFull(let reason, let retryAfter)? = try await refusal(of: "shop", 41) else {
                Issue.record("more than its share was taken")
                return
            }
            #expect(reason.contains("60 deliveries of this caller") && reason.contains("share of max_waiting is 100"))
            #expect(retryAfter == .seconds(10))
            #expect(try await refusal(of: "shop", 40) == nil, "up to its share")
            await store.close()
            store = try SQLiteStore(options, time: time)
            guard case .shareFull? = try await refusal(of: "shop", 1) else {
                Issue.record("after a restart more than its share was taken")
                return
            }
            #expect(await store.health().acceptsWork)
            #expect(try await refusal(of: "news", 97) == nil, "the rest is for others")
            #expect(await !store.health().isQueueFull)
            #expect(try await refusal(of: "crm", 1) == nil)
            let health = await store.health()
            #expect(health.isQueueFull && !health.acceptsWork)
            #expect(health.detail == "198 deliveries wait, and max_waiting is 200")
            guard case .full? = try await refusal(of: "crm", 3) else {
                Issue.record("more was taken than may wait")
                return
            }
            await store.close()
            store = try SQLiteStore(options, time: time)
            #expect(await store.health().isQueueFull, "after a restart too")
            var part = try await store.cancel(caller: "shop", from: nil) { _, _ in [1] }
            while let next = part.next { part = try await store.cancel(caller: "shop", from: next) { _, _ in [1] } }
            #expect(await store.health().acceptsWork)
            #expect(try await refusal(of: "shop", 100) == nil, "once it has none waiting")
            await store.close()
        }
    }

    @Test("More calls than the writer can follow are refused, and those accepted are stored")
    func queueBound() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.maximumQueuedRows = 100
            options.rowsPerCommit = 50
            let store = try SQLiteStore(options, time: time)
            let (accepted, refused) = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        do {
                            try await store.accept(time, recipients: 60, name: "n\(number)-")
                            return true
                        } catch StoreError.full {
                            return false
                        }
                    }
                }
                return try await group.reduce(into: (0, 0)) { if $1 { $0.0 += 1 } else { $0.1 += 1 } }
            }
            #expect(refused > 0, "the bound was never reached")
            #expect(accepted + refused == 200)
            #expect(try await store.depths()["apns"]?.waiting == accepted * 60)
            await store.close()
        }
    }

    @Test("A disk that is really full refuses work, loses nothing and does not stop the store")
    func diskFull() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.maximumPages = 100
            var store = try SQLiteStore(options, time: time)
            var accepted: Set<Int64> = []
            var refusals = 0
            for _ in 0..<400 where refusals < 20 {
                let new = store.sample(time, content: 3_000)
                do {
                    _ = try await store.enqueue(EnqueueBatch([new]))
                    accepted.insert(new.id.rawValue)
                } catch StoreError.full {
                    refusals += 1
                }
            }
            #expect(refusals == 20 && accepted.count > 20)
            #expect(await !store.health().acceptsWork)
            #expect(try await store.depths()["apns"]?.waiting == accepted.count)
            for id in accepted.prefix(5) {
                #expect(try await store.notification(NotificationID(rawValue: id))?.counts == [.queued: 1])
            }
            await store.close()
            options.maximumPages = nil
            store = try SQLiteStore(options, time: time)
            let found = try await store.claimNow().map(\.id)
            #expect(Set(found) == accepted)
            await store.close()
        }
    }

    @Test("A call that cannot be stored fails alone")
    func poison() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time)
            let taken = store.sample(time)
            _ = try await store.enqueue(EnqueueBatch([taken]))
            let held = try await store.claimNow()
            let failures = await withTaskGroup(of: Bool.self) { group in
                for number in 0..<100 {
                    group.addTask {
                        let new = store.sample(time, recipients: number % 10 == 3 ? 0 : 1)  // To nobody.
                        let result = try? await store.enqueue(EnqueueBatch([store.sample(time), new]))
                        return result == nil
                    }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(failures == 10)
            #expect(try await store.depths()["apns"] == QueueDepth(waiting: 180, claimed: 1, oldestDue: time.now))
            #expect(try await store.claimNow().count == 180)
            try await store.record(held.map { Resolution(delivery: $0.id, transition: .end(.failed)) })
            #expect(try await store.notification(taken.id)?.counts == [.failed: 1])
            #expect(await store.health().acceptsWork)
            await store.close()
        }
    }

    @Test("However much waits, memory holds a window of it")
    func flatMemory() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.durability = .normal
            options.windowCapacity = 1_000
            options.maximumQueuedRows = 200_000
            var store = try SQLiteStore(options, time: time)
            for round in 0..<40 { try await store.accept(time, recipients: 5_000, name: "r\(round)-") }
            #expect(try await store.depths()["apns"]?.waiting == 200_000)
            #expect(try await store.look { $0.inMemory } <= 1_000)
            await store.close()
            store = try SQLiteStore(options, time: time)
            #expect(try await store.look { $0.inMemory } == 0, "nothing is read before it is asked for")
            var last: Int64 = 0
            for _ in 0..<20 {
                let claimed = try await store.claimNow(300)
                #expect(claimed.count == 300)
                #expect(claimed.allSatisfy { $0.id > last }, "in order")
                last = claimed.last?.id ?? last
                #expect(try await store.look { $0.inMemory } <= 1_000)
            }
            await store.close()
        }
    }
}

/// The free bytes that a test pretends.
final class FreeSpace: Sendable {
    let bytes = Atomic<Int64>(1_000_000)
}

/// Counts the objects that are alive.
private final class Kept: Sendable {
    final class Token: Sendable {
        private let kept: Kept
        init(_ kept: Kept) { self.kept = kept }
        deinit { kept.counts.withLock { $0.now -= 1 } }
        func use() {}
    }

    private let counts = Mutex((now: 0, most: 0))
    var most: Int { counts.withLock { $0.most } }

    func token() -> Token {
        counts.withLock { counts in
            counts.now += 1
            counts.most = max(counts.most, counts.now)
        }
        return Token(self)
    }
}

private final class Flag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { value.load(ordering: .acquiring) }
    func set() { value.store(true, ordering: .releasing) }
}
