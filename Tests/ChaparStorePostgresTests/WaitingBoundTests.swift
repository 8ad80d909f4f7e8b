import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

@Suite("The bound of what waits on PostgreSQL", .serialized, .timeLimit(.minutes(2)))
struct WaitingBoundTests {
    @Test("A node takes its part of the room that it has seen, and counts what it changes while it looks")
    func count() {
        var count = WaitingCount()
        count.nodes = 3
        count.note(100, since: count.mark)
        count.add(10)
        #expect(count.known == 110)
        #expect(count.most == 130, "each of two others may have accepted as much")
        let mark = count.mark
        count.add(5)
        count.note(112, since: mark)
        #expect(count.known == 117)
        #expect(count.most == 127)
        count.add(-200)
        #expect(count.known == 0, "what ended here was accepted elsewhere")
        #expect(count.most == 0)
        count.add(3)
        #expect(count.known == 3)
        #expect(count.most == 3)
    }

    @Test("A node knows at once of one that has joined")
    func joined() async throws {
        try await Nodes.use(2) { nodes in
            let begin = ContinuousClock.now
            try await eventually("the first node knows of the other one") {
                nodes[0].core.waitingCount.withLock { $0.nodes } >= 2
            }
            #expect(begin.duration(to: .now) < .seconds(3), "a third of a lease of 15 s")
        }
    }

    @Test("Counting takes a small part of a connection's time")
    func pace() {
        var pace = WaitingEstimate.Pace()
        let now = ContinuousClock.now
        #expect(pace.mayCount(at: now))
        pace.note(from: now, to: now + .milliseconds(15))
        #expect(!pace.mayCount(at: now + .milliseconds(314)))
        #expect(pace.mayCount(at: now + .milliseconds(315)))
    }

    @Test("A count that takes too long is given up, and the server's own estimate takes its place")
    func slowCount() async throws {
        try await Nodes.use(1, { $0.maximumWaiting = 5 }) { nodes in
            let store = nodes[0]
            try await store.accept(to: [.user("a"), .user("b"), .user("c")])
            await store.pauseKeeper()
            try await WaitingEstimate(store.core).refresh()
            #expect(store.core.waiting == 3)
            let (isLocked, mayEnd) = (AsyncSignal(), DispatchSemaphore(value: 0))
            let locking = Task {
                try await store.core.counter.transaction { (db) throws(PostgresError) in
                    try db.perform("LOCK TABLE chapar.waiting")
                    isLocked.signal()
                    _ = mayEnd.wait(timeout: .now() + 20)
                }
            }
            await isLocked.wait(after: .start, atMost: .seconds(10), SystemTime())
            let begin = ContinuousClock.now
            try await WaitingEstimate(store.core).refresh()
            #expect(begin.duration(to: .now) < .seconds(3), "the lock is held for five seconds")
            mayEnd.signal()
            try await locking.value
            #expect(store.core.waiting == 3)
        }
    }

    @Test("Requests that share a transaction count beside each other", arguments: [(1.0, 10...10), (0.5, 5...6)])
    func group(_ share: Double, _ expected: ClosedRange<Int>) async throws {
        try await Nodes.use(1, { $0.maximumWaiting = 10 }) { nodes in
            let store = nodes[0]
            // They wait for the same transaction, but for the first one.
            let isBusy = AsyncSignal()
            let busy = Task {
                try await store.core.writer.session { (db) throws(PostgresError) in
                    isBusy.signal()
                    try db.perform("SELECT pg_sleep(1)")
                }
            }
            await isBusy.wait(after: .start, atMost: .seconds(10), SystemTime())
            let taken = await withTaskGroup(of: Bool.self) { group in
                for number in 0..<20 {
                    group.addTask {
                        let new = store.sample(to: [.user("\(number)")], caller: "shop")
                        return (try? await store.enqueue(EnqueueBatch([new], share: share))) == .accepted
                    }
                }
                return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            try await busy.value
            #expect(expected.contains(taken), "\(taken)")
        }
    }
}
