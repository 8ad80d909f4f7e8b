import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let events: [StoreConformanceCase] = [
        StoreConformanceCase("Events are numbered without gaps and can be read from any number, also afterwards") {
            fixture in
            var store = try await fixture.open()
            try expect(try await store.lastEvent(), is: 0, "before the first")
            var wanted: [String] = []
            for round in 0..<40 {
                let id = try await store.accept(.sample(store, fixture.time, to: [.sample(1), .sample(2)]))
                let claimed = try await store.claimNow()
                try await store.end(claimed)
                try await store.publish([Array("a \(round)".utf8), Array("b \(round)".utf8)])
                wanted.append("accepted \(id)")
                wanted += claimed.map { "ended \($0.id)" } + ["a \(round)", "b \(round)"]
            }
            for isReopened in [false, true] {
                if isReopened { store = try await fixture.reopen(store) }
                try expect(try await store.lastEvent(), is: Int64(wanted.count), "the newest")
                for limit in [1, 7, 1_000] {
                    var found: [StoredEvent] = []
                    while true {
                        let some = try await store.events(
                            after: found.last?.number ?? 0,
                            limit: limit,
                            wait: .zero
                        )
                        try expect(some.count <= limit, "more events than asked for")
                        if some.isEmpty { break }
                        found += some
                    }
                    try expect(found.map(\.number), is: Array(1...Int64(wanted.count)), "numbers by \(limit)")
                    try expect(found.map { String(decoding: $0.json, as: UTF8.self) }, is: wanted, "events by \(limit)")
                }
                let some = try await store.events(after: 57, limit: 3, wait: .zero)
                try expect(some.map(\.number), is: [58, 59, 60], "from the middle")
            }
            await store.close()
        },
        StoreConformanceCase("A reader waits for the next event, for its patience, or for its cancellation") {
            fixture in
            let store = try await fixture.open()
            try await store.publish([[1]])
            let waiting = Task { try await store.events(after: 1, limit: 5, wait: .seconds(900)) }
            await Task.yield()
            try await store.publish([[2], [3]])
            try expect(try await waiting.value.map(\.json), is: [[2], [3]], "the next events")
            let patient = Task { try await store.events(after: 3, limit: 5, wait: .seconds(5)) }
            try expect(try await fixture.time.advance(until: patient).count, is: 0, "after the patience")
            let cancelled = Task { try await store.events(after: 3, limit: 5, wait: .seconds(99_999)) }
            await Task.yield()
            cancelled.cancel()
            try expect(try await cancelled.value.count, is: 0, "after the cancellation")
            await store.close()
        },
        StoreConformanceCase("Readers under load miss nothing and see nothing twice") { fixture in
            let store = try await fixture.open()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<8 {
                    group.addTask {
                        for number in 0..<50 { try await store.publish([Array("\(writer) \(number)".utf8)]) }
                    }
                }
                for reader in 0..<4 {
                    group.addTask {
                        var found: [StoredEvent] = []
                        while found.count < 400 {
                            let after = found.last?.number ?? 0
                            found += try await store.events(
                                after: after,
                                limit: 3 + reader * 30,
                                wait: .seconds(900)
                            )
                        }
                        try expect(found.map(\.number), is: Array(1...400), "numbers")
                        try expect(Set(found.map(\.json)).count, is: 400, "different events")
                    }
                }
                try await group.waitForAll()
            }
            await store.close()
        },
    ]

    static let keeping: [StoreConformanceCase] = [
        StoreConformanceCase("A purge removes what is over and old, and nothing else") { fixture in
            var store = try await fixture.open()
            let time = fixture.time
            let over = try await store.accept(.sample(store, time, to: (0..<30).map { .sample($0) }))
            try await store.end(try await store.claimNow())
            let half = try await store.accept(.sample(store, time, to: [.sample(1), .sample(2)]))
            try await store.end(try await store.claimNow("apns", 1))
            let slow = try await store.accept(.sample(store, time, backends: ["slow"]))
            let held = try await store.claimNow("slow")
            let entry = IdempotencyEntry(
                caller: "shop",
                key: "k",
                fingerprint: [1],
                answer: [7],
                keepUntil: store.time.steady + 50
            )
            _ = try await store.enqueue(EnqueueBatch([.sample(store, time, backends: ["other"])], idempotency: entry))
            func purge(_ keep: Double) async throws {
                let before = store.time.steady - keep
                while try await store.purge(Retention(notifications: before, events: before)) {}
            }
            try await purge(0)
            try expect(try await store.counts(over), is: [.acceptedByPlatform: 30], "after a purge at the same moment")
            time.advance(by: .seconds(100))
            try await store.end(held)
            let fresh = try await store.accept(.sample(store, time))
            try await purge(50)
            try expect(try await store.notification(over) == nil, "the notification that is over should be gone")
            try expect(try await store.counts(half), is: [.acceptedByPlatform: 1, .queued: 1], "one that is not over")
            try expect(try await store.counts(slow), is: [.acceptedByPlatform: 1], "one that changed lately")
            try expect(try await store.counts(fresh), is: [.queued: 1], "a new one")
            let last = try await store.lastEvent()
            store = try await fixture.reopen(store)
            let events = try await store.events(after: 0, limit: 1_000, wait: .zero)
            try expect(events.last?.number, is: last, "the newest event stays")
            let first = events.first?.number ?? 0
            try expect(events.map(\.number), is: Array(first...last), "what is left of the events has no gaps")
            try expect(first > 1, "old events should be gone")
            try await store.publish([[1]])
            try expect(try await store.lastEvent(), is: last + 1, "events go on")
            let again = try await store.enqueue(
                EnqueueBatch([.sample(store, time, backends: ["other"])], idempotency: entry)
            )
            try expect(again, is: .accepted, "the key is forgotten")
            await store.close()
        },
        StoreConformanceCase("State is kept by name until it is removed") { fixture in
            var store = try await fixture.open()
            try expect(try await store.loadState("a"), is: nil, "before it was saved")
            try await store.saveState("a", [1, 0, 255])
            try await store.saveState("empty", [])
            try await store.saveState("b", [2])
            try await store.saveState("b", [3])
            try await store.saveState("c", [4])
            try await store.saveState("c", nil)
            for isReopened in [false, true] {
                if isReopened { store = try await fixture.reopen(store) }
                let found: [[UInt8]?] = [
                    try await store.loadState("a"), try await store.loadState("empty"), try await store.loadState("b"),
                    try await store.loadState("c"),
                ]
                try expect(found, is: [[1, 0, 255], [], [3], nil], "values")
            }
            await store.close()
        },
        StoreConformanceCase("A closed store says so, and ends the waits of those who called before") { fixture in
            let store = try await fixture.open()
            let healthy = await store.health()
            try expect(healthy.acceptsWork, "an open store takes work: \(healthy.detail ?? "")")
            let claim = Task {
                try await store.claim(backend: "apns", limit: 1, wait: .seconds(900))
            }
            await Task.yield()
            await store.close()
            await store.close()
            if let claimed = try? await claim.value { try expect(claimed.count, is: 0, "claimed") }
            func error(_ call: () async throws -> Void) async -> StoreError? {
                do { try await call() } catch { return error as? StoreError }
                return nil
            }
            let new = NewNotification.sample(store, fixture.time)
            let errors: [StoreError?] = [
                await error { _ = try await store.enqueue(EnqueueBatch([new])) },
                await error { _ = try await store.claimNow() },
                await error { _ = try await store.claimExpired(limit: 1) },
                await error { try await store.record([Resolution(delivery: 1, transition: .release)]) },
                await error { _ = try await store.cancel(new.id) { _, _ in [] } },
                await error { _ = try await store.cancel(caller: "shop", from: nil) { _, _ in [] } },
                await error { _ = try await store.notification(new.id) },
                await error { _ = try await store.deliveries(of: new.id, after: nil, limit: 1) },
                await error { _ = try await store.events(after: 0, limit: 1, wait: .seconds(9)) },
                await error { _ = try await store.lastEvent() },
                await error { try await store.publish([[1]]) },
                await error { _ = try await store.depths() },
                await error {
                    _ = try await store.purge(Retention(notifications: fixture.time.now, events: fixture.time.now))
                },
                await error { _ = try await store.loadState("a") },
                await error { try await store.saveState("a", [1]) },
            ]
            try expect(errors, is: Array(repeating: .closed, count: errors.count), "errors")
            let closed = await store.health()
            try expect(!closed.acceptsWork, "a closed store takes no work")
        },
    ]
}
