import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("When the wall clock is set, in PostgreSQL", .timeLimit(.minutes(1)))
struct ClockShiftTests {
    private static let rows = 2

    @Test(
        "Scheduled deliveries are moved once, in steps, and any node continues",
        arguments: [-7_200_000, 7_200_000] as [Int64]
    )
    func steps(_ jump: Int64) async throws {
        let time = ManualTime()
        try await Nodes.use(2, time: time) { nodes in
            for place in 0..<12 {
                let recipients = (0...place % 5).map { Recipient.user("\($0)") }
                var new = nodes[0].sample(to: recipients, life: 86_400)
                if place % 4 != 3 { new.dueAt = time.steady + 10_800 + Double(place) }
                #expect(try await nodes[0].enqueue(EnqueueBatch([new])) == .accepted)
            }
            let former = try await Self.times(nodes[0])
            time.set(time.now + Double(jump / 1_000))
            let shift = ClockShift(nodes[0].core, rows: Self.rows)
            #expect(try await shift.begin(to: jump, on: nodes[0].core.keeper))
            #expect(try await !shift.begin(to: 2 * jump, on: nodes[0].core.keeper), "one after the other")
            #expect(try await shift.run(within: .zero))
            let moved = try await zip(former, Self.times(nodes[0])).count { $0 != $1 }
            #expect((1...Self.rows + 4).contains(moved))
            // The next that works on the store goes on.
            _ = try await nodes[1].claim(backend: "apns", limit: 0, wait: .zero)
            #expect(try await !shift.run())
            for (before, after) in try await zip(former, Self.times(nodes[0])) {
                let change = before.isScheduled ? jump : 0
                #expect(after.due == before.due - change)
                #expect(after.expires == before.expires - change)
            }
            let apart = try await nodes[0].count(
                """
                SELECT count(*) FROM chapar.waiting w JOIN chapar.notifications n ON n.id = w.notification
                WHERE w.expires <> n.expires OR w.due <> n.scheduled
                """
            )
            #expect(apart == 0)
        }
    }

    private struct Times: Equatable {
        var due: Int64
        var expires: Int64
        var isScheduled: Bool
    }

    /// The times of all that waits, in order.
    private static func times(_ node: PostgresStore) async throws -> [Times] {
        try await node.session(on: node.core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT w.due, w.expires, n.scheduled IS NOT NULL FROM chapar.waiting w
                JOIN chapar.notifications n ON n.id = w.notification ORDER BY w.id
                """
            )
            return (0..<rows.count).map {
                Times(due: rows.integer($0, 0) ?? 0, expires: rows.integer($0, 1) ?? 0, isScheduled: rows.bool($0, 2))
            }
        }
    }
}
