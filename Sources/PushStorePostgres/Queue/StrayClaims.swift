internal import Logging
internal import PushCore

/// Frees what is claimed in the name of a node that there is not any more.
///
/// Whoever takes a dead node's place frees what it had, and then its number is gone. But a statement of the dead node may be committed
/// after that: one that waited for a standby, or that it sent before it noticed that it was taken for dead. Nobody
/// would look for such claims again. So all that is claimed is looked at now and then, in portions.
struct StrayClaims {
    private static let rowsAtOnce = 20_000

    /// A look around begins no sooner after the one before.
    static let interval = Duration.seconds(60)

    /// Behind which delivery the next portion begins.
    private var position = Int64.min
    private var began = ContinuousClock.now
    /// What the last look around found, with its leases: it is freed when it is found twice.
    private var suspects: [Int64: Int64] = [:]
    private var found: [Int64: Int64] = [:]

    /// Looks at the next portion, when it is time.
    mutating func look(_ core: StoreCore, every interval: Duration = Self.interval) async throws(PostgresError) {
        if position == .min {
            guard began.duration(to: .now) >= interval else { return }
            began = .now
        }
        let (start, known) = (position, suspects)
        let (stray, last, freed) = try await core.keeper.session { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                WITH looked AS MATERIALIZED (
                    SELECT id, lease, owner FROM chapar.waiting WHERE id > $1 ORDER BY id LIMIT \(Self.rowsAtOnce)
                )
                SELECT max(id), NULL::bigint FROM looked
                UNION ALL SELECT id, lease FROM looked WHERE owner > 0 AND owner NOT IN (SELECT number FROM chapar.nodes)
                """,
                [.integer(start)]
            )
            var (stray, last): ([Int64: Int64], Int64?) = ([:], nil)
            for row in 0..<rows.count {
                if let lease = rows.integer(row, 1) {
                    stray[rows.integer(row, 0) ?? 0] = lease
                } else {
                    last = rows.integer(row, 0)
                }
            }
            let certain = stray.filter { known[$0.key] == $0.value }
            guard !certain.isEmpty else { return (stray, last, 0) }
            let freed = try db.run(
                """
                UPDATE chapar.waiting w SET owner = NULL, flags = flags | $3 FROM unnest($1::bigint[], $2::bigint[]) AS a(id, lease)
                WHERE w.id = a.id AND w.lease = a.lease AND w.owner > 0 AND w.owner NOT IN (SELECT number FROM chapar.nodes)
                """,
                [
                    .integers(certain.map(\.key)), .integers(certain.map(\.value)),
                    .integer(DeliveryRow.Flags.recovered.rawValue),
                ]
            ).changed
            return (stray, last, freed)
        }
        found.merge(stray) { $1 }
        position = last ?? .min
        if last == nil { (suspects, found) = (found, [:]) }
        guard freed > 0 else { return }
        core.logger.notice("freed claims of a node that is gone", metadata: ["deliveries": "\(freed)"])
        core.stirAll()
    }
}
