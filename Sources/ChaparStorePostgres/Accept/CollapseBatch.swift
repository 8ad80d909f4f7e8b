internal import Foundation
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue

/// New notifications that have no collapse key in common, so that one statement can insert them.
///
/// A caller has at most one waiting and one claimed delivery for each backend, recipient and collapse ID. A new
/// delivery ends the waiting one, and itself waits (`owner` 0) while another is claimed. The key in the table does not
/// include the caller: a rival's caller is read from its notification.
struct CollapseBatch {
    private var notifications: [NewNotification] = []
    private var keys: Set<Int64> = []

    /// Divides notifications into batches, in order.
    static func batches(_ notifications: [NewNotification]) -> [CollapseBatch] {
        var batches: [CollapseBatch] = [CollapseBatch()]
        for new in notifications {
            let keys = new.collapseKeys
            if !batches[batches.count - 1].keys.isDisjoint(with: keys) { batches.append(CollapseBatch()) }
            batches[batches.count - 1].notifications.append(new)
            batches[batches.count - 1].keys.formUnion(keys)
        }
        return batches
    }

    /// Ends the deliveries that are replaced, and inserts the rows.
    func insert(
        into rows: inout EnqueueRows,
        _ core: StoreCore,
        _ change: inout StoreChange,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let rivals = try CollapseRival.all(having: keys, isLocked: true, db)
        let replaced = rivals.values.joined().filter { !$0.row.isClaimed }.map(\.row.notification)
        let heads = replaced.isEmpty ? [:] : try core.heads.heads(of: Set(replaced), db)
        var ended: [EndedDelivery] = []
        for new in notifications {
            guard let collapseID = new.collapseID else {
                try rows.add(new)
                continue
            }
            var held: [Bool] = []
            var seen: Set<String> = []
            for (index, key) in new.collapseKeys.enumerated() {
                let plan = new.plan(ofRecipient: index)
                let backend = core.flows.target(of: plan.backends.first ?? "")
                let mine = (rivals[key] ?? []).filter {
                    $0.isRival(of: new.caller, collapseID) && $0.row.recipient == new.recipients[index]
                        && $0.backend == backend
                }
                // A recipient that is listed twice gets one after the other.
                held.append(!seen.insert("\(key) \(backend)").inserted || mine.contains { $0.row.isClaimed })
                for row in mine.map(\.row) where !row.isClaimed {
                    let state = row.withdrawnState
                    var end = EndedDelivery(row, state)
                    if state == .acceptedByPlatform, let head = heads[row.notification] {
                        end.flow = row.acceptingFlow(head.head(plan: row.plan).plan, core.flows)
                    }
                    ended.append(end)
                    change.ended[state, default: 0] += 1
                    if let head = heads[row.notification], let event = new.replacementEvent?(row.claimed(head), state) {
                        rows.add(event: event)
                    }
                }
            }
            try rows.add(new, held: held)
        }
        try EndedDelivery.write(ended, now: core.now, db)
    }

    /// Returns the upper half of the keys of these advisory locks.
    ///
    /// It differs from that of the store's other locks, and from that of other schemas, which are other stores.
    static func lockSpace(_ schema: String) -> Int64 {
        // The name for the default schema is the one of older versions, which may run beside this one.
        let name = schema == "chapar" ? "collapse ids" : "collapse ids of \(schema)"
        return Int64(bitPattern: StableHash.of(name)) & ~0xFFFF_FFFF
    }

    /// Locks the keys of batches until the commit, so that no other node adds deliveries with them.
    ///
    /// All are taken before the rows of the first batch, and in one order, so that there is no deadlock.
    ///
    /// There are at most 1,024 locks, however many recipients there are: the server keeps them in a table of fixed
    /// size.
    static func lock(
        _ batches: [CollapseBatch],
        of schema: String,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let space = lockSpace(schema)
        let locks = Set(batches.flatMap(\.keys).map { space | ($0 ^ $0 >> 32) & 1_023 })
        guard !locks.isEmpty else { return }
        try db.run(
            "SELECT count(pg_advisory_xact_lock(key)) FROM (SELECT key FROM unnest($1::bigint[]) AS k(key) ORDER BY key) AS keys",
            [.integers(locks.sorted())]
        )
    }
}

extension NewNotification {
    /// The collapse key of each recipient; none without a collapse id.
    fileprivate var collapseKeys: [Int64] {
        guard let collapseID else { return [] }
        return recipients.map { CollapseHash.of(Array($0.storedForm.utf8), collapseID) }
    }
}
