import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStorePostgres

/// Old deliveries that have ended go with the partition of their day.
@Suite("Retention in PostgreSQL", .serialized, .timeLimit(.minutes(1)))
struct RetentionTests {
    private static let day = Duration.seconds(86_400)

    /// Removes everything that is older than a day.
    private func purge(_ node: PostgresStore, _ time: ManualTime) async throws -> Bool {
        try await node.purge(Retention(notifications: time.steady - 86_400, events: time.steady - 86_400))
    }

    private func tables(_ node: PostgresStore, of day: Int64) async throws -> [String] {
        try await node.session(on: node.core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace(rtrim('chapar.', '.')) AND relkind = 'r'
                AND relname ~ $1 ORDER BY 1
                """,
                [.text("_d\(day)$")]
            )
            return (0..<rows.count).compactMap { rows.text($0, 0) }
        }
    }

    private func perform(_ node: PostgresStore, _ statements: String) async throws {
        try await node.session(on: node.core.reader) { (db) throws(PostgresError) in try db.perform(statements) }
    }

    /// Fills a day with what is over, and lets two days pass.
    private func fill(_ node: PostgresStore, _ time: ManualTime) async throws -> (id: NotificationID, day: Int64) {
        let id = try await node.accept(to: [.user("a"), .user("b")])
        try await node.end(try await node.claim(backend: "apns", limit: 9, wait: .zero))
        let day = Partitions.day(node.core.now)
        #expect(try await tables(node, of: day).count == 6)
        time.advance(by: Self.day * 3)
        // The newest event is never removed.
        try await node.accept(to: [.user("later")])
        return (id, day)
    }

    @Test("A table that a node detached before it died is dropped by the next node that removes")
    func crashBeforeDrop() async throws {
        let time = ManualTime()
        try await Nodes.use(2, time: time) { nodes in
            let (id, day) = try await fill(nodes[0], time)
            // As far as a node may have come.
            for table in ["awaited", "results"] {
                try await perform(nodes[0], "ALTER TABLE chapar.\(table) DETACH PARTITION chapar.\(table)_d\(day)")
            }
            // What is not a partition's, or not old, stays: an operator may have put it there.
            let today = Partitions.day(nodes[0].core.now)
            try await perform(
                nodes[0],
                """
                ALTER TABLE chapar.results DETACH PARTITION chapar.results_d\(today);
                CREATE TABLE chapar.results_draft (id bigint); CREATE TABLE chapar.events_d (id bigint)
                """
            )
            while try await purge(nodes[1], time) {}
            #expect(try await tables(nodes[0], of: day) == [])
            #expect(try await nodes[0].notification(id) == nil)
            #expect(try await tables(nodes[0], of: today).count == 6)
            #expect(try await nodes[0].count("SELECT count(*) FROM chapar.results_draft") == 0)
            #expect(try await nodes[0].count("SELECT count(*) FROM chapar.events_d") == 0)
            // A day that is needed again gets its table back with what is in it.
            try await nodes[0].core.partitions.make([today], on: nodes[0].core.keeper)
            let attached = try await nodes[0].session(on: nodes[0].core.reader) { (db) throws(PostgresError) in
                try Partitions.days(of: .results, db)
            }
            #expect(attached.contains(today))
        }
    }

    @Test("A day that another node has dropped meanwhile is none to take out")
    func droppedMeanwhile() async throws {
        try await Nodes.use { nodes in
            let isKept = try await nodes[0].session(on: nodes[0].core.keeper) { (db) throws(PostgresError) in
                try Removal.hasNewest(of: 0, in: 1, db)
            }
            #expect(isKept)
        }
    }

    @Test("Of nodes that remove at the same time each partition is dropped by one, and none fails")
    func together() async throws {
        let time = ManualTime()
        try await Nodes.use(3, time: time) { nodes in
            for _ in 0..<4 {
                let (_, day) = try await fill(nodes[0], time)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for node in nodes { group.addTask { while try await purge(node, time) {} } }
                    try await group.waitForAll()
                }
                while try await purge(nodes[0], time) {}
                #expect(try await tables(nodes[0], of: day) == [])
                try await nodes[0].end(try await nodes[0].claim(backend: "apns", limit: 9, wait: .zero))
            }
        }
    }

    /// A change of a delivery, days after its notification was accepted.
    enum LateChange: CaseIterable {
        case end, slowEnd, retryThenEnd, cancellation, receipt
    }

    @Test(
        "A day is kept until what ended in it later, or got a receipt later, is old as well",
        arguments: LateChange.allCases
    )
    func lateEnds(_ change: LateChange) async throws {
        let time = ManualTime()
        try await Nodes.use(2, time: time) { nodes in
            let life = Self.day.inSeconds * 30
            let id = try await nodes[0].accept(
                to: [.user("a")],
                collapseID: change == .slowEnd ? "order" : nil,
                life: life
            )
            let day = Partitions.day(nodes[0].core.now)
            if change == .receipt {
                try await nodes[0].end(try await nodes[0].claim(backend: "apns", limit: 9, wait: .zero))
            }
            time.advance(by: Self.day * 3)
            // Twice within a day: the second meets the bound that the first has noted.
            for round in 0..<2 {
                switch change {
                case .end, .slowEnd:
                    try await nodes[0].end(try await nodes[0].claim(backend: "apns", limit: 9, wait: .zero))
                case .retryThenEnd:
                    let claims = try await nodes[0].claim(backend: "apns", limit: 9, wait: .zero)
                    #expect(claims.count == 1, "round \(round)")
                    if round == 1 {
                        try await nodes[0].end(claims)
                    } else {
                        try await nodes[0].record(claims.map { Resolution(of: $0, .retry(at: time.steady, step: 0)) }) {
                            _,
                            _,
                            _ in []
                        }
                    }
                case .cancellation:
                    _ = try await nodes[round].cancel(id) { _, _ in [1] }
                case .receipt:
                    let receipt = ReceiptEntry(
                        ReceiptAddress(delivery: id.rawValue),
                        state: round == 0 ? .delivered : .opened,
                        logEntry: Array("{\(round)}".utf8)
                    ) { _ in [2] }
                    _ = try await nodes[round].record([receipt])
                }
            }
            // The newest event is never removed.
            try await nodes[0].accept(to: [.user("later")], life: life)
            // Nothing but the bound keeps it: the day itself was over two days ago.
            for _ in 0..<2 {
                while try await purge(nodes[1], time) {}
                #expect(try await nodes[0].notification(id)?.counts.values.reduce(0, +) == 1)
                #expect(Set(try await tables(nodes[0], of: day)).isSuperset(of: Self.names(of: day)))
                time.advance(by: Self.day / 2)
            }
            time.advance(by: Self.day * 2)
            while try await purge(nodes[1], time) {}
            #expect(try await nodes[0].notification(id) == nil)
            #expect(try await tables(nodes[0], of: day) == [])
            let bounds = "SELECT count(*) FROM chapar.marks WHERE starts_with(name, 'ended_d')"
            #expect(try await nodes[0].count(bounds) == 0, "no bound is left")
        }
    }

    private static func names(of day: Int64) -> [String] {
        ["awaited", "handled", "notifications", "results", "search_keys"].map { "\($0)_d\(day)" }
    }

    @Test(
        "A reader of a day's rows delays its removal, but no accept and no claim",
        arguments: ["awaited", "results", "notifications", "events"]
    )
    func reader(_ table: String) async throws {
        let time = ManualTime()
        try await Nodes.use(2, time: time) { nodes in
            let (id, day) = try await fill(nodes[0], time)
            let reader = PostgresConnection(nodes[0].options, name: "reader")
            let (isOpen, mayEnd) = (AsyncSignal(), DispatchSemaphore(value: 0))
            let reading = Task {
                try await reader.transaction { (db) throws(PostgresError) in
                    _ = try db.run("SELECT count(*) FROM chapar.\(table)_d\(day)").count
                    isOpen.signal()
                    mayEnd.wait()
                }
            }
            await isOpen.wait(after: .start, atMost: .seconds(10), SystemTime())
            let tally = Tally()
            let longest = try await withThrowingTaskGroup(of: Duration.self) { group in
                for node in nodes {
                    group.addTask {
                        while !tally.isDone.load(ordering: .acquiring) {
                            _ = try await purge(node, time)
                            tally.purges.withLock { $0 += 1 }
                        }
                        return .zero
                    }
                    group.addTask {
                        defer { tally.isDone.store(true, ordering: .releasing) }
                        var longest = Duration.zero
                        let begin = ContinuousClock.now
                        while begin.duration(to: .now) < .seconds(3) {
                            let one = ContinuousClock.now
                            try await node.accept(to: [.user("c")])
                            let claims = try await node.claim(backend: "apns", limit: 1, wait: .zero)
                            try await node.end(claims)
                            longest = max(longest, one.duration(to: .now))
                        }
                        return longest
                    }
                }
                return try await group.reduce(.zero) { max($0, $1) }
            }
            // Three transactions; each may meet an attempt, and the machine has other things to do.
            #expect(longest < .seconds(1), "three transactions took \(longest)")
            #expect(tally.purges.withLock { $0 } > 4, "removal was tried again and again")
            #expect(try await tables(nodes[0], of: day).contains("\(table)_d\(day)"))
            // Once it has been read for a while no statement is delayed at all.
            var shortest = Duration.seconds(99)
            for _ in 0..<10 {
                let begin = ContinuousClock.now
                _ = try await purge(nodes[0], time)
                shortest = min(shortest, begin.duration(to: .now))
            }
            #expect(shortest < .milliseconds(100), "each attempt took at least \(shortest)")
            mayEnd.signal()
            try await reading.value
            await reader.close()
            while try await purge(nodes[1], time) {}
            #expect(try await tables(nodes[0], of: day) == [])
            #expect(try await nodes[0].notification(id) == nil)
        }
    }
}

private final class Tally: Sendable {
    let purges = Mutex(0)
    let isDone = Atomic(false)
}
