internal import Foundation
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// Counts waiting and claimed deliveries: in one snapshot, and in ranges of pages, so that no statement takes long,
/// however many there are.
///
/// It has a connection of its own, so that no other read waits for it. A count that took long is used for ten times as
/// long as it took, ten minutes at most; a caller that asks during the next count gets the one before. After a count
/// that met a server too slow for a range, no count begins for a minute, and calls fail.
struct DepthCount {
    /// The result of a count.
    fileprivate struct Found {
        /// The counts by flow.
        var depths: [Int64: QueueDepth]
        /// The value of ``CallerCounts/accepted`` when the count began.
        var accepted: [String: Int]
    }

    /// The deliveries of callers that have not ended.
    struct OfCallers {
        /// The number of deliveries that have not ended, by caller.
        var waiting: [String: Int]
        /// The value of ``CallerCounts/accepted`` when the count began: any more were accepted since.
        var accepted: [String: Int]
    }

    /// The last count, and until when it is used.
    struct Counts {
        fileprivate typealias Result = Swift.Result<Found, PostgresError>

        /// The result of the last count; nil when it did not take long.
        fileprivate var last: Result?
        fileprivate var until = ContinuousClock.now
        fileprivate var isUnderWay = false
        fileprivate var isClosed = false

        /// Whether a count is kept.
        var isKept: Bool { last != nil && .now < until }

        fileprivate func known() throws(PostgresError) -> Found? {
            if isClosed { throw .closed }
            guard let last else { return nil }
            if .now < until { return try last.get() }
            return isUnderWay ? try? last.get() : nil
        }

        fileprivate mutating func keep(_ result: Result?, for span: Duration) {
            (last, until) = (result, .now + span)
        }

        /// Makes every later count fail with ``PostgresError/closed``.
        mutating func close() { isClosed = true }

        /// Forgets the last count.
        mutating func forget() { last = nil }
    }

    /// The longest time of a count that is not kept.
    private static let quick = Duration.milliseconds(100)
    private static let longestUse = Duration.seconds(600)
    private static let pause = Duration.seconds(60)

    let core: StoreCore

    init(_ core: StoreCore) { self.core = core }

    /// Returns how much waits at each backend.
    func depths() async throws(PostgresError) -> [String: QueueDepth] { try await sums(newest(), by: \.backend) }

    /// Returns how much each caller has waiting, without what is claimed.
    func depthsOfCallers() async throws(PostgresError) -> [String: SenderDepth] {
        try await sums(newest(), by: \.caller).compactMapValues { depth in
            depth.waiting > 0 ? SenderDepth(waiting: depth.waiting, oldestDue: depth.oldestDue) : nil
        }
    }

    /// Returns how much callers have waiting.
    func ofCallers() async throws(PostgresError) -> OfCallers {
        let found = try await newest()
        let depths = try await sums(found, by: \.caller)
        return OfCallers(waiting: depths.mapValues { $0.waiting + $0.claimed }, accepted: found.accepted)
    }

    /// Counts anew the deliveries that wait at a backend or are claimed from it.
    func depth(of backend: String) async throws(PostgresError) -> QueueDepth {
        try await core.counter.transaction { (db) throws(PostgresError) -> QueueDepth in
            let counts = try count(db)
            let flows = try db.run("SELECT number FROM chapar.flows WHERE backend = $1", [.text(backend)])
            var depth = QueueDepth()
            for row in 0..<flows.count {
                if let found = counts[flows.integer(row, 0) ?? 0] { depth.add(found) }
            }
            return depth
        }
    }

    private func sums(
        _ found: Found,
        by name: KeyPath<Flow, String>
    ) async throws(PostgresError) -> [String: QueueDepth] {
        if found.depths.keys.contains(where: { core.flows.flow($0) == nil }) {
            try await core.reader.session { [core] (db) throws(PostgresError) in try core.flows.read(db) }
        }
        var depths: [String: QueueDepth] = [:]
        for (number, depth) in found.depths {
            guard let flow = core.flows.flow(number) else { continue }
            depths[flow[keyPath: name], default: QueueDepth()].add(depth)
        }
        return depths
    }

    private func newest() async throws(PostgresError) -> Found {
        if let known = try known() { return known }
        return try await core.counter.transaction { (db) throws(PostgresError) in
            // Another call may have counted while this one waited for the connection.
            if let known = try known() { return known }
            core.counts.withLock { $0.isUnderWay = true }
            defer { core.counts.withLock { $0.isUnderWay = false } }
            let start = ContinuousClock.now
            do throws(PostgresError) {
                let accepted = core.callerCounts.accepted
                let found = try Found(depths: count(db), accepted: accepted)
                let span = start.duration(to: .now)
                core.counts.withLock {
                    $0.keep(span > Self.quick ? .success(found) : nil, for: min(span * 10, Self.longestUse))
                }
                return found
            } catch {
                guard error.isTimeout else { throw error }
                let reason = "the database took too long to count what waits"
                let failure = PostgresError.declined(.full(reason: reason, retryAfter: Self.pause))
                core.counts.withLock { $0.keep(.failure(failure), for: Self.pause) }
                throw failure
            }
        }
    }

    private func known() throws(PostgresError) -> Found? {
        try core.counts.withLock { (counts) throws(PostgresError) in try counts.known() }
    }

    private func count(_ db: isolated PostgresConnection) throws(PostgresError) -> [Int64: QueueDepth] {
        try db.perform("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        let (pages, now) = (core.options.pagesPerScan, core.now)
        let size = try db.run(
            "SELECT pg_relation_size('chapar.waiting') / current_setting('block_size')::bigint"
        ).integer(0, 0)
        var counts: [Int64: QueueDepth] = [:]
        for page in stride(from: 0, through: size ?? 0, by: Int(pages)) {
            let end = page.adding(clamping: Int64(pages))
            let rows = try db.run(
                """
                SELECT flow, count(*) FILTER (WHERE owner IS NULL OR owner = 0), count(*) FILTER (WHERE owner > 0),
                    min(due) FILTER (WHERE owner IS NULL AND due <= $1)
                FROM chapar.waiting WHERE ctid >= $2::tid AND ctid < $3::tid GROUP BY flow
                """,
                [.integer(now), .text("(\(page),0)"), .text("(\(end),0)")]
            )
            for row in 0..<rows.count {
                counts[rows.integer(row, 0) ?? 0, default: QueueDepth()].add(
                    QueueDepth(
                        waiting: Int(count: rows.integer(row, 1) ?? 0),
                        claimed: Int(count: rows.integer(row, 2) ?? 0),
                        oldestDue: rows.integer(row, 3).map { Date(millisecondsSince1970: $0) }
                    )
                )
            }
        }
        return counts
    }
}

extension QueueDepth {
    fileprivate mutating func add(_ other: QueueDepth) {
        waiting += other.waiting
        claimed += other.claimed
        oldestDue = [oldestDue, other.oldestDue].compactMap { $0 }.min()
    }
}
