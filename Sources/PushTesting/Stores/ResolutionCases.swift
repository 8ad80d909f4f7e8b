import Foundation
import PushCore

extension StoreConformance {
    static let resolutions: [StoreConformanceCase] = [
        StoreConformanceCase("An end is final, told in the story and in the counts") { fixture in
            var store = try await fixture.open()
            let recipients = (0..<4).map { Recipient.sample($0) }
            let id = try await store.accept(.sample(store, fixture.time, to: recipients))
            let claimed = try await store.claimNow()
            try expect(try await store.counts(id), is: [.sending: 4], "while claimed")
            let ends: [DeliveryState] = [.acceptedByPlatform, .failed, .unknown]
            for (delivery, state) in zip(claimed, ends) { try await store.end([delivery], state) }
            try expect(
                try await store.counts(id),
                is: [.acceptedByPlatform: 1, .failed: 1, .unknown: 1, .sending: 1],
                "after"
            )
            try await store.end(Array(claimed.prefix(2)), .expired)
            store = try await fixture.reopen(store)
            let stored = try await store.deliveries(of: id, after: nil, limit: 10)
            try expect(stored.map(\.state), is: [.acceptedByPlatform, .failed, .unknown, .queued], "states")
            try expect(
                stored.map { String(decoding: $0.story, as: UTF8.self) },
                is: [#"{"outcome":"accepted_by_platform"}"#, #"{"outcome":"failed"}"#, #"{"outcome":"unknown"}"#, ""],
                "stories"
            )
            try expect(stored.map(\.lane), is: ["apns", "apns", "apns", "apns"], "lanes")
            try expect(
                stored.map { $0.dueAt == nil },
                is: [true, true, true, false],
                "due times of final ones are nil"
            )
            await store.close()
        },
        StoreConformanceCase("A retry waits for its time in the lane of its step, with its story") { fixture in
            var store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, backends: ["apns", "fcm"]))
            for round in 1...3 {
                let lane = round == 3 ? "fcm" : "apns"
                let claimed = try await store.claimNow(lane)
                try expect(claimed.map(\.attempts), is: [round - 1], "attempts in round \(round)")
                try expect(claimed.map(\.step), is: [round == 3 ? 1 : 0], "step in round \(round)")
                let story = (1..<round).map { #"{"n":\#($0)}"# }.joined(separator: ",")
                try expect(
                    claimed.map { String(decoding: $0.story, as: UTF8.self) },
                    is: [story],
                    "story in round \(round)"
                )
                try expect(claimed.map(\.isReplay), is: [round > 2], "may have been sent in round \(round)")
                guard let delivery = claimed.first else { return }
                try await store.record([
                    Resolution(
                        delivery: delivery.id,
                        transition: .retry(at: fixture.time.now + 10, step: round > 1 ? 1 : 0),
                        attempt: Array(#"{"n":\#(round)}"#.utf8),
                        mayHaveBeenSent: round == 2,
                        event: Array("retry".utf8)
                    )
                ])
                try expect(try await store.counts(id), is: [.retrying: 1], "counts after round \(round)")
                try expect(try await store.claimNow("apns").count, is: 0, "claimed too early")
                if round != 1 { store = try await fixture.reopen(store) }
                fixture.time.advance(by: .seconds(10))
            }
            await store.close()
        },
        StoreConformanceCase("A release puts a delivery back as it was") { fixture in
            var store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time))
            for isReopened in [false, true] {
                let claimed = try await store.claimNow()
                try expect(claimed.map(\.attempts), is: [0], "attempts")
                try expect(claimed.map(\.isReplay), is: [false], "may have been sent")
                try await store.record(claimed.map { Resolution(delivery: $0.id, transition: .release) })
                try expect(try await store.counts(id), is: [.queued: 1], "counts")
                if isReopened { store = try await fixture.reopen(store) }
            }
            try expect(try await store.claimNow().map(\.isRecovered), is: [false], "its owner gave it back")
            await store.close()
        },
        StoreConformanceCase("Resolutions of unknown deliveries, and repeated ones, change nothing") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time))
            let claimed = try await store.claimNow()
            try await store.end(claimed + claimed)
            let before = try await store.eventTexts()
            try await store.end(claimed, .failed)
            try await store.record([
                Resolution(delivery: 4_711, transition: .end(.failed), event: Array("no".utf8)),
                Resolution(
                    delivery: id.rawValue,
                    transition: .retry(at: fixture.time.now, step: 0),
                    event: Array("no".utf8)
                ),
                Resolution(delivery: id.rawValue, transition: .release, event: Array("no".utf8)),
            ])
            try expect(try await store.counts(id), is: [.acceptedByPlatform: 1], "counts")
            try expect(try await store.eventTexts(), is: before, "events")
            try expect(try await store.claimNow().count, is: 0, "nothing to claim")
            await store.close()
        },
    ]

    static let leases: [StoreConformanceCase] = [
        StoreConformanceCase("A claim that lapses can be claimed again, marked as one that may have been sent") {
            fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, to: [.sample(1), .sample(2)]))
            let first = try await store.claimNow("apns", 1, lease: .seconds(5))
            try expect(first.map(\.isRecovered), is: [false], "the first claim")
            let again = Task { () throws -> [ClaimedDelivery] in
                var found: [ClaimedDelivery] = []
                while found.count < 2, !Task.isCancelled {
                    found += try await store.claim(lane: "apns", limit: 5, lease: .seconds(500), patience: .seconds(1))
                }
                return found
            }
            let second = try await fixture.time.advance(until: again)
            try expect(Set(second.map(\.id)), is: [id.rawValue, id.rawValue + 1], "claimed afterwards")
            for delivery in second {
                let wasHeld = delivery.id == first.first?.id
                try expect(delivery.isRecovered, is: wasHeld, "whether it lapsed")
                try expect(delivery.isReplay, is: wasHeld, "whether it may have been sent")
            }
            try await store.end(first)
            try expect(try await store.counts(id), is: [.acceptedByPlatform: 1, .sending: 1], "a late answer counts")
            await store.close()
        },
        StoreConformanceCase("A late answer to a lapsed claim that nobody took again counts") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, to: [.sample(1), .sample(2)]))
            let claimed = try await store.claimNow("apns", 2, lease: .seconds(5))
            fixture.time.advance(by: .seconds(6))
            let waiting = Task { () throws -> Int in
                while !Task.isCancelled {
                    let depth = try await store.depths()["apns"]?.waiting ?? 0
                    if depth == 2 { return depth }
                    _ = try await store.claimNow("none")
                }
                return 0
            }
            _ = try await fixture.time.advance(until: waiting)
            try await store.record([
                Resolution(delivery: claimed[0].id, transition: .end(.acceptedByPlatform)),
                Resolution(
                    delivery: claimed[1].id,
                    transition: .retry(at: fixture.time.now + 50, step: 0),
                    attempt: [49]
                ),
            ])
            try expect(try await store.counts(id), is: [.acceptedByPlatform: 1, .retrying: 1], "counts")
            try expect(try await store.claimNow().count, is: 0, "nothing is due")
            fixture.time.advance(by: .seconds(60))
            let last = try await store.claimNow()
            try expect(last.map(\.id), is: [claimed[1].id], "the retry")
            try expect(last.map(\.isReplay), is: [false], "its owner said that it was not sent")
            try expect(try await store.depths()["apns"], is: LaneDepth(waiting: 0, claimed: 1), "depth")
            await store.close()
        },
        StoreConformanceCase("What was claimed when the store ended is known to be so afterwards") { fixture in
            var store = try await fixture.open()
            let recipients = (0..<40).map { Recipient.sample($0) }
            let waiting = Task { [store] in
                try await store.claim(lane: "apns", limit: 5, lease: .seconds(600), patience: .seconds(900))
            }
            await Task.yield()
            let id = try await store.accept(.sample(store, fixture.time, to: recipients))
            var claimed = try await waiting.value
            claimed += try await store.claimNow("apns", 15)
            let ended = claimed.filter { $0.id % 4 == 0 }
            let released = claimed.filter { $0.id % 4 == 1 }
            try await store.end(ended)
            try await store.record(released.map { Resolution(delivery: $0.id, transition: .release) })
            store = try await fixture.reopen(store)
            let open = Set(claimed.map(\.id)).subtracting(ended.map(\.id)).subtracting(released.map(\.id))
            let again = try await store.claimNow()
            try expect(again.count, is: 40 - ended.count, "claimable")
            for delivery in again {
                try expect(
                    delivery.isRecovered,
                    is: open.contains(delivery.id),
                    "delivery \(delivery.id - id.rawValue)"
                )
                try expect(delivery.isReplay, is: open.contains(delivery.id), "delivery \(delivery.id - id.rawValue)")
            }
            await store.close()
        },
    ]
}
