import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let cancelling: [StoreConformanceCase] = [
        StoreConformanceCase("Cancelling ends what waits and leaves the rest") { fixture in
            var store = try await fixture.open()
            let recipients = (0..<2_500).map { Recipient.sample($0) }
            let id = try await store.accept(.sample(store, fixture.time, to: recipients))
            let other = try await store.accept(.sample(store, fixture.time))
            let claimed = try await store.claimNow("apns", 3)
            try await store.end([claimed[0]])
            try await store.record([
                Resolution(delivery: claimed[1].id, transition: .retry(at: fixture.time.now + 50, step: 0))
            ])
            let before = try await store.lastEvent()
            let cancellation = try await store.cancel(id) { claim, _ in Array("cancelled \(claim.id)".utf8) }
            try expect(cancellation, is: Cancellation(cancelled: 2_498, tooLate: 1, inFlight: 1), "the cancellation")
            try expect(try await store.lastEvent() - before, is: 2_498, "events")
            let counts: [DeliveryState: Int] = [.cancelled: 2_498, .sending: 1, .acceptedByPlatform: 1]
            try expect(try await store.counts(id), is: counts, "counts")
            try expect(try await store.depths()["apns"]?.waiting, is: 1, "what waits still")
            let again = try await store.cancel(id) { _, _ in [] }
            let second = Cancellation(cancelled: 0, tooLate: 2_499, inFlight: 1)
            try expect(again, is: second, "the second cancellation")
            try await store.end([claimed[2]], .failed)
            try expect(try await store.claimNow().map(\.notificationID), is: [other], "what is claimed next")
            let none = try await store.cancel(NotificationID(rawValue: 4_711)) { _, _ in [] }
            try expect(none, is: nil, "an unknown notification")
            store = try await fixture.reopen(store)
            try expect(try await store.counts(id)[.cancelled], is: 2_498, "counts after opening again")
            await store.close()
        },
        StoreConformanceCase("What is cancelled is not claimed, not even when its time comes") { fixture in
            let store = try await fixture.open()
            let scheduled = try await store.accept(.sample(store, fixture.time, due: fixture.time.now + 5))
            let queued = try await store.accept(.sample(store, fixture.time))
            for id in [scheduled, queued] {
                let cancellation = try await store.cancel(id) { _, _ in [1] }
                try expect(cancellation, is: Cancellation(cancelled: 1, tooLate: 0), "the cancellation")
            }
            fixture.time.advance(by: .seconds(10))
            try expect(try await store.claimNow().count, is: 0, "claimed")
            try expect(try await store.depths()["apns"] ?? QueueDepth(), is: QueueDepth(), "depth")
            await store.close()
        },
        StoreConformanceCase("What is cancelled while it is claimed is not tried again") { fixture in
            let store = try await fixture.open()
            let recipients = (0..<4).map { Recipient.sample($0) }
            let id = try await store.accept(.sample(store, fixture.time, to: recipients))
            let claimed = try await store.claimNow()
            let cancellation = try await store.cancel(id) { claim, state in Array("\(state.rawValue) \(claim.id)".utf8)
            }
            try expect(cancellation, is: Cancellation(cancelled: 0, tooLate: 0, inFlight: 4), "the cancellation")
            let again = Resolution.Transition.retry(at: store.time.steady, step: 0)
            let before = try await store.lastEvent()
            try await store.record([
                Resolution(of: claimed[0], again, attempt: [49], event: [1]),
                Resolution(of: claimed[1], again, attempt: [49], mayHaveBeenSent: true, event: [1]),
                Resolution(of: claimed[2], .release, event: [1]),
                Resolution(of: claimed[3], .end(.acceptedByPlatform), attempt: [49], event: Array("sent".utf8)),
            ])
            let counts: [DeliveryState: Int] = [.cancelled: 2, .unknown: 1, .acceptedByPlatform: 1]
            try expect(try await store.counts(id), is: counts, "counts")
            try expect(
                try await store.eventTexts(after: before),
                is: ["cancelled \(claimed[0].id)", "unknown \(claimed[1].id)", "cancelled \(claimed[2].id)", "sent"],
                "events"
            )
            fixture.time.advance(by: .seconds(10))
            try expect(try await store.claimNow().count, is: 0, "claimed again")
            await store.close()
        },
        StoreConformanceCase("What is cancelled while it is claimed stays so when the process dies") { fixture in
            var store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, to: (0..<3).map { .sample($0) }))
            _ = try await store.claimNow("apns", 2)
            _ = try await store.cancel(id) { _, _ in [1] }
            store = try await fixture.reopen(store)
            let claimed = try await store.claimNow()
            try expect(claimed.map(\.isCancelled), is: [true, true], "what its next owner is told")
            try await store.record(claimed.map { Resolution(of: $0, .release) })
            try expect(try await store.counts(id), is: [.unknown: 2, .cancelled: 1], "counts: they may have been sent")
            try expect(
                try await store.eventTexts().suffix(2),
                is: claimed.map { "cancelled \($0.id) unknown" }[...],
                "events"
            )
            await store.close()
        },
        StoreConformanceCase("What a caller has waiting is cancelled in parts, and nothing else is") { fixture in
            var store = try await fixture.open()
            let now = fixture.time.now
            func accept(
                _ caller: String,
                _ count: Int = 1,
                at backend: String = "apns",
                due: Date? = nil,
                priority: PushNotification.Priority = .high,
                collapseID: String? = nil
            ) async throws -> NotificationID {
                try await store.accept(
                    .sample(
                        store,
                        fixture.time,
                        to: (0..<count).map { .sample("\(caller)\($0)") },
                        backends: [backend],
                        due: due,
                        collapseID: collapseID,
                        priority: priority,
                        caller: caller
                    )
                )
            }
            let large = try await accept("shop", 2_500)
            let claimed = try await store.claimNow("apns", 4)
            try await store.end([claimed[0]])
            let retry = Resolution.Transition.retry(at: now + 50, step: 0)
            try await store.record([Resolution(of: claimed[1], retry, attempt: [49])])
            let small = [
                try await accept("shop", due: now + 60), try await accept("shop", at: "fcm"),
                try await accept("shop", priority: .normal), try await accept("shop", collapseID: "order"),
            ]
            let others = [try await accept("news"), try await accept("", collapseID: "order")]
            let before = try await store.lastEvent()
            let first = try await store.cancel(caller: "shop", from: nil) { Array("\($1.rawValue) \($0.id)".utf8) }
            let late = try await accept("shop")
            let total = try await store.cancelAll(of: "shop", after: first)
            try expect(total, is: CallerCancellation(cancelled: 2_501, inFlight: 2), "the cancellation")
            try expect(try await store.lastEvent() - before, is: 2_502, "events, one of an acceptance among them")
            let counts: [DeliveryState: Int] = [.cancelled: 2_497, .sending: 2, .acceptedByPlatform: 1]
            try expect(try await store.counts(large), is: counts, "counts")
            for id in small { try expect(try await store.counts(id), is: [.cancelled: 1], "another of the caller") }
            for id in others { try expect(try await store.counts(id), is: [.queued: 1], "of another caller") }
            try expect(try await store.counts(late), is: [.queued: 1], "what came after the cancellation began")
            try await store.record([
                Resolution(of: claimed[2], retry, attempt: [49]),
                Resolution(of: claimed[3], .end(.acceptedByPlatform), attempt: [49]),
            ])
            let after: [DeliveryState: Int] = [.cancelled: 2_498, .acceptedByPlatform: 2]
            try expect(try await store.counts(large), is: after, "after what was claimed has ended")
            let unknown = try await store.cancelAll(of: "unknown")
            try expect(unknown, is: CallerCancellation(cancelled: 0), "of an unknown caller")
            store = try await fixture.reopen(store)
            try expect(try await store.counts(large), is: after, "after opening again")
            let again = try await store.cancelAll(of: "shop")
            try expect(again, is: CallerCancellation(cancelled: 1), "a second cancellation")
            fixture.time.advance(by: .seconds(100))
            try expect(Set(try await store.claimNow().map(\.notificationID)), is: Set(others), "what is claimed")
            await store.close()
        },
        StoreConformanceCase("What a caller sent a moment ago, or waits behind what is in flight, is cancelled too") {
            fixture in
            let store = try await fixture.open()
            // The first delivery is in flight, and the second waits behind it under a collapse id; the others were
            // accepted after the last claim.
            var ids: [NotificationID] = []
            for number in 0..<30 {
                let recipients = [Recipient.sample(number < 2 ? 0 : number)]
                let collapseID = number < 2 ? "order" : nil
                ids.append(
                    try await store.accept(.sample(store, fixture.time, to: recipients, collapseID: collapseID))
                )
                guard number == 0 else { continue }
                try expect(try await store.claimNow().map(\.notificationID), is: ids, "what is in flight")
            }
            let total = try await store.cancelAll(of: "shop")
            try expect(total, is: CallerCancellation(cancelled: 29, inFlight: 1), "the cancellation")
            try expect(try await store.depths()["apns"], is: QueueDepth(waiting: 0, claimed: 1), "depth")
            try expect(try await store.claimNow().count, is: 0, "claimed")
            await store.close()
        },
    ]

    static let expiry: [StoreConformanceCase] = [
        StoreConformanceCase("What has waited too long is found, in any backend, claimed or not yet due") { fixture in
            var store = try await fixture.open()
            let time = fixture.time
            func accept(_ backend: String, _ life: Duration, due: Double? = nil) async throws -> NotificationID {
                try await store.accept(
                    .sample(
                        store,
                        time,
                        to: [.sample("\(backend)\(life)")],
                        backends: [backend],
                        due: due.map { time.now.addingTimeInterval($0) },
                        timeToLive: life
                    )
                )
            }
            var short: [NotificationID] = []
            for backend in ["apns", "fcm"] {
                short.append(try await accept(backend, .seconds(30)))
                short.append(try await accept(backend, .seconds(20), due: 300))
                _ = try await accept(backend, .seconds(600))
            }
            try expect(try await store.claimExpired(limit: 100).count, is: 0, "found too early")
            store = try await fixture.reopen(store)
            let claimed = try await store.claimNow("fcm", 1)
            time.advance(by: .seconds(31))
            try expect(try await store.counts(short[0]), is: [.queued: 1], "a state does not change by itself")
            var found: [ClaimedDelivery] = []
            for _ in 0..<8 { found += try await store.claimExpired(limit: 2) }
            try expect(
                Set(found.map(\.notificationID)),
                is: Set(short).subtracting(claimed.map(\.notificationID)),
                "found"
            )
            try expect(found.count, is: 3, "each is found once")
            try await store.end(found, .expired)
            try await store.record(claimed.map { Resolution(delivery: $0.id, transition: .release) })
            var rest: [ClaimedDelivery] = []
            for _ in 0..<8 { rest += try await store.claimExpired(limit: 2) }
            try expect(rest.map(\.notificationID), is: claimed.map(\.notificationID), "found after its release")
            try expect(try await store.depths()["apns"]?.waiting, is: 1, "waiting in the first backend")
            try expect(try await store.depths()["fcm"]?.waiting, is: 1, "waiting in the second backend")
            await store.close()
        }
    ]
}
