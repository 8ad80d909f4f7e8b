import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let collapsing: [StoreConformanceCase] = [
        StoreConformanceCase("A newer notification with the same collapse id replaces one that waits") { fixture in
            var store = try await fixture.open()
            func accept(_ recipient: String, _ collapseID: String?, due: Date? = nil, backend: String = "apns")
                async throws
                -> NotificationID
            {
                try await store.accept(
                    .sample(
                        store,
                        fixture.time,
                        to: [.sample(recipient)],
                        backends: [backend],
                        due: due,
                        collapseID: collapseID
                    )
                )
            }
            let now = fixture.time.now
            let old = try await accept("a", "order")
            let scheduled = try await accept("b", "order", due: now + 50)
            let others = [
                try await accept("a", "invoice"), try await accept("c", "order"), try await accept("a", nil),
                try await accept("a", "order", backend: "fcm"),
            ]
            store = try await fixture.reopen(store)
            let before = try await store.lastEvent()
            let new = [try await accept("a", "order"), try await accept("b", "order")]
            for id in [old, scheduled] { try expect(try await store.counts(id), is: [.cancelled: 1], "the older one") }
            for id in others + new { try expect(try await store.counts(id), is: [.queued: 1], "the others") }
            let events = try await store.eventTexts(after: before)
            try expect(
                Set(events),
                is: Set([old, scheduled].map { "replaced \($0.rawValue) cancelled" } + new.map { "accepted \($0)" }),
                "events"
            )
            try expect(
                try await store.claimNow().map(\.notificationID),
                is: Array(others.prefix(3)) + new,
                "what is claimed"
            )
            try expect(try await store.depths()["apns"], is: QueueDepth(waiting: 0, claimed: 5), "depth")
            await store.close()
        },
        StoreConformanceCase(
            "A collapse id is its caller's own: what others send under it neither ends nor waits for theirs"
        ) {
            fixture in
            var store = try await fixture.open()
            func accept(_ caller: String, due: Date? = nil) async throws -> NotificationID {
                let recipients = [Recipient.sample("a")]
                return try await store.accept(
                    .sample(store, fixture.time, to: recipients, due: due, collapseID: "order", caller: caller)
                )
            }
            // Waiting deliveries of each caller, including one without a name.
            let due = fixture.time.now + 50
            let old = [
                try await accept("shop", due: due), try await accept("news", due: due), try await accept("", due: due),
            ]
            for id in old { try expect(try await store.counts(id), is: [.scheduled: 1], "one of each caller") }
            store = try await fixture.reopen(store)
            let newer = try await accept("shop", due: due)
            try expect(try await store.counts(old[0]), is: [.cancelled: 1], "the same caller's, after a restart")
            for id in old[1...] { try expect(try await store.counts(id), is: [.scheduled: 1], "the others'") }
            // Claimed deliveries: each caller has one in flight, and a second one waiting behind it.
            fixture.time.advance(by: .seconds(60))
            let claimed = try await store.claimNow()
            try expect(Set(claimed.map(\.notificationID)), is: [newer, old[1], old[2]], "in flight together")
            let next = try await accept("news")
            try expect(try await store.claimNow().count, is: 0, "behind the same caller's that is in flight")
            let others = claimed.filter { $0.caller != "news" }
            try await store.end(others)
            try expect(try await store.claimNow().count, is: 0, "after the other callers' have ended")
            // A delivery that is put back: only a newer one of its own caller replaces it.
            let retry = Resolution.Transition.retry(at: fixture.time.now, step: 0)
            let later = try await accept("shop", due: fixture.time.now + 50)
            try await store.record(
                claimed.filter { $0.caller == "news" }.map { Resolution(of: $0, retry, attempt: [49]) }
            )
            try expect(try await store.counts(old[1]), is: [.cancelled: 1], "for the newer one of its caller")
            let last = try await store.claimNow()
            try expect(last.map(\.notificationID), is: [next], "the newer one")
            try await store.record(last.map { Resolution(of: $0, retry, attempt: [49]) })
            try expect(try await store.counts(next), is: [.retrying: 1], "though another caller's is newer")
            try expect(try await store.counts(later), is: [.scheduled: 1], "that one")
            await store.close()
        },
        StoreConformanceCase("A recipient at two backends gets one at each, though they have the same collapse id") {
            fixture in
            let store = try await fixture.open()
            var both = NewNotification.sample(
                store,
                fixture.time,
                to: [.sample("a"), .sample("a")],
                backends: ["apns"],
                collapseID: "order"
            )
            both.record.plans.append(DeliveryPlan(["fcm"]))
            both.planOf = [0, 1]
            let id = try await store.accept(both)
            let first = try await store.claimNow()
            try expect(first.map(\.notificationID), is: [id], "at the first backend")
            let second = try await store.claimNow("fcm")
            try expect(second.map(\.notificationID), is: [id], "at the second, while the first has not ended")
            try await store.end(first + second)
            try expect(try await store.counts(id), is: [.acceptedByPlatform: 2], "counts")
            await store.close()
        },
        StoreConformanceCase("Two with the same collapse id are never in flight together") { fixture in
            let store = try await fixture.open()
            func accept() async throws -> NotificationID {
                try await store.accept(.sample(store, fixture.time, to: [.sample("a")], collapseID: "order"))
            }
            let first = try await accept()
            let claimed = try await store.claimNow()
            try expect(claimed.map(\.notificationID), is: [first], "the first one")
            let second = try await accept()
            try expect(try await store.claimNow().count, is: 0, "while the first is in flight")
            let third = try await accept()
            try expect(try await store.counts(second), is: [.cancelled: 1], "the second was replaced while it waited")
            try expect(try await store.claimNow().count, is: 0, "while the first is still in flight")
            try await store.end(claimed)
            try expect(try await store.claimNow().map(\.notificationID), is: [third], "after the first")
            try expect(try await store.depths()["apns"], is: QueueDepth(waiting: 0, claimed: 1), "depth")
            await store.close()
        },
        StoreConformanceCase("One that would be tried again ends when a newer one waits") { fixture in
            let store = try await fixture.open()
            for transition in [Resolution.Transition.retry(at: fixture.time.now + 5, step: 0), .release] {
                func accept() async throws -> NotificationID {
                    try await store.accept(.sample(store, fixture.time, to: [.sample("a")], collapseID: "order"))
                }
                let first = try await accept()
                let claimed = try await store.claimNow()
                let second = try await accept()
                try await store.record(claimed.map { Resolution(delivery: $0.id, transition: transition) })
                try expect(try await store.counts(first), is: [.cancelled: 1], "the older one, after \(transition)")
                try expect(
                    try await store.eventTexts().last,
                    is: "replaced \(first.rawValue) cancelled",
                    "the event after \(transition)"
                )
                let next = try await store.claimNow()
                try expect(next.map(\.notificationID), is: [second], "the newer one, after \(transition)")
                try await store.end(next)
            }
            await store.close()
        },
        StoreConformanceCase("One that goes to the next backend ends when a newer one waits there") { fixture in
            let store = try await fixture.open()
            func accept(_ backends: [String]) async throws -> NotificationID {
                let recipients = [Recipient.sample("a")]
                return try await store.accept(
                    .sample(store, fixture.time, to: recipients, backends: backends, collapseID: "order")
                )
            }
            let older = try await accept(["apns", "fcm"])
            let claimed = try await store.claimNow()
            let newer = try await accept(["fcm"])
            let step = Resolution.Transition.retry(at: fixture.time.now, step: 1)
            try await store.record(claimed.map { Resolution(of: $0, step, attempt: [49]) })
            try expect(try await store.counts(older), is: [.cancelled: 1], "the older one")
            try expect(try await store.eventTexts().last, is: "replaced \(older.rawValue) cancelled", "the event")
            let next = try await store.claimNow("fcm")
            try expect(next.map(\.notificationID), is: [newer], "the newer one")
            await store.close()
        },
        StoreConformanceCase("One that may have been sent does not end as cancelled when a newer one takes its place") {
            fixture in
            var store = try await fixture.open()
            func accept(_ collapseID: String) async throws -> NotificationID {
                try await store.accept(.sample(store, fixture.time, to: [.sample("a")], collapseID: collapseID))
            }
            // It may have been sent by this attempt, and is put back.
            var older = try await accept("order")
            var claimed = try await store.claimNow()
            _ = try await accept("order")
            let retry = Resolution.Transition.retry(at: fixture.time.now, step: 0)
            try await store.record(claimed.map { Resolution(of: $0, retry, attempt: [49], mayHaveBeenSent: true) })
            try expect(try await store.counts(older), is: [.unknown: 1], "after an attempt without an answer")
            try expect(try await store.eventTexts().last, is: "replaced \(older.rawValue) unknown", "its event")
            try await store.end(try await store.claimNow())
            // It may have been sent by an earlier attempt, and waits.
            older = try await accept("order")
            claimed = try await store.claimNow()
            try await store.record(claimed.map { Resolution(of: $0, retry, attempt: [49], mayHaveBeenSent: true) })
            _ = try await accept("order")
            try expect(try await store.counts(older), is: [.unknown: 1], "while it waits")
            try expect(
                Set(try await store.eventTexts().suffix(2)).contains("replaced \(older.rawValue) unknown"),
                is: true,
                "the event of the one that waited"
            )
            try await store.end(try await store.claimNow())
            // It may have been sent by an owner that died.
            older = try await accept("order")
            _ = try await store.claimNow()
            _ = try await accept("order")
            store = try await fixture.reopen(store)
            claimed = try await store.claimNow()
            try expect(claimed.map(\.notificationID), is: [older], "what is claimed again")
            try await store.record(claimed.map { Resolution(of: $0, .release) })
            try expect(try await store.counts(older), is: [.unknown: 1], "after its owner died")
            try expect(try await store.eventTexts().last, is: "replaced \(older.rawValue) unknown", "its event")
            await store.close()
        },
        StoreConformanceCase("Of two to one recipient in one request the later one stays") { fixture in
            let store = try await fixture.open()
            let waiting = Task {
                try await store.claim(backend: "apns", limit: 9, wait: .seconds(900))
            }
            await Task.yield()
            let one = NewNotification.sample(store, fixture.time, to: [.sample("a")], collapseID: "order")
            let two = NewNotification.sample(store, fixture.time, to: [.sample("a")], collapseID: "order")
            let other = NewNotification.sample(store, fixture.time, to: [.sample("b")], collapseID: "order")
            _ = try await store.enqueue(EnqueueBatch([one, two, other]))
            var claimed = try await waiting.value
            for _ in 0..<3 {
                try expect(
                    Set(claimed.map(\.recipient)).count,
                    is: claimed.count,
                    "recipients in flight at the same time"
                )
                try await store.end(claimed)
                claimed = try await store.claimNow()
            }
            for id in [two.id, other.id] {
                try expect(try await store.counts(id), is: [.acceptedByPlatform: 1], "the later ones")
            }
            await store.close()
        },
    ]
}
