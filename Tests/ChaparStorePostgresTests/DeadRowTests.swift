import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// Rows that the server may not remove, since a session holds a snapshot, must not be read again and again.
@Suite("PostgreSQL rows that are dead and not removed", .serialized, .timeLimit(.minutes(2)))
struct DeadRowTests {
    private static let dead = 10_000

    /// A store of one node on a server of its own, where nothing is removed while a snapshot is held.
    private func withSnapshot(_ body: (PostgresStore, ManualTime) async throws -> Void) async throws {
        let server = TestServer(["autovacuum=off"])
        let options = try await server.options()
        let time = ManualTime()
        try await Nodes.use(1, time: time, options: options) { nodes in
            let holder = PostgresConnection(options, name: "holder")
            try await holder.session { (db) throws(PostgresError) in
                try db.perform("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
            }
            try await body(nodes[0], time)
            await holder.close()
        }
        try await server.end()
    }

    /// How many entries of indexes all sessions of a store have looked at.
    private func entries(_ indexes: String, _ store: PostgresStore) async throws -> Int {
        for connection in [store.core.claimer, store.core.reader, store.core.keeper] {
            try await store.session(on: connection) { (db) throws(PostgresError) in
                try db.run("SELECT pg_stat_force_next_flush()")
            }
        }
        return try await store.count(
            "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE indexrelname LIKE '\(indexes)'"
        )
    }

    @Test("A claim does not pass over what was claimed before")
    func claims() async throws {
        try await withSnapshot { store, time in
            for _ in 0..<Self.dead / 1_000 { try await store.accept(to: (0..<1_000).map { .user("\($0)") }) }
            var ended = 0
            while ended < Self.dead {
                let claims = try await store.claim(backend: "apns", limit: 1_000, wait: .zero)
                try await store.end(claims)
                ended += claims.count
            }
            time.advance(by: .seconds(10))
            #expect(try await store.claim(backend: "apns", limit: 1, wait: .zero).isEmpty)
            let before = try await entries("waiting_due", store)
            for number in 0..<60 {
                try await store.accept(to: [.user("new \(number)")])
                let claims = try await store.claim(backend: "apns", limit: 9, wait: .zero)
                #expect(claims.map(\.recipient) == [.user("new \(number)")])
                try await store.end(claims)
            }
            // Each passes over few, but for those once a second that look for what was given back.
            #expect(try await entries("waiting_due", store) - before < 20 * Self.dead)
        }
    }

    @Test("Numbering does not pass over what has its number")
    func numbering() async throws {
        try await withSnapshot { store, _ in
            let mark = NumberingMark(turn: .zero, interval: .seconds(3_600))
            let now = store.core.now
            try await store.session(on: store.core.writer) { (db) throws(PostgresError) in
                try db.perform(
                    """
                    INSERT INTO chapar.events (at, count, texts)
                    SELECT \(now), 1, ARRAY['x'::bytea] FROM generate_series(1, \(Self.dead))
                    """
                )
            }
            #expect(try await EventLog.number(on: store.core.reader, mark) == Int64(Self.dead))
            let before = try await entries("events%batch_idx", store)
            for number in 1...20 {
                try await store.publish([[1]])
                #expect(try await EventLog.number(on: store.core.reader, mark) == Int64(Self.dead + number))
            }
            // The first looks are before two turns have passed.
            #expect(try await entries("events%batch_idx", store) - before < 4 * Self.dead)
        }
    }

    @Test("A commit that is later than the mark gets its number by the next look from the beginning")
    func lateCommit() async throws {
        try await Nodes.use { nodes in
            let store = nodes[0]
            let mark = NumberingMark(turn: .zero, interval: .milliseconds(300))
            let batch = try await store.number("SELECT nextval('chapar.event_batches')")
            try await store.publish([[1]])
            for _ in 0..<3 { #expect(try await EventLog.number(on: store.core.reader, mark) == 1) }
            let now = store.core.now
            try await store.session(on: store.core.writer) { (db) throws(PostgresError) in
                try db.run(
                    "INSERT INTO chapar.events (batch, at, count, texts) VALUES ($1, $2, 1, ARRAY['x'::bytea])",
                    [.integer(batch), .integer(now)]
                )
            }
            let begin = ContinuousClock.now
            while try await EventLog.number(on: store.core.reader, mark) < 2 {
                try #require(begin.duration(to: .now) < .seconds(10))
            }
        }
    }

    @Test("A delivery given back long after it was due is claimed again at once, by other nodes soon")
    func givenBack() async throws {
        let time = ManualTime()
        try await Nodes.use(2, time: time) { nodes in
            try await nodes[0].accept(to: ["a", "b", "c"].map { .user($0) })
            let claims = try await nodes[0].claim(backend: "apns", limit: 3, wait: .zero)
            time.advance(by: .seconds(60))
            for node in nodes { #expect(try await node.claim(backend: "apns", limit: 9, wait: .zero).isEmpty) }
            func giveBack(_ place: Int) async throws {
                try await nodes[0].record([Resolution(of: claims[place], .release)])
            }
            try await giveBack(0)
            #expect(
                try await nodes[0].claim(backend: "apns", limit: 9, wait: .zero).map(\.recipient)
                    == [claims[0].recipient]
            )
            try await giveBack(1)
            #expect(try await claim(nodes[1]) == [claims[1].recipient])
            // This one is reported to no caller.
            _ = try await nodes[0].count(
                "UPDATE chapar.waiting SET owner = NULL WHERE id = \(claims[2].id) RETURNING 1"
            )
            #expect(try await claim(nodes[1]) == [claims[2].recipient])
        }
    }

    /// Claims until there is something.
    private func claim(_ node: PostgresStore) async throws -> [Recipient] {
        var claims: [ClaimedDelivery] = []
        try await eventually("there is something to claim", within: .seconds(20), every: .milliseconds(20)) {
            claims = try await node.claim(backend: "apns", limit: 9, wait: .zero)
            return !claims.isEmpty
        }
        return claims.map(\.recipient)
    }

    @Test("A look that takes too long is given up, and what it would have found is found from the newest back")
    func givenUp() async throws {
        let time = ManualTime()
        try await Nodes.use(1, time: time) { nodes in
            let node = nodes[0]
            try await node.session(on: node.core.writer) { (db) throws(PostgresError) in
                try db.perform(
                    """
                    CREATE SEQUENCE chapar.slow;
                    CREATE FUNCTION chapar.be_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                        IF nextval('chapar.slow') < 3 THEN PERFORM pg_sleep(3); END IF;
                        RETURN NEW;
                    END $$;
                    CREATE TRIGGER slow BEFORE UPDATE ON chapar.waiting FOR EACH ROW EXECUTE FUNCTION chapar.be_slow();
                    """
                )
            }
            try await node.accept(to: [.user("a")])
            time.advance(by: .seconds(5 * 3_600))
            let begin = ContinuousClock.now
            #expect(try await node.claim(backend: "apns", limit: 9, wait: .zero).isEmpty)
            #expect(begin.duration(to: .now) < .seconds(2.5))
            // The second time the scan back takes too long; it goes on in ranges of an hour.
            #expect(try await claim(node) == [.user("a")])
            #expect(try await node.count("SELECT last_value FROM chapar.slow") == 3)
        }
    }
}

@Suite("Incremental scans")
struct PortionedLookTests {
    private static let hour: Int64 = 3_600_000
    private static let now = ContinuousClock.now + .seconds(86_400)

    @Test("One that costs little takes all, each time it is asked for or wanted")
    func cheap() throws {
        var scan = IncrementalScan(every: .seconds(1))
        func look(_ newest: Int64, _ at: ContinuousClock.Instant) -> ClosedRange<Int64>? {
            scan.range(newest: newest, at)
        }
        #expect(look(5 * Self.hour, .now) == -1...5 * Self.hour)
        scan.end(took: .milliseconds(1), isFilled: false)
        #expect(look(5 * Self.hour, .now) == nil)
        scan.isWanted = true
        #expect(look(5 * Self.hour, .now) == -1...5 * Self.hour)
        scan.end(took: .milliseconds(1), isFilled: false)
        #expect(look(6 * Self.hour, .now + .seconds(2)) == -1...6 * Self.hour)
    }

    @Test("One that costs much is followed by a pause of nineteen times as long")
    func pause() throws {
        var scan = IncrementalScan(every: .zero)
        func look(_ newest: Int64, _ at: ContinuousClock.Instant) -> ClosedRange<Int64>? {
            scan.range(newest: newest, at)
        }
        _ = look(Self.hour, .now)
        scan.end(took: .milliseconds(100), isFilled: false)
        scan.isWanted = true
        #expect(look(Self.hour, .now + .milliseconds(1_800)) == nil)
        #expect(look(Self.hour, .now + .milliseconds(2_000)) != nil)
    }

    @Test("A scan that takes too long goes back in ranges to the beginning, and begins again when work is wanted")
    func ranges() throws {
        var scan = IncrementalScan(every: .zero)
        func look(_ newest: Int64, _ at: ContinuousClock.Instant) -> ClosedRange<Int64>? {
            scan.range(newest: newest, at)
        }
        let newest = 10 * Self.hour
        #expect(look(newest, Self.now) == -1...newest)
        scan.cut(took: IncrementalScan.limit)
        #expect(look(newest, Self.now) == 9 * Self.hour...newest)
        scan.cut(took: IncrementalScan.limit)
        var end = newest
        for _ in 0..<4 {
            let range = try #require(look(newest, Self.now))
            #expect(range == end - Self.hour / 4...end)
            scan.end(took: IncrementalScan.limit / 2, isFilled: false)
            end = range.lowerBound
        }
        // Where it was filled there is more.
        let again = look(newest, Self.now)
        scan.end(took: IncrementalScan.limit / 2, isFilled: true)
        #expect(look(newest, Self.now) == again)
        scan.isWanted = true
        #expect(look(newest, Self.now)?.upperBound == newest)
        scan.end(took: .milliseconds(1), isFilled: false)
        // Cheap ones grow until one takes all again.
        var (count, lowest) = (0, newest)
        while let range = look(newest, Self.now), count < 40 {
            scan.end(took: .milliseconds(1), isFilled: false)
            lowest = min(lowest, range.lowerBound)
            count += 1
        }
        #expect(lowest == -1)
        #expect(look(newest, Self.now) == -1...newest)
    }

    @Test("A server that is slow even with the least gets more time")
    func slow() {
        var scan = IncrementalScan(every: .zero)
        func look(_ newest: Int64, _ at: ContinuousClock.Instant) -> ClosedRange<Int64>? {
            scan.range(newest: newest, at)
        }
        for _ in 0..<30 {
            _ = look(Self.hour, Self.now)
            scan.cut(took: .zero)
        }
        #expect(scan.limit == IncrementalScan.limit * 40)
        scan.end(took: .milliseconds(1), isFilled: false)
        #expect(scan.limit == IncrementalScan.limit)
    }
}
