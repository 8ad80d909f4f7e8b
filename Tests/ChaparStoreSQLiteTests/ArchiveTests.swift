import Foundation
import GRDB
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("The archive", .timeLimit(.minutes(1)))
struct ArchiveTests {
    /// Ends what is due as accepted by the platform; `attemptLog` tells of each.
    private static func end(_ store: SQLiteStore, receipt: String? = nil) async throws {
        let claimed = try await store.claimNow()
        try await store.record(
            claimed.map { claim in
                Resolution(
                    of: claim,
                    .end(.acceptedByPlatform),
                    attempt: Array(#"{"outcome":"accepted","platform_id":"P\#(claim.id)"}"#.utf8),
                    event: [2],
                    receipt: receipt.map { ReceiptAddress(backend: "apns", platformID: "P\(claim.id)", token: $0) }
                )
            }
        )
    }

    /// Bytes that look like nothing else, so that packing them saves nothing.
    private static func noise(_ count: Int, _ random: inout SeededGenerator) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { bytes, filled in
            let raw = UnsafeMutableRawBufferPointer(bytes)
            for place in stride(from: 0, to: count - 7, by: 8) {
                raw.storeBytes(of: random.next(), toByteOffset: place, as: UInt64.self)
            }
            filled = count / 8 * 8
        }
    }

    private static func blocks(_ store: SQLiteStore) async throws -> Int {
        try await store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM archive") ?? -1 }
    }

    @Test(
        "A delivery comes out as it went in",
        arguments: ["4f1c0a" + String(repeating: "9b", count: 29), "Zz!", "abc"]
    )
    func packing(token: String) throws {
        let queue = BackendQueue(name: "apns")
        defer { withExtendedLifetime(queue) {} }
        let flow = Flow.sample(3, in: queue, deliveries: 4)
        let recipient = Recipient.token(DeviceToken(token, service: .iOSAPNs))
        var form: [UInt8] = []
        recipient.appendStoredForm(to: &form)
        for (scheduled, attemptLog) in [(nil, nil), (7, []), (1 << 53, [1, 2])] as [(Int64?, [UInt8]?)] {
            let row = StagedRow.Row(expires: 7, scheduled: scheduled)
            let notification = NotificationRecord(
                content: [9],
                plans: [DeliveryPlan(["apns", "fcm"])],
                acceptedAt: Date(millisecondsSince1970: -5)
            )
            let record = ArchivedDelivery.pack(
                id: 12,
                flow: flow.number,
                state: .failed,
                row,
                recipient: form,
                caller: "é",
                record: notification.encoded,
                attemptLog: attemptLog
            )
            let found = try #require(ArchivedDelivery(record))
            #expect(
                found.recipient == form && Recipient(storedForm: String(decoding: form, as: UTF8.self)) == recipient
            )
            #expect(found.state == .failed && found.flow == 3 && found.expires == 7)
            #expect(found.scheduled == scheduled && found.attemptLog == attemptLog)
            #expect(NotificationRecord(encoded: found.record) == notification)
            #expect(found.caller == Array("é".utf8))
            #expect(ArchivedDelivery(Array(record.dropLast())) == nil)
            #expect(try ArchivedDelivery.find(12, in: EventPacking.pack([record])) == found)
            #expect(try ArchivedDelivery.find(13, in: EventPacking.pack([record])) == nil)
        }
    }

    @Test("Many deliveries are found, each in its own words, also after the store was opened again")
    func many() async throws {
        try await SQLiteStore.use { store, options, time in
            var ids: [NotificationID] = []
            for number in 0..<700 {
                ids.append(try await store.accept(time, name: "token\(number)-"))
                if number % 90 == 0 { time.advance(by: .seconds(7)) }
                if number % 250 == 0 { try await Self.end(store) }
            }
            try await Self.end(store)
            await store.close()
            let next = try SQLiteStore(options, time: time)
            #expect(try await Self.blocks(next) > 3)
            for (number, id) in ids.enumerated() {
                let delivery = try #require(try await next.deliveries(of: id, after: nil, limit: 9).first)
                #expect(delivery.recipient == .token(DeviceToken("token\(number)-0", service: .iOSAPNs)))
                #expect(String(decoding: delivery.attemptLog, as: UTF8.self).contains("P\(id.rawValue)"))
                #expect(delivery.backend == "apns" && delivery.dueAt == nil)
            }
            #expect(try await next.deliveries(of: ids[5], after: ids[5].rawValue, limit: 9).isEmpty)
            #expect(try await next.cancel(ids[5]) { _, _ in [] } == Cancellation(cancelled: 0, tooLate: 1))
            #expect(next.makeID(recipients: 1) > ids[699])
            await next.close()
        }
    }

    @Test("A search by an index finds every delivery of blocks that overlap, more of them than it keeps unpacked")
    func overlapping() async throws {
        try await SQLiteStore.use { store, _, time in
            var ids: [Int64] = []
            for number in 0..<60 { ids.append(try await store.accept(time, name: "token\(number)-").rawValue) }
            let claimed = try await store.claimNow()
            for turn in 0..<6 {
                try await store.record(
                    claimed.filter { ids.firstIndex(of: $0.id).map { $0 % 6 == turn } ?? false }.map { claim in
                        Resolution(
                            of: claim,
                            .end(.failed),
                            attempt: Array(#"{"reason":"R\#(claim.id)"}"#.utf8),
                            event: [2]
                        )
                    }
                )
            }
            #expect(try await Self.blocks(store) == 6)
            for limit in [7, 100] {
                var look = SearchLook(.dead, limit: limit)
                var found: [FoundDelivery] = []
                while true {
                    let page = try await store.search(look) { _ in true }
                    found += page.found
                    guard let next = page.next else { break }
                    look.before = next
                }
                #expect(found.map(\.delivery.id) == ids.reversed())
                for one in found {
                    let log = String(decoding: one.delivery.attemptLog, as: UTF8.self)
                    #expect(log.contains("R\(one.delivery.id)"), "\(log)")
                }
            }
        }
    }

    @Test("A receipt finds a delivery in the archive, by the platform's id or by its number", arguments: [true, false])
    func receipt(isAwaited: Bool) async throws {
        try await SQLiteStore.use { store, _, time in
            let id = try await store.accept(time)
            let other = try await store.accept(time)
            try await Self.end(store, receipt: isAwaited ? "r0" : nil)
            let address =
                isAwaited
                ? ReceiptAddress(backend: "apns", platformID: "P\(id.rawValue)", token: "r0")
                : ReceiptAddress(delivery: id.rawValue)
            for (state, isNews) in [(DeliveryState.delivered, true), (.delivered, false), (.opened, true)] {
                let entry = ReceiptEntry(address, state: state, logEntry: Array(#"{"n":"\#(state)"}"#.utf8)) { _ in [3]
                }
                let results = try await store.record([entry])
                if case .recorded? = results.first { #expect(isNews) } else { #expect(!isNews) }
            }
            #expect(try await store.notification(id)?.counts == [.opened: 1])
            #expect(try await store.notification(other)?.counts == [.acceptedByPlatform: 1])
            let stories = try await store.deliveries(of: id, after: nil, limit: 9).map(\.attemptLog)
            #expect(stories.count == 1 && String(decoding: stories[0], as: UTF8.self).contains(#""n":"opened""#))
        }
    }

    @Test("Blocks are purged whole when they are old, with what was awaited for them")
    func purge() async throws {
        try await SQLiteStore.use { store, _, time in
            let old = try await store.accept(time)
            try await Self.end(store, receipt: "r0")
            time.advance(by: .seconds(100))
            let new = try await store.accept(time)
            try await Self.end(store, receipt: "r0")
            let before = time.steady - 50
            while try await store.purge(Retention(notifications: before, events: before)) {}
            #expect(try await store.notification(old) == nil)
            #expect(try await store.notification(new)?.counts == [.acceptedByPlatform: 1])
            let awaited = try await store.read { try Int64.fetchAll($0, sql: "SELECT delivery FROM awaited") }
            #expect(awaited == [new.rawValue])
            let entry = ReceiptEntry(ReceiptAddress(delivery: old.rawValue), state: .opened, logEntry: [1]) { _ in [3] }
            guard case .unknown? = try await store.record([entry]).first else {
                Issue.record("a receipt found what was purged")
                return
            }
        }
    }

    @Test("Room that a purge makes is given back to the disk, and new work is taken as soon as there is room")
    func room() async throws {
        try await SQLiteStore.use { options in
            options.pageBytes = 4_096
            options.maximumBytes = 40 << 20
            options.checkpointPages = 1_000
            options.logBytes = 1 << 20
        } _: { store, options, time in
            func size() throws -> Int {
                try FileManager.default.attributesOfItem(atPath: options.path)[.size] as? Int ?? 0
            }
            var accepted = 0
            var random = SeededGenerator(seed: 7)
            fill: for round in 0..<100 {
                var batch = (0..<100).map { store.sample(time, name: "\(round)-\($0)") }
                for place in batch.indices { batch[place].record.content = Self.noise(8_000, &random) }
                do {
                    _ = try await store.enqueue(EnqueueBatch(batch))
                } catch StoreError.full(let reason, _) {
                    #expect(reason.contains("max_bytes"))
                    break fill
                }
                accepted += 100
                try await Self.end(store)
                time.advance(by: .seconds(1))
            }
            #expect(accepted > 1_000 && accepted < 9_000)
            #expect(await store.health().detail?.contains("max_bytes") == true)
            let full = try size()
            time.advance(by: .seconds(1))
            while try await store.purge(Retention(notifications: time.steady, events: time.steady)) {}
            time.advance(by: .seconds(1))
            try await store.accept(time)
            #expect(await store.health().acceptsWork)
            await store.close()
            #expect(try size() < full / 2, "the file shrinks")
        }
    }

    @Test("A file that was made before it could shrink can do so after it was opened")
    func older() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let queue = try DatabaseQueue(path: options.path)
            try Schema.migrator.migrate(queue, upTo: "6 arrivals")
            let mode = try await queue.read { try Int.fetchOne($0, sql: "PRAGMA auto_vacuum") }
            #expect(mode == 0)
            try queue.close()
            let store = try SQLiteStore(options, time: ManualTime())
            #expect(try await store.read { try Int.fetchOne($0, sql: "PRAGMA auto_vacuum") } == 2)
            await store.close()
        }
    }

    @Test("Waiting deliveries keep to the memory limit, whatever the size of the messages")
    func bytes() async throws {
        try await SQLiteStore.use { options in
            options.windowBytes = 1 << 20
            options.longestPause = .zero
        } _: { store, options, time in
            for number in 0..<300 { try await store.accept(time, name: "n\(number)", content: 32_000) }
            #expect(try await store.look { $0.bytesInMemory } <= options.windowBytes + (100 << 10))
            var claimed = 0
            while true {
                let some = try await store.claimNow(512)
                #expect(try await store.look { $0.bytesInMemory } <= options.windowBytes + (100 << 10))
                guard !some.isEmpty else { break }
                claimed += some.count
                try await store.record(some.map { Resolution(of: $0, .end(.failed)) })
            }
            #expect(claimed == 300)
        }
    }
}
