import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

/// Walks over stored rows go on behind rows that cannot be read.
///
/// Before, a page full of such rows had no end of its own: the walk asked for it again, or stopped there.
@Suite("Pages of damaged rows", .timeLimit(.minutes(1)))
struct DamagedPageTests {
    /// A store with notifications to 2, 3 and 2 recipients, one second after the other.
    private func fill(_ options: SQLiteStoreOptions, _ time: ManualTime) async throws -> [NotificationID] {
        let store = try SQLiteStore(options, time: time)
        var ids: [NotificationID] = []
        for (index, count) in [2, 3, 2].enumerated() {
            ids.append(try await store.accept(time, recipients: count, name: "r\(index)-"))
            time.advance(by: .seconds(1))
        }
        await store.close()
        return ids
    }

    private func damage(_ options: SQLiteStoreOptions, _ sql: String) throws {
        let queue = try DatabaseQueue(path: options.path)
        try queue.write { db in
            let rows = try db.damage(sql)
            #expect(rows > 0, "\(sql)")
        }
        try queue.close()
    }

    @Test("A look at what waits ends, and sees what is around the damaged rows", arguments: [0, 1, 2])
    func waiting(damaged: Int) async throws {
        try await TemporaryFolder.use { folder in
            let (options, time) = (SQLiteStoreOptions(path: folder + "/store.db"), ManualTime())
            let ids = try await fill(options, time)
            let first = ids[damaged].rawValue
            // A fraction stays one in a column for whole numbers, and is in its place in the index.
            try damage(options, "UPDATE deliveries SET due = due - 0.5 WHERE id BETWEEN \(first) AND \(first + 2)")
            let store = try SQLiteStore(options, time: time)
            var found: [Int64] = []
            var place: WaitingPlace?
            var pages = 0
            repeat {
                let look = WaitingLook(backend: "apns", after: place, limit: 2)
                let page = try await store.waitingDeliveries(look) { _ in true }
                found += page.found.map(\.id)
                place = page.next
                pages += 1
            } while place != nil && pages < 50
            #expect(pages < 50, "the walk does not end")
            let whole = ids.enumerated().filter { $0.offset != damaged }
            let wanted = whole.flatMap { index, id in (0..<2 + index % 2).map { id.rawValue + Int64($0) } }
            #expect(found == wanted)
            await store.close()
        }
    }

    @Test(
        "A damaged due time in the first row of a flow keeps no gateway from its start, and the rows around it are given out",
        arguments: ["due - 0.5", "'x'", "'99999999999999999999'", "x'00'", "1e300", "-1e300"]
    )
    func firstOfFlow(due: String) async throws {
        try await TemporaryFolder.use { folder in
            let (options, time) = (SQLiteStoreOptions(path: folder + "/store.db"), ManualTime())
            let ids = try await fill(options, time)
            let first = ids[0].rawValue
            try damage(options, "UPDATE deliveries SET due = \(due) WHERE id = \(first)")
            let store = try SQLiteStore(options, time: time)
            let claimed = try await store.claimNow().map(\.id)
            let all = ids.enumerated().flatMap { index, id in (0..<2 + index % 2).map { id.rawValue + Int64($0) } }
            #expect(Set(claimed) == Set(all).subtracting([first]))
            await store.close()
        }
    }

    @Test("A flow of which every row has a damaged due time keeps no gateway from its start and gives out none")
    func allOfFlow() async throws {
        try await TemporaryFolder.use { folder in
            let (options, time) = (SQLiteStoreOptions(path: folder + "/store.db"), ManualTime())
            _ = try await fill(options, time)
            try damage(options, "UPDATE deliveries SET due = 'x'")
            let store = try SQLiteStore(options, time: time)
            let claimed = try await store.claimNow()
            #expect(claimed.isEmpty)
            await store.close()
        }
    }

    @Test("Claimed deliveries are neither read nor shown")
    func claimed() async throws {
        try await TemporaryFolder.use { folder in
            let (options, time) = (SQLiteStoreOptions(path: folder + "/store.db"), ManualTime())
            _ = try await fill(options, time)
            let store = try SQLiteStore(options, time: time)
            let claims = Set(try await store.claimNow(3).map(\.id))
            let page = try await store.waitingDeliveries(WaitingLook(backend: "apns", limit: 100)) { waiting in
                #expect(!claims.contains(waiting.id), "a claimed delivery is decided about")
                return true
            }
            #expect(page.found.count == 4)
            await store.close()
        }
    }

    @Test(
        "The search for expired deliveries goes on around damaged rows",
        arguments: ["due = due - 0.5", "due = 'x'", "expires = 'x'"],
        [0, 1, 2]
    )
    func expiry(change: String, damaged: Int) async throws {
        try await TemporaryFolder.use { folder in
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.expiryScan = 2
            let time = ManualTime()
            let ids = try await fill(options, time)
            let first = ids[damaged].rawValue
            try damage(options, "UPDATE deliveries SET \(change) WHERE id BETWEEN \(first) AND \(first + 2)")
            time.advance(by: .seconds(4_000))
            let store = try SQLiteStore(options, time: time)
            var found: Set<Int64> = []
            for _ in 0..<10 { found.formUnion(try await store.claimExpired(limit: 10).map(\.id)) }
            let whole = ids.enumerated().filter { $0.offset != damaged }
            let wanted = whole.flatMap { index, id in (0..<2 + index % 2).map { id.rawValue + Int64($0) } }
            #expect(found == Set(wanted))
            await store.close()
        }
    }

    @Test("A purge removes what is around damaged rows")
    func purge() async throws {
        try await TemporaryFolder.use { folder in
            let (options, time) = (SQLiteStoreOptions(path: folder + "/store.db"), ManualTime())
            let ids = try await fill(options, time)
            var store = try SQLiteStore(options, time: time)
            let ends = try await store.claimNow().map {
                Resolution(delivery: $0.id, transition: .end(.acceptedByPlatform), attempt: [0x31])
            }
            try await store.record(ends)
            for _ in 0..<3 { try await store.publish([[1]]) }
            await store.close()
            try damage(options, "UPDATE deliveries SET changed = changed - 0.5 WHERE id = \(ids[0].rawValue)")
            try damage(options, "UPDATE events SET at = 'x' WHERE first = (SELECT min(first) FROM events)")
            try damage(options, "INSERT INTO archive (number, first, last, at, packed) VALUES (1, 1, 1, 'x', x'00')")
            store = try SQLiteStore(options, time: time)
            let later = time.now + 400 * 86_400
            for _ in 0..<10 where try await store.purge(Retention(notifications: later, events: later)) {}
            #expect(try await store.notification(ids[1]) == nil)
            #expect(try await store.notification(ids[2]) == nil)
            #expect(
                try await store.events(after: 0, limit: 100, wait: .zero).count == 1,
                "the newest keeps the numbers going"
            )
            await store.close()
        }
    }

    @Test("Entries of the outbox behind damaged ones are claimed, and no claim waits for a damaged one")
    func outbox() async throws {
        try await TemporaryFolder.use { folder in
            let (options, time) = (SQLiteStoreOptions(path: folder + "/store.db"), ManualTime())
            var store = try SQLiteStore(options, time: time)
            let entries = ["a", "b", "c"].map { OutboxEntry(backend: "crm", device: $0, kind: .tags, at: time.now) }
            try await store.enqueue(entries)
            await store.close()
            try damage(options, "UPDATE outbox_entries SET kind = 'x' WHERE device <> 'c'")
            store = try SQLiteStore(options, time: time)
            let found = try await store.claimEntries(of: "crm", limit: 2, lease: .seconds(60), wait: .zero)
            #expect(found.map(\.operation.device) == ["c"])
            try await store.record(found.map { OutboxResult($0, .end) })
            let again = try await store.work(rows: 1, isNew: false) { (writer) throws(StoreError) in
                let now = writer.transaction.now
                return try writer.outbox.entries().claim(of: "crm", limit: 2, until: now + 1, now: now)
            }
            #expect(again.claims.isEmpty && again.next == nil, "a claim would come back at once, without end")
            await store.close()
        }
    }
}
