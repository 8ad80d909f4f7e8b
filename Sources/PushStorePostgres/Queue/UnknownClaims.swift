internal import Logging
internal import PushCore
internal import Synchronization

/// Frees what is claimed in this node's name and was never given to anybody, since the answer to its claim was lost.
///
/// It reads all that waits, in portions and on the reader's connection: nothing that accepts, claims or records waits for it.
final class UnknownClaims: Sendable {
    private static let rowsAtOnce = 20_000
    /// So long after an answer was lost its commit may still come: that of a connection that was given up while it waited for a standby.
    private static let longestDoubt = Duration.seconds(3_600)
    /// So long the database is left alone after a look that failed.
    private static let pause = Duration.seconds(1)

    private struct State {
        var isWanted = false
        /// When an answer was lost last.
        var last: ContinuousClock.Instant?
    }

    private let state = Mutex(State())
    private let signal = AsyncSignal()

    /// Notes that a claim may have been committed whose answer was lost.
    func note() {
        state.withLock { $0 = State(isWanted: true, last: .now) }
        signal.signal()
    }

    /// Looks again for some time after an answer was lost.
    func lookAgain() {
        state.withLock { state in
            if let last = state.last, last.duration(to: .now) < Self.longestDoubt { state.isWanted = true }
        }
        signal.signal()
    }

    /// Works until the task is cancelled.
    func run(_ core: StoreCore) async {
        while !Task.isCancelled {
            let mark = signal.mark
            let isWanted = state.withLock { state in
                defer { state.isWanted = false }
                return state.isWanted
            }
            guard isWanted else {
                await signal.wait(after: mark, atMost: .seconds(3_600), SystemTime())
                continue
            }
            do throws(PostgresError) {
                try await release(core)
            } catch {
                state.withLock { $0.isWanted = true }
                core.noteFailure(error)
                // It ends early when the task is cancelled, and the loop with it.
                try? await Task.sleep(for: Self.pause)
            }
        }
    }

    private func release(_ core: StoreCore) async throws(PostgresError) {
        let numbers = core.ownNumbers
        var freed = 0
        var position: Int64? = .min
        while let start = position {
            let (claims, last) = try await Self.claims(of: numbers, after: start, core)
            // A claim notes what it got before its connection does anything else, so what was read is noted behind this call. What has
            // ended meanwhile is not noted any more, nor is it found by the statement below.
            await core.claimer.pass()
            let unknown = core.inHand.lacking(claims)
            if !unknown.isEmpty {
                freed += try await core.reader.transaction { (db) throws(PostgresError) in
                    try db.run(
                        """
                        UPDATE chapar.waiting w SET owner = NULL FROM unnest($1::bigint[], $2::bigint[]) AS a(id, lease)
                        WHERE w.id = a.id AND w.lease = a.lease AND w.owner = ANY ($3)
                        """,
                        [.integers(unknown.map(\.0)), .integers(unknown.map(\.1)), .integers(numbers)]
                    ).changed
                }
            }
            position = last
        }
        guard freed > 0 else { return }
        core.stirAll()
        core.logger.notice("freed claims whose answers were lost", metadata: ["deliveries": "\(freed)"])
    }

    /// Deliveries and leases of nodes, in the next portion of what waits, and its last delivery; nil at the end.
    private static func claims(
        of nodes: [Int64],
        after start: Int64,
        _ core: StoreCore
    ) async throws(PostgresError) -> (found: [(Int64, Int64)], last: Int64?) {
        try await core.reader.session { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                WITH looked AS MATERIALIZED (
                    SELECT id, lease, owner FROM chapar.waiting WHERE id > $1 ORDER BY id LIMIT \(rowsAtOnce)
                )
                SELECT max(id), NULL::bigint FROM looked
                UNION ALL SELECT id, lease FROM looked WHERE owner = ANY ($2)
                """,
                [.integer(start), .integers(nodes)]
            )
            var found: [(Int64, Int64)] = []
            var last: Int64?
            for row in 0..<rows.count {
                guard let lease = rows.integer(row, 1) else {
                    last = rows.integer(row, 0)
                    continue
                }
                found.append((rows.integer(row, 0) ?? 0, lease))
            }
            return (found, last)
        }
    }
}
