internal import Logging
internal import PushCore

/// Frees what is claimed in the name of a node that there is not any more.
///
/// Whoever takes a dead node's place frees what it had, and then its number is gone. But a statement of the dead node
/// may be committed after that: one that waited for a standby, or that it sent before it noticed that it was taken for
/// dead. And a row that was changed while its node's claims were freed may have moved to where they were freed already.
/// Nobody would look for such claims again. So all that is claimed is looked at now and then, in portions.
struct StrayClaims {
    /// A look around begins no sooner after the one before.
    static let interval = Duration.seconds(60)

    /// The page at which the next portion begins; nil between two looks.
    private var page: Int64?
    private var began = ContinuousClock.now
    /// What the last look around found, as leases by delivery: it is freed when it is found twice.
    private var suspects: [Int64: Int64] = [:]
    private var found: [Int64: Int64] = [:]

    /// Looks at the next portion, when it is time.
    mutating func look(_ core: StoreCore, every interval: Duration = Self.interval) async throws(PostgresError) {
        if page == nil {
            guard began.duration(to: .now) >= interval else { return }
            began = .now
        }
        let (start, pages, suspects) = (page ?? 0, core.options.pagesOfPortion, suspects)
        let (portion, freed) = try await core.keeper.transaction { (db) throws(PostgresError) in
            let portion = try ClaimedPortion(at: start, pages: pages, of: .gone, db)
            let certain = portion.leases.filter { suspects[$0.key] == $0.value }
            return (portion, try portion.free(certain, noting: .recovered, db))
        }
        found.merge(portion.leases) { $1 }
        page = portion.next
        if page == nil { (self.suspects, found) = (found, [:]) }
        guard freed > 0 else { return }
        core.logger.notice("freed claims of a node that is gone", metadata: ["deliveries": "\(freed)"])
        core.stirAll()
    }
}
