internal import Logging
internal import ChaparCore

/// Frees claims under the numbers of nodes that no longer exist.
///
/// The node that takes over a dead node's place frees its claims, and then the number is gone. But a statement of the
/// dead node may be committed after that: one that waited for a standby, or one sent before the node noticed that it
/// was declared dead. And a row that was changed while claims were freed may have moved to pages that had been read
/// already. Nothing else would find such claims. So sweeps read all claims from time to time, in ranges of pages.
struct OrphanedClaims {
    /// The shortest time between the beginnings of two sweeps.
    static let interval = Duration.seconds(60)

    /// The page at which the next range begins; nil between two sweeps.
    private var page: Int64?
    private var began = ContinuousClock.now
    /// The claims that the last sweep found, as leases by delivery: those that are found twice are freed.
    private var suspects: [Int64: Int64] = [:]
    private var found: [Int64: Int64] = [:]

    /// Reads the next range of pages of a sweep, when it is time, and frees claims that were found before.
    mutating func sweep(_ core: StoreCore, every interval: Duration = Self.interval) async throws(PostgresError) {
        if page == nil {
            guard began.duration(to: .now) >= interval else { return }
            began = .now
        }
        let (start, pages, suspects) = (page ?? 0, core.options.pagesPerScan, suspects)
        let (claimed, freed) = try await core.keeper.transaction { (db) throws(PostgresError) in
            let claimed = try ClaimedPages(at: start, pages: pages, of: .gone, db)
            let certain = claimed.leases.filter { suspects[$0.key] == $0.value }
            return (claimed, try claimed.free(certain, noting: .recovered, db))
        }
        found.merge(claimed.leases) { $1 }
        page = claimed.next
        if page == nil { (self.suspects, found) = (found, [:]) }
        guard freed > 0 else { return }
        core.logger.notice("freed claims of a node that is gone", metadata: ["deliveries": .stringConvertible(freed)])
        core.stirAll()
    }
}
