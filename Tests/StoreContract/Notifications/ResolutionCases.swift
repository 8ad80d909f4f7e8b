import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let resolutions: [StoreConformanceCase] = [
        StoreConformanceCase("An end is final, told in the attempt log and in the counts") { fixture in
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
                stored.map { String(decoding: $0.attemptLog, as: UTF8.self) },
                is: [#"{"outcome":"accepted_by_platform"}"#, #"{"outcome":"failed"}"#, #"{"outcome":"unknown"}"#, ""],
                "stories"
            )
            try expect(stored.map(\.backend), is: ["apns", "apns", "apns", "apns"], "backends")
            try expect(
                stored.map { $0.dueAt == nil },
                is: [true, true, true, false],
                "due times of final ones are nil"
            )
            await store.close()
        },
        StoreConformanceCase("A retry waits for its time in the queue of its step, with its attempt log") { fixture in
            var store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, backends: ["apns", "fcm"]))
            for round in 1...3 {
                let backend = round == 3 ? "fcm" : "apns"
                let claimed = try await store.claimNow(backend)
                try expect(claimed.map(\.attempts), is: [round - 1], "attempts in round \(round)")
                try expect(claimed.map(\.step), is: [round == 3 ? 1 : 0], "step in round \(round)")
                let log = (1..<round).map { #"{"n":\#($0)}"# }.joined(separator: ",")
                try expect(
                    claimed.map { String(decoding: $0.attemptLog, as: UTF8.self) },
                    is: [log],
                    "attempt log in round \(round)"
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
        StoreConformanceCase("A claim holds however long its owner takes") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, timeToLive: .seconds(86400)))
            let claimed = try await store.claimNow()
            for _ in 0..<20 {
                fixture.time.advance(by: .seconds(3_600))
                try expect(try await store.claimNow().count, is: 0, "claimed again")
            }
            try await store.end(claimed)
            try expect(try await store.counts(id), is: [.acceptedByPlatform: 1], "counts")
            await store.close()
        },
        StoreConformanceCase("Under a lease that is not in force only the platform's yes counts") { fixture in
            let store = try await fixture.open()
            let changes = Changes(store)
            let id = try await store.accept(.sample(store, fixture.time, to: (0..<5).map { .sample($0) }))
            let former = try await store.claimNow()
            try await store.record(former.map { Resolution(of: $0, .release) })
            let claimed = try await store.claimNow("apns", 3)
            try expect(claimed.map(\.lease).min() ?? 0 > former[0].lease, "a later lease has a higher number")
            let before = try await store.eventTexts()
            let later = fixture.time.now + 50
            let no = Array("no".utf8)
            try await store.record([
                Resolution(of: former[0], .retry(at: later, step: 0), attempt: [49], event: no),
                Resolution(of: former[0], .release, event: no),
                Resolution(of: former[1], .end(.failed), event: no),
                Resolution(of: former[3], .retry(at: later, step: 0), event: no),
                Resolution(of: former[3], .end(.expired), event: no),
            ])
            try expect(try await store.eventTexts(), is: before, "events")
            try expect(try await store.counts(id), is: [.sending: 3, .queued: 2], "counts")
            try expect(changes.sum.ignored, is: 5, "what is told of those that counted for nothing")
            try await store.end([former[2], former[4]])
            try await store.end(claimed, .failed)
            try expect(try await store.counts(id), is: [.acceptedByPlatform: 2, .failed: 2, .queued: 1], "counts")
            try expect(changes.sum.ended, is: [.acceptedByPlatform: 2, .failed: 2], "ends that are told")
            try expect(changes.sum.accepted, is: 5, "acceptances that are told")
            try expect(try await store.claimNow().map(\.id), is: [former[3].id], "what is left")
            await store.close()
        },
        StoreConformanceCase("What came back under a later claim was not left by an earlier one") {
            fixture in
            var store = try await fixture.open()
            _ = try await store.accept(.sample(store, fixture.time, to: [.sample(1), .sample(2)]))
            let first = try await store.claimNow("apns", 2)
            func retry(_ delivery: ClaimedDelivery, after span: Double) async throws {
                let transition = Resolution.Transition.retry(at: fixture.time.steady + span, step: 0)
                try await store.record([Resolution(delivery: delivery.id, transition: transition, attempt: [49])])
            }
            try await retry(first[0], after: 0)
            let second = try await store.claimNow("apns", 1)
            try expect(second.map(\.id), is: [first[0].id], "claimed again")
            try await retry(second[0], after: 0)
            store = try await fixture.reopen(store)
            let again = try await store.claimNow()
            try expect(again.map(\.id).sorted(), is: first.map(\.id).sorted(), "claimable")
            for delivery in again {
                let wasLeft = delivery.id == first[1].id
                try expect(delivery.isRecovered, is: wasLeft, "delivery \(delivery.id - first[0].id)")
                try expect(delivery.isReplay, is: wasLeft, "delivery \(delivery.id - first[0].id)")
            }
            await store.close()
        },
        StoreConformanceCase("What was claimed when the store ended is known to be so afterwards") { fixture in
            var store = try await fixture.open()
            let recipients = (0..<40).map { Recipient.sample($0) }
            let waiting = Task { [store] in
                try await store.claim(backend: "apns", limit: 5, wait: .seconds(900))
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
