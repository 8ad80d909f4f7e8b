import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

@Suite("The answer to more work than a flow takes", .timeLimit(.minutes(1)))
struct BackPressureTests {
    /// A store whose workers are outrun with more than two deliveries waiting.
    private func open(_ folder: String, _ time: ManualTime, pause: Duration) throws -> SQLiteStore {
        var options = SQLiteStoreOptions(path: folder + "/store.db")
        options.windowCapacity = 8
        options.longestPause = pause
        return try SQLiteStore(options, time: time)
    }

    private func untilWaiting(_ count: Int, in store: SQLiteStore) async throws {
        while try await store.depths()["apns"]?.waiting != count { await Task.yield() }
    }

    @Test("It waits until the flow has caught up, while the work itself is stored")
    func waits() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let store = try open(folder, time, pause: .seconds(3_600))
            try await store.accept(time)
            #expect(try await store.claimNow(1).count == 1)
            let answer = Answer()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await store.accept(time, recipients: 4)
                    answer.hasCome.store(true, ordering: .releasing)
                }
                try await untilWaiting(4, in: store)
                for _ in 0..<20 { _ = try await store.depths() }
                let isEarly = answer.hasCome.load(ordering: .acquiring)
                #expect(!isEarly)
                #expect(try await store.claimNow(3).count == 3)
                try await group.waitForAll()
            }
            await store.close()
        }
    }

    @Test("It comes when the pause ends, and a flow that did not catch up is left alone until it has")
    func ends() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let store = try open(folder, time, pause: .seconds(1))
            try await store.accept(time)
            #expect(try await store.claimNow(1).count == 1)
            let clock = ContinuousClock()
            let start = clock.now
            try await store.accept(time, recipients: 4)
            #expect(clock.now - start >= .milliseconds(900))
            // Were each of these held back, they would take longer than the suite may.
            for number in 0..<100 { try await store.accept(time, name: "n\(number)") }
            await store.close()
        }
    }

    @Test("A flow that was left alone and takes much again is waited for again")
    func again() throws {
        let backPressure = BackPressure(windowCapacity: 8, longestPause: .milliseconds(20))
        let queue = BackendQueue(name: "apns")
        defer { withExtendedLifetime(queue) {} }
        let flow = Flow.sample(in: queue, deliveries: 8)
        let answers = Answers()
        let port = StorePort(Inbox(maximumRows: 1)) { answers.count.add($0.count, ordering: .relaxed) }
        func accept() -> Bool {
            let before = answers.count.load(ordering: .relaxed)
            backPressure.accept(1, in: flow, .port(port, StorePort.Call(ticket: 0, deliveries: 1)))
            port.flush()
            return answers.count.load(ordering: .relaxed) > before
        }
        let clock = ContinuousClock()
        let end = clock.now + .seconds(30)
        queue.claimed = 1
        for id in 0..<5 { flow.add(.sample(Int64(id), flow), now: 0) }
        #expect(!accept())
        while flow.leftAlone == nil, clock.now < end { backPressure.release() }
        #expect(accept())
        for _ in 0..<2 { #expect(flow.takeNext(now: 0) != nil) }
        for id in 5..<7 { flow.add(.sample(Int64(id), flow), now: 0) }
        var isHeld = false
        while !isHeld, clock.now < end { isHeld = !accept() }
        #expect(isHeld)
    }

    @Test("No caller waits for a flow without a worker, nor for the end of the store")
    func idle() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let store = try open(folder, time, pause: .seconds(3_600))
            try await store.accept(time, recipients: 5)
            #expect(try await store.claimNow(1).count == 1)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await store.accept(time, recipients: 3) }
                try await untilWaiting(7, in: store)
                await store.close()
                try await group.waitForAll()
            }
        }
    }
}

/// Whether a call was answered.
private final class Answer: Sendable {
    let hasCome = Atomic(false)
}

/// Counts answers.
private final class Answers: Sendable {
    let count = Atomic(0)
}

extension Entry {
    fileprivate static func sample(_ id: Int64, _ flow: Flow) -> Entry {
        let head = DeliveryHead(
            id: NotificationID(rawValue: id),
            record: NotificationRecord(content: [], plans: [DeliveryPlan(["apns"])], acceptedAt: .now),
            expiresAt: .now
        )
        return Entry(id: id, head: head, recipient: .topic("news"), flow: flow, due: 0)
    }
}
