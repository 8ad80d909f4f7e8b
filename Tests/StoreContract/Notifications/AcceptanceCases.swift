import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let acceptance: [StoreConformanceCase] = [
        StoreConformanceCase("What was accepted is there after the store was closed and opened") { fixture in
            var store = try await fixture.open()
            let due = fixture.time.now + 0.25
            let id = try await store.accept(
                .sample(store, fixture.time, to: [.sample("a"), .sample("b")], backends: ["apns", "fcm"], due: due)
            )
            store = try await fixture.reopen(store)
            guard let found = try await store.notification(id) else {
                throw ConformanceFailure("the notification is gone")
            }
            try expect(found.content, is: Array(#"{"title":"Hello"}"#.utf8), "content")
            try expect(found.caller, is: "shop", "caller")
            try expect(found.acceptedAt, is: fixture.time.now, "acceptance")
            try expect(found.dueAt, is: due, "due time")
            try expect(found.expiresAt, is: fixture.time.now + 3_600, "expiry")
            try expect(found.counts, is: [.scheduled: 2], "counts")
            fixture.time.advance(by: .seconds(1))
            let claimed = try await store.claimNow()
            try expect(claimed.map(\.recipient), is: [.sample("a"), .sample("b")], "recipients")
            try expect(claimed.map(\.id), is: [id.rawValue, id.rawValue + 1], "numbers")
            try expect(claimed.map(\.plan), is: [.init(["apns", "fcm"]), .init(["apns", "fcm"])], "plan")
            try expect(claimed.allSatisfy { !$0.isRecovered && !$0.isReplay }, "nobody had claimed them before")
            for delivery in claimed {
                guard case .stored(let content) = delivery.content else { continue }
                try expect(content, is: found.content, "the content of a claim")
            }
            await store.close()
        },
        StoreConformanceCase("Every kind of recipient comes back as it was") { fixture in
            var store = try await fixture.open()
            let recipients: [Recipient] = [
                .token(DeviceToken("a:b:ü", service: .androidFirebase)), .device("d1"), .user("u/1"),
                .platformID("p"), .topic("news"), .everyone,
                .tags(TagFilter(all: ["x"], any: ["y \"quoted\""], none: ["z"])),
            ]
            let id = try await store.accept(.sample(store, fixture.time, to: recipients))
            store = try await fixture.reopen(store)
            let stored = try await store.deliveries(of: id, after: nil, limit: 100)
            try expect(stored.map(\.recipient), is: recipients, "stored recipients")
            let claimed = try await store.claimNow()
            try expect(claimed.map(\.recipient), is: recipients, "claimed recipients")
            await store.close()
        },
        StoreConformanceCase("Hundreds of calls at once are all stored") { fixture in
            var store = try await fixture.open()
            let (shared, time) = (store, fixture.time)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<300 {
                    group.addTask {
                        let one = NewNotification.sample(shared, time, to: [.sample(number)])
                        let two = NewNotification.sample(
                            shared,
                            time,
                            to: [.sample("x\(number)"), .sample("y\(number)")]
                        )
                        let result = try await shared.enqueue(EnqueueBatch([one, two]))
                        try expect(result, is: .accepted, "enqueue")
                    }
                }
                try await group.waitForAll()
            }
            store = try await fixture.reopen(store)
            let depth = try await store.depths()["apns"]
            try expect(depth?.waiting, is: 900, "waiting deliveries")
            var seen: Set<Recipient> = []
            while true {
                let claimed = try await store.claimNow("apns", 128)
                if claimed.isEmpty { break }
                for delivery in claimed { seen.insert(delivery.recipient) }
            }
            try expect(seen.count, is: 900, "different recipients claimed")
            await store.close()
        },
        StoreConformanceCase("A port gives each batch its own answer, and stores as a waiting call does") { fixture in
            var store = try await fixture.open()
            let (answers, continuation) = AsyncStream<EnqueueAnswer>.makeStream()
            let port = store.makePort { for answer in $0 { continuation.yield(answer) } }
            let key = IdempotencyEntry(
                caller: "shop",
                key: "k",
                fingerprint: [1],
                answer: [2],
                keepUntil: fixture.time.now + 86_400
            )
            for ticket in 0..<300 {
                let one = NewNotification.sample(store, fixture.time, to: [.sample(ticket), .sample("x\(ticket)")])
                port.enqueue(EnqueueBatch([one], idempotency: ticket == 0 ? key : nil), ticket: ticket)
            }
            var seen: [Int: EnqueueAnswer] = [:]
            var stream = answers.makeAsyncIterator()
            while seen.count < 300, let answer = await stream.next() {
                try expect(answer.deliveries, is: 2, "deliveries of an answer")
                try expect(seen.updateValue(answer, forKey: answer.ticket) == nil, "one answer for each ticket")
                try expect(try answer.result.get(), is: .accepted, "result")
            }
            let again = NewNotification.sample(store, fixture.time, to: [.sample("again")])
            port.enqueue(EnqueueBatch([again], idempotency: key), ticket: 300)
            try expect(try await stream.next()?.result.get(), is: .replayed(answer: [2]), "the same key")
            store = try await fixture.reopen(store)
            try expect(try await store.depths()["apns"]?.waiting, is: 600, "waiting deliveries")
            port.enqueue(EnqueueBatch([again]), ticket: 301)
            try expect(await stream.next()?.result, is: .failure(.closed), "after the store was closed")
            await store.close()
        },
        StoreConformanceCase("Numbers never repeat, whatever the clock does") { fixture in
            var store = try await fixture.open()
            var last: Int64 = 0
            for round in 0..<4 {
                for recipients in [1, 10, 3] {
                    let id = store.makeID(recipients: recipients)
                    try expect(id.rawValue > last, "the number \(id.rawValue) does not follow \(last)")
                    last = id.rawValue + Int64(recipients) - 1
                }
                let kept = NewNotification.sample(store, fixture.time, to: [.sample(1), .sample(2)])
                try expect(kept.id.rawValue > last, "a number repeats after opening again")
                last = try await store.accept(kept).rawValue + 1
                fixture.time.advance(by: .seconds(round == 1 ? -3_600 : 1))
                store = try await fixture.reopen(store)
            }
            await store.close()
        },
        StoreConformanceCase("A notification may have more than 32,768 deliveries") { fixture in
            let store = try await fixture.open()
            let recipients = (0..<33_000).map { Recipient.sample($0) }
            let id = try await store.accept(.sample(store, fixture.time, to: recipients))
            let next = try await store.accept(.sample(store, fixture.time, to: [.sample("next")]))
            try expect(next.rawValue >= id.rawValue + 33_000, "the next notification's number")
            try expect(try await store.counts(id), is: [.queued: 33_000], "counts")
            let last = try await store.deliveries(of: id, after: id.rawValue + 32_990, limit: 99)
            try expect(last.map(\.recipient), is: Array(recipients.suffix(9)), "the last page")
            await store.close()
        },
        StoreConformanceCase("A notification without a match is nil, and a page has what follows its cursor") {
            fixture in
            let store = try await fixture.open()
            let missing = NotificationID(rawValue: 12_345)
            try expect(try await store.notification(missing) == nil, "an unknown notification")
            try expect(try await store.deliveries(of: missing, after: nil, limit: 5).count, is: 0, "its deliveries")
            let recipients = (0..<25).map { Recipient.sample($0) }
            let id = try await store.accept(.sample(store, fixture.time, to: recipients))
            _ = try await store.accept(.sample(store, fixture.time, to: [.sample("other")]))
            var found: [Recipient] = []
            var cursor: Int64?
            while true {
                let page = try await store.deliveries(of: id, after: cursor, limit: 10)
                if page.isEmpty { break }
                found += page.map(\.recipient)
                cursor = page.last?.id
            }
            try expect(found, is: recipients, "all pages")
            try expect(
                try await store.notification(NotificationID(rawValue: id.rawValue + 1)) == nil,
                "the number of a delivery is not that of a notification"
            )
            await store.close()
        },
    ]

    static let idempotency: [StoreConformanceCase] = [
        StoreConformanceCase("A repeated key gets the first answer, another request with it is told so") { fixture in
            var store = try await fixture.open()
            func entry(_ caller: String = "shop", _ fingerprint: UInt8 = 1, _ answer: UInt8 = 7) -> IdempotencyEntry {
                IdempotencyEntry(
                    caller: caller,
                    key: "k",
                    fingerprint: [fingerprint, 0],
                    answer: [answer, 0, answer],
                    keepUntil: fixture.time.now + 86_400
                )
            }
            func send(_ entry: IdempotencyEntry) async throws -> EnqueueResult {
                try await store.enqueue(EnqueueBatch([.sample(store, fixture.time)], idempotency: entry))
            }
            try expect(try await send(entry()), is: .accepted, "the first use")
            for isReopened in [false, true] {
                if isReopened { store = try await fixture.reopen(store) }
                try expect(try await send(entry("shop", 1, 9)), is: .replayed(answer: [7, 0, 7]), "the same request")
                try expect(try await send(entry("shop", 2)), is: .keyReused, "another request")
            }
            try expect(try await send(entry("bank")), is: .accepted, "another caller's key")
            try expect(try await store.claimNow().count, is: 2, "deliveries stored")
            fixture.time.advance(by: .seconds(86_401))
            try expect(try await send(entry("shop", 2)), is: .accepted, "a key that was forgotten")
            await store.close()
        },
        StoreConformanceCase("Of many requests with one key at once, one is stored") { fixture in
            let store = try await fixture.open()
            let time = fixture.time
            let results = try await withThrowingTaskGroup(of: EnqueueResult.self) { group in
                for _ in 0..<50 {
                    group.addTask {
                        let entry = IdempotencyEntry(
                            caller: "shop",
                            key: "k",
                            fingerprint: [1],
                            answer: [7],
                            keepUntil: time.now + 86_400
                        )
                        return try await store.enqueue(EnqueueBatch([.sample(store, time)], idempotency: entry))
                    }
                }
                return try await group.reduce(into: [EnqueueResult]()) { $0.append($1) }
            }
            try expect(results.filter { $0 == .accepted }.count, is: 1, "acceptances")
            try expect(
                results.allSatisfy { [.accepted, .keyInUse, .replayed(answer: [7])].contains($0) },
                "answers: \(results)"
            )
            try expect(try await store.claimNow().count, is: 1, "deliveries stored")
            await store.close()
        },
    ]
}
