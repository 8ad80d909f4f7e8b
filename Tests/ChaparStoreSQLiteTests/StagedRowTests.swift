import Foundation
import GRDB
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("Deliveries without rows", .timeLimit(.minutes(1)))
struct StagedRowTests {
    /// How many rows the tables have, and how many deliveries are in the archive.
    private static func rows(_ store: SQLiteStore) async throws -> (staged: Int, deliveries: Int, archived: Int) {
        try await store.read { db in
            let blocks = try Data.fetchAll(db, sql: "SELECT packed FROM archive")
            return (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM arrivals") ?? -1,
                try Int.fetchOne(db, sql: "SELECT count(*) FROM deliveries") ?? -1,
                try blocks.reduce(0) { $0 + (try ArchivedDelivery.numbers(in: Array($1))).count }
            )
        }
    }

    private static func end(_ delivery: ClaimedDelivery) -> Resolution {
        Resolution(
            delivery: delivery.id,
            transition: .end(.acceptedByPlatform),
            attempt: Array(#"{"outcome":"accepted"}"#.utf8),
            event: [2]
        )
    }

    @Test("A delivery that is answered soon goes into the archive, in its final state")
    func finalRow() async throws {
        try await SQLiteStore.use { store, _, time in
            let ids = [try await store.accept(time), try await store.accept(time)]
            #expect(try await Self.rows(store) == (2, 0, 0))
            let claimed = try await store.claimNow()
            #expect(claimed.map(\.notificationID) == ids)
            try await store.record(claimed.map(Self.end))
            #expect(try await Self.rows(store) == (0, 0, 2))
            for id in ids {
                let delivery = try #require(try await store.deliveries(of: id, after: nil, limit: 10).first)
                #expect(delivery.state == .acceptedByPlatform)
                #expect(delivery.attemptLog == Array(#"{"outcome":"accepted"}"#.utf8))
                #expect(delivery.recipient == .token(DeviceToken("r0", service: .iOSAPNs)))
                let notification = try #require(try await store.notification(id))
                #expect(notification.caller == "shop" && notification.counts == [.acceptedByPlatform: 1])
                #expect(notification.content.count == 20)
                #expect(notification.expiresAt == time.now + 3_600)
            }
        }
    }

    @Test("Who asks for a delivery finds it, before and after it is claimed", arguments: [false, true])
    func reading(isClaimed: Bool) async throws {
        try await SQLiteStore.use { store, _, time in
            let id = try await store.accept(time)
            let other = try await store.accept(time)
            let claimed = isClaimed ? try await store.claimNow() : []
            let state: DeliveryState = isClaimed ? .sending : .queued
            #expect(try await store.notification(id)?.counts == [state: 1])
            #expect(try await store.deliveries(of: other, after: nil, limit: 10).map(\.state) == [state])
            #expect(try await store.notification(NotificationID(rawValue: 7)) == nil)
            let now = isClaimed ? claimed : try await store.claimNow()
            #expect(now.map(\.notificationID) == [id, other], "each once")
            try await store.record(now.map(Self.end))
            #expect(try await store.notification(id)?.counts == [.acceptedByPlatform: 1])
            #expect(try await Self.rows(store) == (0, 0, 2))
        }
    }

    @Test("Each of many that came together is found, whatever their order", arguments: [false, true])
    func manyTogether(isReversed: Bool) async throws {
        try await SQLiteStore.use { store, _, time in
            let new = (0..<50).map { store.sample(time, name: "n\($0)-") }
            _ = try await store.enqueue(EnqueueBatch(isReversed ? new.reversed() : new))
            #expect(try await Self.rows(store) == (1, 0, 0))
            for one in new { #expect(try await store.notification(one.id)?.id == one.id) }
            let highest = NotificationID(rawValue: (new.last?.id.rawValue ?? 0) + 1)
            #expect(try await store.notification(highest) == nil)
            try await store.record(try await store.claimNow(20).map(Self.end))
            for one in new { #expect(try await store.notification(one.id)?.counts.values.reduce(0, +) == 1) }
        }
    }

    @Test("After a crash each is there once, and what was claimed is known")
    func crash() async throws {
        try await SQLiteStore.use { options in
            options.checkpointPages = 0
        } _: { store, options, time in
            var ids: [NotificationID] = []
            for _ in 0..<6 { ids.append(try await store.accept(time)) }
            let claimed = try await store.claimNow(4)
            try await store.record([Self.end(claimed[0])])
            try await store.record([Resolution(delivery: claimed[1].id, transition: .retry(at: time.now, step: 0))])
            let copy = options.path + ".copy"
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: options.path + suffix, toPath: copy + suffix)
            }
            let next = try SQLiteStore(SQLiteStoreOptions(path: copy), time: time)
            #expect(try await Self.rows(next) == (0, 5, 1))
            #expect(try await next.depths()["apns"]?.waiting == 5)
            let again = try await next.claimNow()
            #expect(Set(again.map(\.id)) == Set(ids.dropFirst().map(\.rawValue)))
            #expect(Set(again.filter(\.isRecovered).map(\.id)) == Set(claimed[2...].map(\.id)))
            #expect(try await next.notification(ids[0])?.counts == [.acceptedByPlatform: 1])
            guard case .stored(let content)? = again.first?.content else {
                Issue.record("the content comes from disk")
                return
            }
            #expect(content.count == 20)
            await next.close()
        }
    }

    /// Claims until nothing comes any more; the numbers in the order they came.
    private static func claimAll(_ store: SQLiteStore, _ time: ManualTime) async throws -> [Int64] {
        var ids: [Int64] = []
        for _ in 0..<50 {
            let claimed = try await store.claimNow(400)
            ids += claimed.map(\.id)
            try await store.record(claimed.map(Self.end))
            guard !claimed.isEmpty else { break }
        }
        return ids
    }

    @Test(
        "After the wall clock was set each is claimed once, with and without a row, however many there are",
        arguments: [600, 100],
        [0, 7]
    )
    func clockSet(count: Int, seconds: Int) async throws {
        try await SQLiteStore.use { store, _, time in
            var ids = [try await store.accept(time, recipients: 2).rawValue]
            ids.append(ids[0] + 1)
            let new = (0..<count).map { store.sample(time, name: "n\($0)-") }
            _ = try await store.enqueue(EnqueueBatch(new))
            ids += new.map(\.id.rawValue)
            #expect(try await Self.rows(store) == (1, 2, 0))
            time.set(time.now + 10)
            var claimed = try await store.claimNow(1).map(\.id)  // The writer sees the jump now.
            #expect(claimed.count == 1)
            time.advance(by: .seconds(seconds))
            _ = try await store.claimExpired(limit: 10)
            ids.append(try await store.accept(time).rawValue)
            time.advance(by: .seconds(11))  // That one is due by the new time of day.
            claimed += try await Self.claimAll(store, time)
            #expect(claimed.sorted() == ids.sorted(), "each once")
            let depth = try await store.depths()["apns"]
            #expect(depth?.waiting ?? 0 == 0, "\(String(describing: depth))")
        }
    }

    @Test("One that came in a commit with more than memory holds is claimed all the same")
    func besideLarge() async throws {
        try await SQLiteStore.use { options in
            options.windowBytes = 1
        } _: { store, _, time in
            let large = store.sample(time, recipients: 1_500)
            let single = store.sample(time, name: "single")
            _ = try await store.enqueue(EnqueueBatch([large, single]))
            let claimed = try await Self.claimAll(store, time)
            #expect(claimed.count == 1_501 && claimed.contains(single.id.rawValue))
        }
    }

    @Test("One that was out while expired ones were looked for is found when its own time ends")
    func expiringAfterReturn() async throws {
        try await SQLiteStore.use { store, _, time in
            func accept(_ life: Double) async throws -> NotificationID {
                var new = store.sample(time)
                new.expiresAt = time.now + life
                _ = try await store.enqueue(EnqueueBatch([new]))
                return new.id
            }
            let code = try await accept(60)
            let claimed = try await store.claimNow(1)
            #expect(claimed.map(\.notificationID) == [code])
            let short = try await accept(40)
            _ = try await accept(86_400)
            time.advance(by: .seconds(45))
            let over = try await store.claimExpired(limit: 10)
            #expect(over.map(\.notificationID) == [short])
            try await store.record(over.map(Self.end))
            for _ in 0..<4 { #expect(try await store.claimExpired(limit: 10).isEmpty) }
            let later = store.time.steady + 3_000
            try await store.record(claimed.map { Resolution(of: $0, .retry(at: later, step: 0), attempt: [49]) })
            time.advance(by: .seconds(16))
            var found: [ClaimedDelivery] = []
            for _ in 0..<4 { found += try await store.claimExpired(limit: 10) }
            #expect(found.map(\.notificationID) == [code])
        }
    }

    @Test("A store that was closed in between goes on with them")
    func reopened() async throws {
        try await SQLiteStore.use { store, options, time in
            let id = try await store.accept(time)
            await store.close()
            let next = try SQLiteStore(options, time: time)
            #expect(next.makeID(recipients: 1) > id)
            #expect(try await next.claimNow().map(\.isRecovered) == [false])
            await next.close()
        }
    }

    @Test("A delivery that does not end at once gets its row first")
    func retried() async throws {
        try await SQLiteStore.use { store, _, time in
            for _ in 0..<3 { try await store.accept(time) }
            let claimed = try await store.claimNow()
            let attempt = Array(#"{"outcome":"unknown"}"#.utf8)
            try await store.record([
                Resolution(
                    delivery: claimed[0].id,
                    transition: .retry(at: time.now, step: 0),
                    attempt: attempt,
                    mayHaveBeenSent: true
                ),
                Resolution(delivery: claimed[1].id, transition: .release),
                Resolution(delivery: claimed[2].id, transition: .end(.expired)),
            ])
            #expect(try await Self.rows(store) == (0, 2, 1))
            let again = try await store.claimNow()
            #expect(again.map(\.id) == claimed.prefix(2).map(\.id))
            #expect(again.map(\.attempts) == [1, 0])
            #expect(again.map(\.isReplay) == [true, false])
            #expect(again.first?.attemptLog == attempt)
            #expect(try await store.notification(claimed[2].notificationID)?.counts == [.expired: 1])
        }
    }

    @Test("It can be cancelled while it waits, and not when it is claimed", arguments: [false, true])
    func cancelled(isClaimed: Bool) async throws {
        try await SQLiteStore.use { store, _, time in
            let id = try await store.accept(time)
            if isClaimed { #expect(try await store.claimNow().count == 1) }
            let result = try await store.cancel(id) { _, _ in [3] }
            #expect(
                result
                    == (isClaimed
                        ? Cancellation(cancelled: 0, tooLate: 0, inFlight: 1) : Cancellation(cancelled: 1, tooLate: 0))
            )
            #expect(try await store.claimNow().isEmpty)
            #expect(try await store.depths()["apns"]?.waiting == 0)
        }
    }

    @Test("The search for expired ones finds it")
    func expired() async throws {
        try await SQLiteStore.use { store, _, time in
            let id = try await store.accept(time)
            #expect(try await store.claimExpired(limit: 10).isEmpty)
            time.advance(by: .seconds(3_601))
            let expired = try await store.claimExpired(limit: 10)
            #expect(expired.map(\.notificationID) == [id])
            try await store.record(expired.map { Resolution(delivery: $0.id, transition: .end(.expired)) })
            #expect(try await store.notification(id)?.counts == [.expired: 1])
            #expect(try await store.claimNow().isEmpty)
        }
    }

    @Test("More than memory holds has rows from the start, and the order stays")
    func beyondMemory() async throws {
        try await SQLiteStore.use { options in
            options.windowCapacity = 4
            options.pageSize = 2
            options.longestPause = .zero
        } _: { store, _, time in
            var ids: [NotificationID] = []
            for _ in 0..<10 { ids.append(try await store.accept(time)) }
            #expect(try await Self.rows(store) == (4, 6, 0))
            var seen: [NotificationID] = []
            while seen.count < 10 {
                let some = try await store.claimNow(3)
                try #require(!some.isEmpty)
                seen += some.map(\.notificationID)
                try await store.record(some.map(Self.end))
            }
            #expect(seen == ids)
            #expect(try await Self.rows(store) == (0, 6, 4))
            try await store.accept(time)
            #expect(try await Self.rows(store) == (1, 6, 4))
        }
    }

    @Test("Those that stay without for many commits get rows")
    func bounded() async throws {
        try await SQLiteStore.use { store, _, time in
            for _ in 0..<(StagedRows.most + 10) { try await store.accept(time) }
            let rows = try await Self.rows(store)
            #expect(rows.staged <= StagedRows.most + 1)
            #expect(rows.staged + rows.deliveries == StagedRows.most + 10)
            #expect(try await store.claimNow().count == StagedRows.most + 10)
        }
    }

    @Test("Packed rows are read back, and damaged ones are not")
    func packing() throws {
        let record = NotificationRecord(
            content: [1, 2],
            plans: [DeliveryPlan(["apns", "fcm"])],
            acceptedAt: Date(millisecondsSince1970: 5)
        ).encoded
        var bytes: [UInt8] = []
        var wanted: [StagedRowPacking.Delivery] = []
        for scheduled in [nil, -1, 1 << 53] as [Int64?] {
            StagedRowPacking.append(
                DueKey(due: 6, id: 9),
                flow: 3,
                StagedRow.Row(expires: 7, scheduled: scheduled),
                recipient: [8],
                caller: "é",
                record: record,
                to: &bytes
            )
            wanted.append(
                StagedRowPacking.Delivery(
                    id: 9,
                    flow: 3,
                    due: 6,
                    expires: 7,
                    scheduled: scheduled,
                    recipient: [8],
                    caller: Array("é".utf8),
                    record: record
                )
            )
        }
        #expect(StagedRowPacking.unpack(bytes) == wanted)
        #expect(StagedRowPacking.unpack([]) == [])
        #expect(StagedRowPacking.unpack(bytes.dropLast()) == nil)
        #expect(StagedRowPacking.unpack(Array(repeating: 0xFF, count: 56)) == nil)
    }
}
