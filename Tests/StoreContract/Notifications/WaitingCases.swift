import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting

/// Checks the gateway's decisions about deliveries that are not claimed.
extension StoreConformance {
    static let waiting: [StoreConformanceCase] = [
        StoreConformanceCase("A look claims nothing, and sees everything that is due, once") { fixture in
            let store = try await fixture.open()
            let now = fixture.time.now
            let due = try await store.accept(.sample(store, fixture.time, to: (0..<7).map { .sample($0) }))
            let one = try await store.accept(.sample(store, fixture.time, to: [.sample("one")], title: "one"))
            _ = try await store.accept(.sample(store, fixture.time, due: now + 60))
            _ = try await store.accept(.sample(store, fixture.time, backends: ["fcm"]))
            let claimed = try await store.claimNow("apns", 2).map(\.id)
            let all = (due.rawValue..<due.rawValue + 7) + [one.rawValue]
            for limit in [1, 3, 100] {
                try expect(
                    try await store.seen("apns", limit).map(\.id),
                    is: all.filter { !claimed.contains($0) },
                    "what waits, \(limit) at a time"
                )
            }
            let seen = try await store.seen("apns", 100) { $0.id == one.rawValue }
            try expect(seen.map(\.id), is: [one.rawValue], "what is wanted")
            let isRead = seen.first.map { if case .stored(let bytes) = $0.content { !bytes.isEmpty } else { true } }
            try expect(isRead, is: true, "whether its content is there")
            try expect(seen.first?.caller, is: "shop", "its caller")
            fixture.time.advance(by: .seconds(30))
            let late = try await store.accept(.sample(store, fixture.time, to: [.sample("late")]))
            try expect(
                try await store.seen("apns", 100, since: now + 10).map(\.id),
                is: [late.rawValue],
                "what came due since"
            )
            try expect(try await store.seen("hms", 100).count, is: 0, "at a backend without a queue")
            try expect(try await store.claimNow("apns").count, is: 7, "what can be claimed afterwards")
            await store.close()
        },
        StoreConformanceCase("A decision about what waits counts only while it waits as it was seen") { fixture in
            let store = try await fixture.open()
            let plan = ["apns", "fcm"]
            func see() async throws -> ClaimedDelivery {
                _ = try await store.accept(.sample(store, fixture.time, backends: plan))
                guard let seen = try await store.seen("apns", 10).first else {
                    throw ConformanceFailure("nothing is seen")
                }
                return seen
            }
            func settle(_ seen: ClaimedDelivery, of backend: String = "apns") async throws -> Bool {
                try await store.settle([.passing(seen)], of: backend) { Array("\($2.rawValue) \($0.id)".utf8) }
                    .contains(seen.id)
            }
            let first = try await see()
            let events = try await store.lastEvent()
            try expect(try await settle(first, of: "fcm"), is: false, "what waits for another backend")
            try expect(try await settle(first), is: true, "the first decision")
            try expect(try await settle(first), is: false, "the same once more")
            try expect(try await store.lastEvent() - events, is: 1, "events")
            let passed = try await store.claimNow("fcm")
            try expect(passed.map(\.id), is: [first.id], "what the next backend has")
            try expect(passed.map(\.attempts), is: [1], "its attempts")
            try expect(passed.map(\.step), is: [1], "its step")
            try expect(passed.map(\.isReplay), is: [false], "whether it may have been sent")
            try await store.end(passed)
            let claimed = try await see()
            let claims = try await store.claimNow("apns")
            try expect(try await settle(claimed), is: false, "what is claimed")
            try await store.record(claims.map { Resolution(of: $0, .release) })
            try expect(try await settle(claimed), is: false, "what was claimed meanwhile")
            try await store.end(try await store.claimNow("apns"))
            let cancelled = try await see()
            _ = try await store.cancel(cancelled.notificationID) { _, _ in [1] }
            try expect(try await settle(cancelled), is: false, "what was cancelled")
            let moved = try await see()
            try expect(try await store.move(backend: "apns", to: "hms"), is: 1, "moved")
            try expect(try await settle(moved), is: false, "what was moved")
            await store.close()
        },
        StoreConformanceCase("A decision about what waits goes by the states of the table") { fixture in
            var store = try await fixture.open()
            for state in DeliveryState.allCases
            where DeliveryState.transitions.allows(.settle, from: .queued, to: state) && state.isFinal {
                let id = try await store.accept(.sample(store, fixture.time))
                let seen = try await store.seen("apns", 10)
                let ends = seen.map { Resolution(of: $0, .end(state), attempt: Array("{}".utf8)) }
                try expect(try await store.settle(ends, of: "apns") { _, _, _ in [1] }.count, is: 1, state.rawValue)
                try expect(try await store.counts(id), is: [state: 1], "after \(state.rawValue)")
            }
            // A delivery that may have been sent stays marked as such, and counts as recovered only once.
            let id = try await store.accept(.sample(store, fixture.time, backends: ["apns", "fcm"]))
            _ = try await store.claimNow("apns")
            store = try await fixture.reopen(store)
            let seen = try await store.seen("apns", 10)
            try expect(seen.map(\.isRecovered), is: [true], "whether its owner died")
            _ = try await store.settle(seen.map { .passing($0) }, of: "apns") { _, _, _ in [1] }
            try expect(try await store.counts(id), is: [.retrying: 1], "its state")
            store = try await fixture.reopen(store)
            let again = try await store.seen("fcm", 10)
            try expect(again.map(\.isRecovered), is: [false], "whether its owner died again")
            try expect(again.map(\.isReplay), is: [true], "whether it may have been sent")
            await store.close()
        },
        StoreConformanceCase("What waits behind a claimed one with its collapse id is not decided about") { fixture in
            let store = try await fixture.open()
            func accept() async throws {
                _ = try await store.accept(
                    .sample(store, fixture.time, backends: ["apns", "fcm"], collapseID: "score")
                )
            }
            try await accept()
            let claims = try await store.claimNow("apns")
            try await accept()
            let seen = try await store.seen("apns", 10)
            let settled = try await store.settle(seen.map { .passing($0) }, of: "apns") { _, _, _ in [1] }
            try expect(settled.count, is: 0, "decisions that count")
            try await store.end(claims)
            try expect(try await store.claimNow("apns").count, is: 1, "what is claimed behind it")
            await store.close()
        },
        StoreConformanceCase("What waits for another attempt becomes due, and nothing else") { fixture in
            let store = try await fixture.open()
            let now = fixture.time.now
            for name in ["retried", "held", "other", "asked"] {
                let backends = name == "other" ? ["fcm"] : ["apns"]
                var new = NewNotification.sample(store, fixture.time, to: [.sample(name)], backends: backends)
                if name == "held" { new.record.plans[0].onUnknown = .wait }
                _ = try await store.accept(new)
            }
            _ = try await store.accept(.sample(store, fixture.time, to: [.sample("scheduled")], due: now + 60))
            // A text of the platform that looks like the field does not count.
            let attempt = Array(#"{"at":"x","detail":",\"platform_wait\":1"}"#.utf8)
            let asked = Array(#"{"at":"x","platform_wait":50.5}"#.utf8)
            for backend in ["apns", "fcm"] {
                try await store.record(
                    try await store.claimNow(backend).map { claim in
                        let isHeld = claim.plan.onUnknown == .wait
                        return Resolution(
                            of: claim,
                            .retry(at: now + 60, step: 0),
                            attempt: claim.recipient == .sample("asked") ? asked : attempt,
                            mayHaveBeenSent: isHeld
                        )
                    }
                )
            }
            try expect(try await store.makeRetriesDue(of: "apns"), is: 1, "deliveries that became due")
            try expect(try await store.makeRetriesDue(of: "apns"), is: 0, "once more")
            try expect(try await store.makeRetriesDue(of: "hms"), is: 0, "at a backend without a queue")
            try expect(
                try await store.claimNow("apns").map(\.recipient),
                is: [.sample("retried")],
                "what can be claimed"
            )
            try expect(try await store.claimNow("fcm").count, is: 0, "what the other backend has")
            fixture.time.advance(by: .seconds(61))
            try expect(try await store.claimNow("apns").count, is: 3, "what comes due by itself")
            await store.close()
        },
    ]
}

extension NotificationStore {
    /// Returns all wanted deliveries of a backend's queue, read in pages of `limit`.
    fileprivate func seen(
        _ backend: String,
        _ limit: Int,
        since: Date? = nil,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool = { _ in true }
    ) async throws -> [ClaimedDelivery] {
        var found: [ClaimedDelivery] = []
        var place: WaitingPlace?
        for _ in 0..<1_000 {
            let look = WaitingLook(backend: backend, since: since, after: place, limit: limit)
            let page = try await waitingDeliveries(look, where: isWanted)
            found += page.found
            place = page.next
            if place == nil { return found.sorted { $0.id < $1.id } }
        }
        throw ConformanceFailure("a walk over what waits does not end")
    }
}

extension Resolution {
    /// Returns the decision that a delivery goes on to the next step of its plan.
    fileprivate static func passing(_ delivery: ClaimedDelivery) -> Resolution {
        Resolution(
            of: delivery,
            .retry(at: delivery.acceptedAt, step: delivery.step + 1),
            attempt: Array(#"{"outcome":"skipped"}"#.utf8),
            event: [1]
        )
    }
}
