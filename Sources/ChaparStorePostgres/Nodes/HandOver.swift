/// Moves the claims under a node's former numbers to its present one, in ranges of the table's pages.
///
/// A node that was declared dead still sends the claims that others had not freed when it took a new place. Under a
/// number that is gone others would free them in their second sweep (``OrphanedClaims``), and they would be sent twice.
/// Each range is a transaction of its own, and may be repeated: ``Keeper`` goes on with it after a failure.
struct HandOver {
    /// The number that the claims move to.
    private var number: Int64?
    /// The page at which the next range begins; nil when there is nothing to be done.
    private var page: Int64?

    /// Moves claims until nothing is left, or the span is over.
    ///
    /// - Returns: Whether something is left.
    mutating func run(within span: Duration, _ core: StoreCore) async throws(PostgresError) -> Bool {
        let (options, numbers) = (core.options, core.ownNumbers)
        guard let last = numbers.last, numbers.count > 1 else { return false }
        if number != last { (number, page) = (last, 0) }
        let (begin, former) = (ContinuousClock.now, Array(numbers.dropLast()))
        while let start = page {
            page = try await core.keeper.transaction { (db) throws(PostgresError) -> Int64? in
                try ClaimedPages.give(at: start, options, of: former, to: last, db)
            }
            if begin.duration(to: .now) >= span { break }
        }
        return page != nil
    }
}
