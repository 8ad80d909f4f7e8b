import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

@Suite("Callers that share a PostgreSQL store", .serialized, .timeLimit(.minutes(2)))
struct CallerTests {
    @Test("Any node cancels a caller's waiting deliveries, and leaves those that another node has claimed")
    func cancellation() async throws {
        try await Nodes.use(2) { nodes in
            let id = try await nodes[0].accept(to: (0..<40).map { .user("\($0)") }, caller: "shop")
            let other = try await nodes[1].accept(to: [.user("x")], caller: "news")
            let claimed = try await nodes[0].claim(backend: "apns", limit: 3, wait: .seconds(5))
                .filter { $0.caller == "shop" }
            #expect(claimed.count >= 2)
            let ended = EndCount()
            nodes[1].observe { ended.add($0.ended[.cancelled] ?? 0) }
            var total = CallerCancellation(cancelled: 0)
            repeat {
                let part = try await nodes[1].cancel(caller: "shop", from: total.next) { claim, state in
                    Array("\(state.rawValue) \(claim.caller)".utf8)
                }
                total.cancelled += part.cancelled
                total.inFlight += part.inFlight
                total.next = part.next
            } while total.next != nil
            #expect(total.cancelled == 40 - claimed.count && total.inFlight == claimed.count)
            #expect(ended.count == total.cancelled, "the ledger of the node that did it")
            #expect(try await nodes[0].notification(id)?.counts[.sending] == claimed.count)
            #expect(
                try await nodes[0].count("SELECT count(DISTINCT owner) FROM chapar.waiting WHERE owner > 0") == 1,
                "the claims are their node's"
            )
            // Its owner ends one, and would try the others again.
            try await nodes[0].end([claimed[0]])
            let retry = Resolution.Transition.retry(at: nodes[0].time.steady, step: 0)
            try await nodes[0].record(claimed.dropFirst().map { Resolution(of: $0, retry, attempt: [0x7B, 0x7D]) })
            #expect(try await nodes[0].notification(id)?.counts == [.acceptedByPlatform: 1, .cancelled: 39])
            let left = try await nodes[1].notification(other)?.counts.values.reduce(0, +)
            #expect(left == 1)
            #expect(try await nodes[1].count("SELECT count(*) FROM chapar.waiting") == 1)
            let again = try await nodes[1].cancel(caller: "shop", from: nil) { _, _ in [1] }
            #expect(again.cancelled == 0 && again.inFlight == 0)
        }
    }

    @Test("A caller has its share of what may wait at all nodes together, about, and the rest is left to others")
    func share() async throws {
        try await Nodes.use(2) {
            $0.maximumWaiting = 20
            $0.nodeLease = .seconds(3)
        } _: { nodes in
            func accept(_ caller: String, _ node: PostgresStore) async throws -> StoreError? {
                let new = node.sample(to: [.user("a")], caller: caller)
                do { _ = try await node.enqueue(EnqueueBatch([new], share: 0.5)) } catch { return error }
                return nil
            }
            /// Accepts on a node as soon as the caller has room there; a node learns at its next look of what others
            /// accepted.
            func acceptAtLast(_ caller: String, _ node: PostgresStore) async throws {
                try await eventually("\(caller) has room in its share", every: .milliseconds(50)) {
                    guard let error = try await accept(caller, node) else { return true }
                    guard case .shareFull = error else { throw error }
                    return false
                }
            }
            for number in 0..<10 { try await acceptAtLast("shop", nodes[number % 2]) }
            // From the next look on, at each node.
            for node in nodes {
                try await eventually("the node has counted what the caller has") {
                    node.core.callerCounts.of("shop") >= 10
                }
                guard case .shareFull(let reason, let retryAfter)? = try await accept("shop", node) else {
                    Issue.record("more than its share was taken")
                    return
                }
                #expect(
                    reason.contains("10 deliveries of this caller") && reason.contains("share of max_waiting is 10")
                )
                #expect(retryAfter == .seconds(10))
                try await acceptAtLast("news", node)
            }
            for _ in 0..<8 { try await acceptAtLast("news", nodes[0]) }
            try await eventually("the other node has counted what waits") { nodes[1].core.waiting >= 20 }
            let health = await nodes[1].health()
            #expect(health.isQueueFull && !health.acceptsWork)
            guard case .full? = try await accept("crm", nodes[1]) else {
                Issue.record("more was taken than may wait")
                return
            }
            var part = try await nodes[0].cancel(caller: "shop", from: nil) { _, _ in [1] }
            while let next = part.next { part = try await nodes[0].cancel(caller: "shop", from: next) { _, _ in [1] } }
            try await eventually("the other node has counted what is left") {
                nodes[1].core.waiting <= 10 && nodes[1].core.callerCounts.of("shop") <= 0
            }
            #expect(await nodes[1].health().acceptsWork)
            #expect(try await accept("shop", nodes[1]) == nil)
        }
    }

    @Test("A look that finds too little to be counted ends the wait for it")
    func nothingToCount() async throws {
        try await Nodes.use(1) { nodes in
            let counts = nodes[0].core.callerCounts
            counts.note(bound: 10)
            let begin = ContinuousClock.now
            for _ in 0..<20 { await counts.refresh(for: "shop", more: 11, bound: 10, nodes: 3) }
            #expect(begin.duration(to: .now) < .seconds(2), "each waited for nothing")
        }
    }

    @Test("A caller has no more than its share however fast it sends, and all of it when what it sent has ended")
    func burst() async throws {
        try await Nodes.use(1) {
            $0.maximumWaiting = 2_000
            $0.nodeLease = .seconds(3_600)  // No other look comes.
        } _: { nodes in
            let store = nodes[0]
            func taken(_ caller: String, of posts: Int) async throws -> Int {
                var taken = 0
                for post in 0..<posts {
                    let new = store.sample(to: (0..<100).map { .user("\(post)-\($0)") }, caller: caller)
                    if (try? await store.enqueue(EnqueueBatch([new], share: 0.5))) == .accepted { taken += 100 }
                }
                return taken
            }
            #expect(try await taken("shop", of: 15) == 1_000)
            #expect(try await taken("news", of: 9) == 900)
            var part = try await store.cancel(caller: "shop", from: nil) { _, _ in [1] }
            while let next = part.next { part = try await store.cancel(caller: "shop", from: next) { _, _ in [1] } }
            // What has ended counts no more, from the next look on.
            var again = 0
            try await eventually("the caller has all of its share again", every: .milliseconds(20)) {
                again += try await taken("shop", of: 1)
                return again >= 1_000
            }
            #expect(try await taken("shop", of: 3) == 0)
        }
    }
}

/// Counts what observers are told.
private final class EndCount: Sendable {
    private let value = Atomic(0)
    var count: Int { value.load(ordering: .relaxed) }
    func add(_ count: Int) { value.wrappingAdd(count, ordering: .relaxed) }
}
