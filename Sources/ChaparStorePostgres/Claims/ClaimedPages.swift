internal import ChaparCore

/// The claims of some nodes in a range of the pages of `waiting`.
///
/// No index has the owners of claims, and the table may be long. A range is a number of pages, not of rows: however
/// many dead rows the server must keep, a range is read in bounded time.
struct ClaimedPages: Sendable {
    /// The nodes whose claims are read.
    enum Owners: Sendable {
        /// Nodes with these numbers.
        case nodes([Int64])
        /// Nodes that no longer exist.
        case gone

        /// The condition on a row of a table `w`; the second case does not use the statement's third parameter.
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
    /// The page at which the next range begins; nil after the last page.
    let next: Int64?

    private let owners: Owners
    /// The row positions (`ctid`) between which it was read: from the first up to the second, which is not included.
    private let (from, to): (PostgresValue, PostgresValue)

    /// Reads at most `most` claims, or all when it is nil, in the `pages` pages that begin at `page`.
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

    /// Returns the statement that reads from one place of the table up to another.
    static func statement(of owners: Owners) -> String {
        "SELECT w.id, w.lease FROM chapar.waiting w WHERE w.ctid >= $1::tid AND w.ctid < $2::tid AND \(owners.condition)"
    }

    /// Makes some of these deliveries claimable, where their claims are still as they were read.
    ///
    /// It never waits for a lock: a row that another transaction is changing is skipped.
    ///
    /// - Parameters:
    ///   - leases: The claims, as leases by delivery.
    ///   - flags: The flags to set on them.
    ///   - db: The connection, within a transaction or not.
    /// - Returns: The number of freed claims.
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

    /// Transfers some claims of nodes in a range to another node, or to none, within a transaction.
    ///
    /// It waits for locks on these rows. A row that another transaction moved to a page that was read before is left:
    /// ``OrphanedClaims`` frees it.
    ///
    /// - Parameters:
    ///   - page: The page at which the range begins.
    ///   - options: The pages of a range, and the claims that a transaction transfers.
    ///   - nodes: The nodes whose claims are transferred.
    ///   - node: The new owner; nil for none.
    ///   - flags: The flags to set on them.
    ///   - db: The connection, within a transaction.
    /// - Returns: The page for the next call: the same one while there may be more in its range, nil behind the last
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
        let most = options.claimsPerTransaction
        let claimed = try ClaimedPages(at: page, pages: options.pagesPerScan, of: .nodes(nodes), most: most, db)
        guard !claimed.leases.isEmpty else { return claimed.next }
        try db.run(
            """
            UPDATE chapar.waiting w SET owner = $4, flags = flags | $5 FROM unnest($1::bigint[], $2::bigint[]) AS a(id, lease)
            WHERE w.id BETWEEN a.id AND a.id AND w.lease = a.lease AND w.owner = ANY ($3)
            """,
            [
                .integers(Array(claimed.leases.keys)), .integers(Array(claimed.leases.values)), .integers(nodes),
                .integer(node), .integer(flags.rawValue),
            ]
        )
        // Transferred claims are not found again.
        return claimed.leases.count < most ? claimed.next : page
    }
}
