internal import PushCore

/// Claims of some nodes in a portion of the pages of `waiting`.
///
/// No index says whose a claim is, and the table may be long. A portion is so many pages, not so many rows: however
/// many dead rows the server must keep, a portion of them is read in a bounded time.
struct ClaimedPortion: Sendable {
    /// Whose claims are looked for.
    enum Owners: Sendable {
        /// Nodes with these numbers.
        case nodes([Int64])
        /// Nodes that there are not any more.
        case gone

        /// On a row of a table `w`, with the third parameter of the statement, which the second case does not use.
        fileprivate var condition: String {
            switch self {
            case .nodes: "w.owner = ANY ($3)"
            case .gone: "w.owner > 0 AND w.owner NOT IN (SELECT number FROM chapar.nodes)"
            }
        }

        fileprivate var numbers: PostgresValue {
            switch self {
            case .nodes(let numbers): .integers(numbers)
            case .gone: .integers([])
            }
        }
    }

    /// The leases of the claims, by delivery.
    let leases: [Int64: Int64]
    /// The page at which the next portion begins; nil behind the last page.
    let next: Int64?

    private let owners: Owners
    /// The places of the table from which it was read, before the second.
    private let (from, to): (PostgresValue, PostgresValue)

    /// Reads the portion of so many pages that begins at a page; `most` of its claims, all where it is nil.
    init(
        at page: Int64,
        pages: Int64,
        of owners: Owners,
        most: Int64? = nil,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let end = page.adding(clamping: pages)
        self.owners = owners
        (from, to) = (.text("(\(page),0)"), .text("(\(end),0)"))
        let rows = try db.run(Self.statement(of: owners) + " LIMIT $4", [from, to, owners.numbers, .integer(most)])
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

    /// Lets anybody claim some of these deliveries, where they are claimed still as they were when they were read.
    ///
    /// It waits for nobody: a row that somebody else changes at this moment is passed over.
    ///
    /// - Parameters:
    ///   - leases: Which, as leases by delivery.
    ///   - flags: What is to be noted at them.
    ///   - db: Within a transaction or not.
    /// - Returns: How many were freed.
    /// - Throws: ``PostgresError``.
    func free(
        _ leases: [Int64: Int64],
        noting flags: DeliveryRow.Flags = [],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        guard !leases.isEmpty else { return 0 }
        return try db.run(
            """
            UPDATE chapar.waiting t SET owner = NULL, flags = flags | $4 FROM (
                SELECT w.id FROM chapar.waiting w JOIN unnest($5::bigint[], $6::bigint[]) AS a(id, lease)
                    ON w.id BETWEEN a.id AND a.id AND w.lease = a.lease
                WHERE w.ctid >= $1::tid AND w.ctid < $2::tid AND \(owners.condition) FOR UPDATE OF w SKIP LOCKED
            ) AS theirs WHERE t.id BETWEEN theirs.id AND theirs.id
            """,
            [
                from, to, owners.numbers, .integer(flags.rawValue), .integers(Array(leases.keys)),
                .integers(Array(leases.values)),
            ]
        ).changed
    }

    /// Gives some claims of nodes in a portion to another node, or to none, within a transaction.
    ///
    /// It waits for those who change such a row at this moment. A row that they moved to a page that was read before is
    /// left: ``StrayClaims`` frees it.
    ///
    /// - Parameters:
    ///   - page: The page at which the portion begins.
    ///   - options: How many pages a portion has, and how many claims a transaction gives.
    ///   - nodes: Whose claims are given.
    ///   - node: Another node; nil for none.
    ///   - flags: What is to be noted at them.
    ///   - db: Within a transaction.
    /// - Returns: The page for the next call: the same one while there may be more in its portion, nil behind the last
    ///   page.
    /// - Throws: ``PostgresError``.
    static func give(
        at page: Int64,
        _ options: PostgresOptions,
        of nodes: [Int64],
        to node: Int64? = nil,
        noting flags: DeliveryRow.Flags = [],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Int64? {
        let most = options.claimsOfPortion
        let portion = try ClaimedPortion(at: page, pages: options.pagesOfPortion, of: .nodes(nodes), most: most, db)
        guard !portion.leases.isEmpty else { return portion.next }
        try db.run(
            """
            UPDATE chapar.waiting w SET owner = $4, flags = flags | $5 FROM unnest($1::bigint[], $2::bigint[]) AS a(id, lease)
            WHERE w.id BETWEEN a.id AND a.id AND w.lease = a.lease AND w.owner = ANY ($3)
            """,
            [
                .integers(Array(portion.leases.keys)), .integers(Array(portion.leases.values)), .integers(nodes),
                .integer(node), .integer(flags.rawValue),
            ]
        )
        // What was given is not found again.
        return portion.leases.count < most ? portion.next : page
    }
}
