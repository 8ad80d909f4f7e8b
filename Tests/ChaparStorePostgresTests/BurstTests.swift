import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

/// A burst after a quiet time, when the server's statistics have the tables as empty.
@Suite("A burst on a PostgreSQL store after a quiet time", .serialized, .timeLimit(.minutes(3)))
struct BurstTests {
    /// A debug build takes a third: what grows with the square of it would take ten times as long as is allowed here
    /// all the same.
    private static let thousands = _isDebugAssertConfiguration() ? 20 : 60

    @Test("The outcomes of a burst are recorded within ten seconds, however empty the table was before")
    func burst() async throws {
        let nodes = try await Nodes.open(2)
        for number in 0..<20 {
            try await nodes[0].accept(to: [.user("\(number)")])
            try await nodes[0].end(try await nodes[0].claim(backend: "apns", limit: 1, wait: .seconds(5)))
        }
        let begin = ContinuousClock.now
        let all = Self.thousands * 1_000
        let tally = Claimed()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in nodes {
                group.addTask {
                    for _ in 0..<Self.thousands / 2 { try await node.accept(to: (0..<1_000).map { .user("\($0)") }) }
                }
                for _ in 0..<4 {
                    group.addTask {
                        while tally.ids.withLock({ $0.count }) < all, begin.duration(to: .now) < .seconds(60) {
                            let claims = try await node.claim(backend: "apns", limit: 1_000, wait: .milliseconds(100))
                            try await node.end(claims)
                            tally.ids.withLock { $0 += claims.map(\.id) }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let took = begin.duration(to: .now)
        #expect(Set(tally.ids.withLock { $0 }).count == all)
        #expect(took < .seconds(10), "\(took)")
        for node in nodes { await node.close() }
    }
}

/// The claims of all workers.
private final class Claimed: Sendable {
    let ids = Mutex<[Int64]>([])
}
