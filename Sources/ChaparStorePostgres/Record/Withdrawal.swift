internal import ChaparCore
internal import ChaparQueue

/// Ends waiting deliveries, and marks claimed ones, which end with their attempt: for a cancellation or an erasure.
struct Withdrawal: Sendable {
    /// The number of deliveries that waited and have ended.
    private(set) var cancelled = 0
    /// The number of deliveries that are claimed.
    private(set) var inFlight = 0
    private var change = StoreChange()
    /// The backends where others may have waited for those that have ended.
    private var backends: Set<String> = []

    /// Withdraws deliveries, whose rows are locked, within the transaction of `db`.
    init(
        of rows: [DeliveryRow],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8],
        _ core: StoreCore,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let claimed = rows.filter(\.isClaimed).map(\.id)
        if !claimed.isEmpty {
            try db.run(
                "UPDATE chapar.waiting SET flags = flags | $2 WHERE id = ANY ($1)",
                [.integers(claimed), .integer(DeliveryRow.Flags.cancelled.rawValue)]
            )
            for delivery in claimed { core.inHand.noteCancellation(of: delivery, event) }
        }
        let waiting = rows.filter { !$0.isClaimed }
        let heads = try core.heads.heads(of: Set(waiting.map(\.notification)), db)
        var events: [[UInt8]?] = []
        var ended: [EndedDelivery] = []
        for row in waiting {
            change.ended[row.withdrawnState, default: 0] += 1
            if let head = heads[row.notification] { events.append(event(row.claimed(head), row.withdrawnState)) }
            var end = EndedDelivery(row, row.withdrawnState)
            if end.state == .acceptedByPlatform, let head = heads[row.notification] {
                end.flow = row.acceptingFlow(head.head(plan: row.plan).plan, core.flows)
            }
            ended.append(end)
            if row.collapse != nil, let backend = core.flows.flow(row.flow)?.backend { backends.insert(backend) }
        }
        try EndedDelivery.write(ended, now: core.now, db)
        try EventLog.append(events, now: core.now, db)
        (cancelled, inFlight) = (waiting.count, claimed.count)
    }

    /// Reports the change to observers and waiting calls, after its commit.
    func tell(_ core: StoreCore) {
        for backend in backends { core.stir(backend, due: .min) }
        core.tell(change)
        core.noteEvents()
    }
}
