import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let claims: [StoreConformanceCase] = [
        StoreConformanceCase("Claims come in order of their due time, then of their numbers") { fixture in
            let store = try await fixture.open()
            let now = fixture.time.now
            let offsets = [-5.0, -20, -1, -20, -60, 0, -1]
            for (number, offset) in offsets.enumerated() {
                _ = try await store.accept(
                    .sample(store, fixture.time, to: [.sample(number)], due: now.addingTimeInterval(offset))
                )
            }
            let order = offsets.indices.sorted { (offsets[$0], $0) < (offsets[$1], $1) }
            var claimed: [Recipient] = []
            for _ in offsets { claimed += try await store.claimNow("apns", 1).map(\.recipient) }
            try expect(claimed, is: order.map { .sample($0) }, "order")
            await store.close()
        },
        StoreConformanceCase("A backend sees its own deliveries, and no more than it asks for") { fixture in
            let store = try await fixture.open()
            _ = try await store.accept(.sample(store, fixture.time, to: (0..<10).map { .sample($0) }))
            _ = try await store.accept(.sample(store, fixture.time, to: [.sample("f")], backends: ["fcm"]))
            try expect(try await store.claimNow("hms").count, is: 0, "a backend without work")
            try expect(try await store.claimNow("apns", 0).count, is: 0, "a claim of nothing")
            try expect(try await store.claimNow("apns", 4).count, is: 4, "the first claim")
            try expect(try await store.claimNow("apns", 100).count, is: 6, "the second claim")
            try expect(try await store.claimNow("fcm").map(\.recipient), is: [.sample("f")], "the other backend")
            await store.close()
        },
        StoreConformanceCase("No delivery is claimed twice by many that claim at once") { fixture in
            let store = try await fixture.open()
            let time = fixture.time
            let claimed = try await withThrowingTaskGroup(of: [Int64].self) { group in
                for claimer in 0..<12 {
                    group.addTask {
                        var numbers: [Int64] = []
                        for _ in 0..<400 {
                            let some = try await store.claimNow("apns", 1 + claimer)
                            numbers += some.map(\.id)
                            if claimer % 2 == 0 { try await store.end(some) }
                        }
                        return numbers
                    }
                }
                group.addTask {
                    for round in 0..<60 {
                        let recipients = (0..<20).map { Recipient.sample(round * 20 + $0) }
                        _ = try await store.accept(.sample(store, time, to: recipients))
                    }
                    return []
                }
                return try await group.reduce(into: [Int64]()) { $0 += $1 }
            }
            let rest = try await store.claimNow("apns", 10_000).map(\.id)
            try expect(Set(claimed + rest).count, is: claimed.count + rest.count, "deliveries claimed once")
            try expect(claimed.count + rest.count, is: 1_200, "deliveries claimed")
            await store.close()
        },
        StoreConformanceCase("A claim waits for work that is accepted later") { fixture in
            let store = try await fixture.open()
            let waiting = Task {
                try await store.claim(backend: "apns", limit: 5, wait: .seconds(900))
            }
            await Task.yield()
            _ = try await store.accept(.sample(store, fixture.time))
            let claimed = try await waiting.value
            try expect(claimed.count, is: 1, "deliveries claimed")
            await store.close()
        },
        StoreConformanceCase("A claim waits for the time of a scheduled delivery, and gets nothing before") { fixture in
            let store = try await fixture.open()
            let due = fixture.time.now + 20
            let id = try await store.accept(.sample(store, fixture.time, due: due))
            try expect(try await store.counts(id), is: [.scheduled: 1], "counts before")
            try expect(try await store.claimNow().count, is: 0, "claimed too early")
            try expect(try await store.depths()["apns"]?.oldestDue, is: nil, "nothing is due")
            let waiting = Task<Date?, any Error> {
                let claimed = try await store.claim(backend: "apns", limit: 5, wait: .seconds(90))
                return claimed.isEmpty ? nil : fixture.time.now
            }
            guard let at = try await fixture.time.advance(until: waiting) else {
                throw ConformanceFailure("the scheduled delivery never came")
            }
            // Times are kept in milliseconds, and the clock adds up fractions.
            try expect(at >= due - 0.001, "claimed \(due.timeIntervalSince(at)) s too early")
            await store.close()
        },
        StoreConformanceCase("Patience ends, and so does a cancelled claim, with nothing") { fixture in
            let store = try await fixture.open()
            let patient = Task {
                try await store.claim(backend: "apns", limit: 5, wait: .seconds(5))
            }
            try expect(try await fixture.time.advance(until: patient).count, is: 0, "claimed by the patient one")
            let cancelled = Task {
                try await store.claim(backend: "apns", limit: 5, wait: .seconds(99_999))
            }
            await Task.yield()
            cancelled.cancel()
            try expect(try await cancelled.value.count, is: 0, "claimed by the cancelled one")
            _ = try await store.accept(.sample(store, fixture.time))
            try expect(try await store.claimNow().count, is: 1, "left for the next one")
            await store.close()
        },
        StoreConformanceCase("A sender's depth is the sum of its queues, with their oldest due time") { fixture in
            let store = try await fixture.open()
            let start = fixture.time.now
            func depths() async throws -> [String: SenderDepth]? { try await store.depthsBySender() }
            func depth(_ waiting: Int, _ oldest: Date?) -> SenderDepth {
                SenderDepth(waiting: waiting, oldestDue: oldest)
            }
            try expect(try await depths(), is: [:], "of an empty store")
            _ = try await store.accept(.sample(store, fixture.time, due: start + 100, caller: "later"))
            _ = try await store.accept(.sample(store, fixture.time, backends: ["fcm"], caller: "shop"))
            fixture.time.advance(by: .seconds(2))
            _ = try await store.accept(.sample(store, fixture.time, priority: .normal, caller: "shop"))
            _ = try await store.accept(.sample(store, fixture.time, priority: .normal, caller: "crm"))
            let later = depth(1, nil)
            let first = ["later": later, "shop": depth(2, start), "crm": depth(1, start + 2)]
            try expect(try await depths(), is: first, "at first")
            let claimed = try await store.claim(backend: "fcm", limit: 1, wait: .zero)
            let second = ["later": later, "shop": depth(1, start + 2), "crm": depth(1, start + 2)]
            try expect(try await depths(), is: second, "after a claim")
            try await store.end(claimed)
            try await store.end(try await store.claimNow())
            try expect(try await depths(), is: ["later": later], "after all that was due ended")
            await store.close()
        },
        StoreConformanceCase("Depths tell what waits and what is claimed") { fixture in
            let store = try await fixture.open()
            let now = fixture.time.now
            _ = try await store.accept(.sample(store, fixture.time, to: (0..<3).map { .sample($0) }))
            _ = try await store.accept(.sample(store, fixture.time, due: now + 100))
            func depth() async throws -> QueueDepth? { try await store.depths()["apns"] }
            try expect(try await depth(), is: QueueDepth(waiting: 4, claimed: 0, oldestDue: now), "at first")
            let claimed = try await store.claimNow()
            try expect(try await depth(), is: QueueDepth(waiting: 1, claimed: 3), "after a claim")
            try await store.end(Array(claimed.prefix(2)))
            try await store.record([Resolution(delivery: claimed[2].id, transition: .release)])
            try expect(try await depth(), is: QueueDepth(waiting: 2, claimed: 0, oldestDue: now), "after its end")
            await store.close()
        },
    ]
}
