import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization

extension StoreConformance {
    /// Checks the order of claims between priorities and callers.
    static let turns: [StoreConformanceCase] = [
        StoreConformanceCase("High priority goes before normal, which keeps a share") { fixture in
            let store = try await fixture.open()
            func accept(_ priority: PushNotification.Priority, _ count: Int) async throws {
                let recipients = (0..<count).map { Recipient.sample("\(priority)\($0)") }
                _ = try await store.accept(.sample(store, fixture.time, to: recipients, priority: priority))
            }
            try await accept(.normal, 3_000)
            try await accept(.high, 3_000)
            let first = try await store.claimNow("apns", 100)
            try expect(first.count, is: 100, "claimed")
            try expect(first.filter { $0.recipient.isSample(of: .normal) }.count <= 10, "normal ones among the first")
            var normal = first.filter { $0.recipient.isSample(of: .normal) }.count
            for _ in 0..<19 {
                normal += try await store.claimNow("apns", 100).filter { $0.recipient.isSample(of: .normal) }.count
            }
            try expect((100...300).contains(normal), "normal ones among 2,000: \(normal)")
            await store.close()
        },
        StoreConformanceCase("Normal priority gathers no share while nothing of it waits") { fixture in
            let store = try await fixture.open()
            for _ in 0..<20 { try expect(try await store.claimNow("apns", 100).count, is: 0, "before the first") }
            for priority in [PushNotification.Priority.normal, .high] {
                let recipients = (0..<200).map { Recipient.sample("\(priority)\($0)") }
                _ = try await store.accept(.sample(store, fixture.time, to: recipients, priority: priority))
            }
            let first = try await store.claimNow("apns", 50)
            try expect(first.count, is: 50, "claimed")
            try expect(first.filter { $0.recipient.isSample(of: .normal) }.count <= 5, "normal ones among the first")
            await store.close()
        },
        StoreConformanceCase("A claim takes no more of normal priority than it may") { fixture in
            let store = try await fixture.open()
            for priority in [PushNotification.Priority.normal, .high] {
                let recipients = (0..<10).map { Recipient.sample("\(priority)\($0)") }
                _ = try await store.accept(.sample(store, fixture.time, to: recipients, priority: priority))
            }
            let first = try await store.claim(backend: "apns", limit: 15, normal: 2, wait: .zero)
            try expect(first.filter { $0.recipient.isSample(of: .normal) }.count, is: 2, "of normal priority")
            try expect(first.count, is: 12, "claimed")
            let none = try await store.claim(backend: "apns", limit: 15, normal: 0, wait: .zero)
            try expect(none.count, is: 0, "claimed without leave for normal ones")
            let waiting = Task { try await store.claim(backend: "apns", limit: 1, normal: 0, wait: .seconds(900)) }
            await Task.yield()
            _ = try await store.accept(.sample(store, fixture.time, to: [.sample("high-late")], priority: .high))
            try expect(try await waiting.value.map(\.recipient), is: [.sample("high-late")], "what it waited for")
            try expect(try await store.claimNow().count, is: 8, "the rest")
            await store.close()
        },
        StoreConformanceCase("Callers take turns, however much one of them has waiting") { fixture in
            let store = try await fixture.open()
            let crowd = (0..<3_000).map { Recipient.sample($0) }
            _ = try await store.accept(.sample(store, fixture.time, to: crowd, caller: "campaign"))
            _ = try await store.accept(.sample(store, fixture.time, to: [.sample("code")], caller: "login"))
            let claimed = try await store.claimNow("apns", 200)
            try expect(
                claimed.contains { $0.recipient == .sample("code") },
                "the other caller's is among the first 200"
            )
            await store.close()
        },
    ]

    /// Checks that deliveries can be moved to another backend.
    static let moving: [StoreConformanceCase] = [
        StoreConformanceCase("What waits for a backend can be handed to another, and what comes later follows") {
            fixture in
            var store = try await fixture.open()
            _ = try await store.accept(.sample(store, fixture.time, to: (0..<3).map { .sample($0) }, backends: ["old"]))
            let held = try await store.claimNow("old", 1)
            try expect(try await store.move(backend: "old", to: "new"), is: nil, "while one is claimed")
            try await store.record(held.map { Resolution(of: $0, .release) })
            try expect(try await store.move(backend: "old", to: "new"), is: 3, "moved")
            try expect(try await store.depths()["old"] ?? QueueDepth(), is: QueueDepth(), "what the old one has")
            _ = try await store.accept(.sample(store, fixture.time, to: [.sample("x")], backends: ["first", "old"]))
            for claim in try await store.claimNow("first") {
                try await store.record([Resolution(of: claim, .retry(at: store.time.steady, step: 1), attempt: [49])])
            }
            store = try await fixture.reopen(store)
            try expect(try await store.claimNow("new").count, is: 4, "claimed from the new one")
            try expect(try await store.claimNow("old").count, is: 0, "claimed from the old one")
            _ = try await store.accept(.sample(store, fixture.time, to: [.sample("y")], backends: ["old"]))
            try expect(try await store.claimNow("old").count, is: 1, "claimed from the old one, which is there again")
            await store.close()
        }
    ]

    /// Checks that deadlines stay when the wall clock is set.
    static let clocks: [StoreConformanceCase] = [-86_400.0, -3, 3, 86_400].map { jump in
        StoreConformanceCase("A jump of the wall clock by \(Int(jump)) s changes no deadline, and send times follow it")
        {
            fixture in
            var store = try await fixture.open()
            let time = fixture.time
            let life = Duration.seconds(40)
            let short = try await store.accept(
                .sample(store, time, to: [.sample("short")], backends: ["x"], timeToLive: life)
            )
            let retried = try await store.accept(.sample(store, time, to: [.sample("retried")]))
            for claim in try await store.claimNow() {
                try await store.record([
                    Resolution(of: claim, .retry(at: store.time.steady + 20, step: 0), attempt: [49])
                ])
            }
            let sendAt = time.now + 30 + max(0, jump)
            let scheduled = try await store.accept(
                .sample(
                    store,
                    time,
                    to: [.sample("at")],
                    backends: ["at"],
                    due: store.time.steady(sendAt),
                    timeToLive: .seconds(300_000)
                )
            )
            time.set(time.now + jump)
            try expect(try await store.claimNow().count, is: 0, "retried too early")
            try expect(try await store.claimExpired(limit: 9).count, is: 0, "expired too early")
            time.advance(by: .seconds(20))
            try expect(try await store.claimNow().map(\.notificationID), is: [retried], "retried in time")
            func claimScheduled() async throws {
                try expect(try await store.claimNow("at").count, is: 0, "sent too early")
                time.advance(by: .seconds(Int(sendAt.timeIntervalSince(time.now)) + 1))
                try expect(
                    try await store.claimNow("at").map(\.notificationID),
                    is: [scheduled],
                    "sent at its time of day"
                )
            }
            if jump > -10 { try await claimScheduled() }
            time.advance(by: .seconds(21))
            var found: [ClaimedDelivery] = []
            for _ in 0..<4 { found += try await store.claimExpired(limit: 9) }
            try expect(found.map(\.notificationID), is: [short], "expired in time")
            try await store.end(found, .expired)
            if jump < -10 { try await claimScheduled() }
            let before = store.time.steady
            let id = store.makeID(recipients: 1)
            store = try await fixture.reopen(store)
            try expect(store.time.steady >= before, "the steady time goes on")
            let next = store.makeID(recipients: 1)
            try expect(abs(next.time.timeIntervalSince(id.time)) < 60, "numbers go on")
            await store.close()
        }
    }
}

extension Recipient {
    fileprivate func isSample(of priority: PushNotification.Priority) -> Bool {
        if case .token(let token) = self { token.value.contains("\(priority)") } else { false }
    }
}

/// The sum of the changes that a store has reported.
final class Changes: Sendable {
    private let total = Mutex(StoreChange())
    var sum: StoreChange { total.withLock { $0 } }

    init(_ store: any NotificationStore) {
        store.observe { [weak self] change in
            self?.total.withLock { total in
                total.accepted += change.accepted
                total.ignored += change.ignored
                total.ended.merge(change.ended, uniquingKeysWith: +)
            }
        }
    }
}
