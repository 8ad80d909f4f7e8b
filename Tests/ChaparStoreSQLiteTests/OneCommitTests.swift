import Foundation
import GRDB
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

/// Calls that the writer carries out in one transaction, where memory does not show yet what the others do.
@Suite("Calls that share a commit", .timeLimit(.minutes(1)))
struct OneCommitTests {
    private static func with(_ body: (SQLiteStore, ManualTime) async throws -> Void) async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time)
            try await body(store, time)
            await store.close()
        }
    }

    /// Runs calls, which come to the writer in this order while it is busy, so that it takes them together.
    private static func together(_ store: SQLiteStore, _ calls: [@Sendable () async throws -> Void]) async throws {
        let (mayGoOn, isBusy) = (DispatchSemaphore(value: 0), Flag())
        let busy = TableWork(rows: 1) { _ in
            isBusy.set()
            mayGoOn.wait()
            return {}
        } fail: { _ in
        }
        #expect(store.core.inbox.add(.work(busy)))
        while !isBusy.isSet { await Task.yield() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, call) in calls.enumerated() {
                group.addTask { try await call() }
                while store.core.inbox.count <= number { await Task.yield() }
            }
            mayGoOn.signal()
            try await group.waitForAll()
        }
    }

    @Test("Results without logs end what they are about, in any order, and each once")
    func runs() async throws {
        try await Self.with { store, time in
            let told = Mutex(StoreChange())
            store.core.observers.add { change in
                told.withLock { told in
                    told.ended.merge(change.ended) { $0 + $1 }
                    told.ignored += change.ignored
                }
            }
            let first = try await store.accept(time, recipients: 9).rawValue
            let claimed = try await store.claimNow().sorted { $0.id < $1.id }
            func plain(_ place: Int, _ state: DeliveryState = .acceptedByPlatform) -> Resolution {
                Resolution(of: claimed[place], .end(state))
            }
            var logged = plain(5)
            logged.attempt = Array("{}".utf8)
            try await store.record([
                plain(3), plain(1), plain(2), plain(3), plain(6), plain(4), plain(7, .failed), plain(8, .failed),
                logged,
            ])
            let rows = try await store.read { db in
                try String.fetchAll(
                    db,
                    sql: "SELECT (id - \(first)) || ':' || state || ':' || attempts FROM deliveries ORDER BY id"
                )
            }
            #expect(rows == ["0:0:0", "1:1:0", "2:1:0", "3:1:0", "4:1:0", "5:1:1", "6:1:0", "7:4:0", "8:4:0"])
            let change = told.withLock { $0 }
            #expect(change.ended == [.acceptedByPlatform: 6, .failed: 2] && change.ignored == 1)
            #expect(try await store.look { $0.claims.count } == 1, "the others have no owner any more")
        }
    }

    @Test("Claims of two workers that are served by turns are listed once each")
    func claimsByTurns() async throws {
        try await TemporaryFolder.use { folder in
            let (time, log) = (ManualTime(), RecordedLog())
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"), time: time, logger: log.logger)
            let claimed = Mutex<[String: Int]>([:])
            let claims = ["a", "b"].map { backend in
                { @Sendable () async throws in
                    let found = try await store.claim(backend: backend, limit: 10, wait: .seconds(60))
                    claimed.withLock { $0[backend] = found.count }
                }
            }
            // With two recipients each is kept in rows, so that its claim has to be on disk as well.
            let batch = ["a", "b", "a"].map { backend in
                var notification = store.sample(time, recipients: 2)
                notification.record.plans = [DeliveryPlan([backend])]
                return notification
            }
            try await Self.together(store, claims + [{ _ = try await store.enqueue(EnqueueBatch(batch)) }])
            #expect(claimed.withLock { $0 } == ["a": 4, "b": 2])
            #expect(log.lines.isEmpty, "\(log.lines)")
            await store.close()
        }
    }

    @Test("A delivery is either cancelled, or claimed and reported as in flight", arguments: [true, false])
    func cancelAndClaim(isCancelFirst: Bool) async throws {
        try await Self.with { store, time in
            let ids = [try await store.accept(time), try await store.accept(time, recipients: 3)]
            let found = Found()
            let claim: @Sendable () async throws -> Void = { found.set(claimed: try await store.claimNow().count) }
            let cancels = ids.map { id in
                { @Sendable in found.add(try await store.cancel(id) { _, _ in [1] }) }
            }
            try await Self.together(store, isCancelFirst ? cancels + [claim] : [claim] + cancels)
            let (claimed, cancellation) = found.values
            #expect(claimed + cancellation.cancelled == 4 && cancellation.inFlight == claimed)
            #expect(try await store.depths()["apns"] == QueueDepth(waiting: 0, claimed: claimed))
        }
    }

    @Test("The first message of a caller goes where its backend was moved to in the same commit, over a restart too")
    func moveAndNewFlow() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let time = ManualTime()
            let store = try SQLiteStore(options, time: time)
            try await store.accept(time)
            var new = store.sample(time, recipients: 2)
            new.caller = "another"
            let batch = EnqueueBatch([new])
            let moved = Mutex<Int?>(nil)
            try await Self.together(
                store,
                [
                    {
                        let count = try await store.move(backend: "apns", to: "spare")
                        moved.withLock { $0 = count }
                    },
                    { _ = try await store.enqueue(batch) },
                ]
            )
            // By which of the two the commit ran first.
            #expect([1, 3].contains(moved.withLock { $0 }))
            #expect(try await store.depths()["spare"]?.waiting == 3)
            await store.close()
            let again = try SQLiteStore(options, time: time)
            #expect(try await again.depths()["spare"]?.waiting == 3)
            #expect(try await again.depths()["apns"]?.waiting ?? 0 == 0, "some wait in a queue without a worker")
            await again.close()
        }
    }

    @Test("A delivery about which was decided without a claim is not claimed as well", arguments: [true, false])
    func settleAndClaim(isClaimFirst: Bool) async throws {
        try await Self.with { store, time in
            for _ in 0..<3 { try await store.accept(time) }
            try await store.accept(time, recipients: 3)
            let seen = try await store.waitingDeliveries(WaitingLook(backend: "apns")) { _ in true }.found
            #expect(seen.count == 6)
            let changes = Changes(store)
            let claimed = Mutex(0)
            let settled = Mutex(0)
            let claim: @Sendable () async throws -> Void = {
                let found = try await store.claim(backend: "apns", limit: 4, wait: .zero).count
                claimed.withLock { $0 = found }
            }
            let settle: @Sendable () async throws -> Void = {
                let ends = seen.map { Resolution(of: $0, .end(.failed), attempt: [49]) }
                let found = try await store.settle(ends, of: "apns") { _, _, _ in [1] }.count
                settled.withLock { $0 = found }
            }
            try await Self.together(store, isClaimFirst ? [claim, settle] : [settle, claim])
            #expect(claimed.withLock { $0 } == 4)
            #expect(settled.withLock { $0 } == 2)
            #expect(changes.ended == 2)
            #expect(try await store.depths()["apns"] == QueueDepth(waiting: 0, claimed: 4))
        }
    }

    @Test("An expired delivery that is to be retried is claimed once")
    func retryAndExpiry() async throws {
        try await Self.with { store, time in
            let changes = Changes(store)
            try await store.accept(time)
            let claimed = try await store.claimNow()
            time.advance(by: .seconds(3_601))
            let found = Found()
            try await Self.together(
                store,
                [
                    {
                        let again = Resolution.Transition.retry(at: store.time.steady, step: 0)
                        try await store.record(claimed.map { Resolution(of: $0, again, attempt: [49]) })
                    },
                    { found.set(claimed: try await store.claimExpired(limit: 9).count) },
                ]
            )
            let expired = try await store.claimExpired(limit: 9)
            let others = try await store.claimNow()
            #expect(found.values.0 + expired.count + others.count == 1)
            try await store.record((expired + others).map { Resolution(of: $0, .end(.expired)) })
            #expect(try await store.depths()["apns"] == QueueDepth())
            #expect(changes.ended == 1)
        }
    }
}

/// The results of calls.
private final class Found: Sendable {
    private let found = Mutex((claimed: 0, cancellation: Cancellation(cancelled: 0, tooLate: 0)))
    var values: (Int, Cancellation) { found.withLock { $0 } }
    func set(claimed: Int) { found.withLock { $0.claimed = claimed } }
    func add(_ more: Cancellation?) {
        found.withLock { found in
            found.cancellation.cancelled += more?.cancelled ?? 0
            found.cancellation.inFlight += more?.inFlight ?? 0
        }
    }
}

/// How many deliveries a store logged to have ended.
private final class Changes: Sendable {
    private let count = Mutex(0)
    var ended: Int { count.withLock { $0 } }

    init(_ store: SQLiteStore) {
        store.observe { [weak self] change in
            self?.count.withLock { $0 += change.ended.values.reduce(0, +) }
        }
    }
}

private final class Flag: Sendable {
    private let value = Mutex(false)
    var isSet: Bool { value.withLock { $0 } }
    func set() { value.withLock { $0 = true } }
}
