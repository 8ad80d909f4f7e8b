internal import PushCore

/// Claims of some nodes in a portion of the pages of `waiting`.
///
/// No index says whose a claim is, and the table may be long. A portion is so many pages, not so many rows: however many dead rows the
/// server must keep, a portion of them is read in a bounded time.
struct ClaimedPortion: Sendable {
    /// Whose claims are looked for.
    enum Owners: Sendable {
        /// Nodes with these numbers.
        case nodes([Int64])
        /// Those of these nodes whose leases are not in force.
        case dead([Int64])
        /// Nodes that there are not any more.
        case gone

        fileprivate var condition: String {
            switch self {
            case .nodes: "w.owner = ANY ($3)"
            case .dead:
                "w.owner = ANY ($3) AND w.owner NOT IN (SELECT number FROM chapar.nodes WHERE lease_until >= clock_timestamp())"
            case .gone: "w.owner > 0 AND w.owner NOT IN (SELECT number FROM chapar.nodes)"
            }
        }

        fileprivate var numbers: PostgresValue {
            switch self {
            case .nodes(let numbers), .dead(let numbers): .integers(numbers)
            case .gone: .integers([])
            }
        }
    }

    /// 32 MB of pages of the usual size.
    static let pages: Int64 = 4_096

    /// The leases of the claims, by delivery.
    let leases: [Int64: Int64]
    /// The page at which the next portion begins; nil behind the last page.
    let next: Int64?

    /// Reads the portion that begins at a page.
    init(
        at page: Int64,
        pages: Int64 = Self.pages,
        of owners: Owners,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let end = page + pages
        let rows = try db.run(
            Self.statement(of: owners),
            [.text("(\(page),0)"), .text("(\(end),0)"), owners.numbers]
        )
        var found: [Int64: Int64] = [:]
        for row in 0..<rows.count {
            if let id = rows.integer(row, 0), let lease = rows.integer(row, 1) { found[id] = lease }
        }
        leases = found
        let isLast = try db.run(
            "SELECT pg_relation_size('chapar.waiting') <= $1 * current_setting('block_size')::bigint",
            [.integer(end)]
        ).bool(0, 0)
        next = isLast ? nil : end
    }

    /// Reads from one place of the table up to another.
    static func statement(of owners: Owners) -> String {
        "SELECT w.id, w.lease FROM chapar.waiting w WHERE w.ctid >= $1::tid AND w.ctid < $2::tid AND \(owners.condition)"
    }

    /// Gives some of these deliveries to another node, or to nobody, where they are claimed still as they were when they were read.
    ///
    /// - Parameters:
    ///   - leases: Which, as leases by delivery.
    ///   - owners: As they were read.
    ///   - node: The number of their new owner; nil where anybody may claim them.
    ///   - flags: What is to be noted at them.
    ///   - db: Within a transaction or not.
    /// - Returns: How many were given.
    static func give(
        _ leases: [Int64: Int64],
        of owners: Owners,
        to node: Int64? = nil,
        noting flags: DeliveryRow.Flags = [],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        guard !leases.isEmpty else { return 0 }
        // A row that somebody else changes at this moment is passed over.
        return try db.run(
            """
            UPDATE chapar.waiting t SET owner = $4, flags = flags | $5 FROM (
                SELECT w.id FROM chapar.waiting w JOIN unnest($1::bigint[], $2::bigint[]) AS a(id, lease) USING (id, lease)
                WHERE \(owners.condition) FOR UPDATE OF w SKIP LOCKED
            ) AS theirs WHERE t.id = theirs.id
            """,
            [
                .integers(Array(leases.keys)), .integers(Array(leases.values)), owners.numbers, .integer(node),
                .integer(flags.rawValue),
            ]
        ).changed
    }

    /// Gives all that nodes have to another one, or to nobody, within a transaction.
    static func giveAll(
        of nodes: [Int64],
        to node: Int64? = nil,
        noting flags: DeliveryRow.Flags = [],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        var page: Int64? = 0
        while let start = page {
            let portion = try ClaimedPortion(at: start, of: .nodes(nodes), db)
            _ = try give(portion.leases, of: .nodes(nodes), to: node, noting: flags, db)
            page = portion.next
        }
    }
}
