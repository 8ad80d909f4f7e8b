import ChaparCore
import ChaparQueue

/// The search for waiting deliveries whose time to live is over, and the claims on them.
///
/// The place of the search is kept in the ``QueueIndex``, since other commits change the known expiry times. Used by
/// the writer's thread only.
final class Expiry {
    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let rows: RowWriter
    private let claims: Claims
    private let expiring: SQLStatement

    init(_ transaction: Transaction, _ rows: RowWriter, _ claims: Claims) throws(StoreError) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        self.rows = rows
        self.claims = claims
        expiring = try SQLStatement(
            transaction.connection,
            """
            SELECT flow, due, id, expires FROM deliveries INDEXED BY waiting
            WHERE state = 0 AND mark <> 2 AND (flow, due, id) > (?1, ?2, ?3)
            AND typeof(flow) = 'integer' AND typeof(due) = 'integer' ORDER BY flow, due, id LIMIT ?4
            """
        )
    }

    /// Claims deliveries whose time to live is over; reads as many waiting ones as the options allow, in turn.
    func claim(limit: Int, _ reply: Reply<[ClaimedDelivery]>) throws(StoreError) {
        try rows.writeOutForSearch()
        let lease = queueIndex.makeLease()
        var claimed: [Entry] = []
        for number in try expired(limit: limit) {
            guard let entry = try pull(number) else { continue }
            _ = queueIndex.claim(entry, under: lease)
            transaction.pending.given.append((entry, true))
            claims.list(entry, lease)
            claimed.append(entry)
        }
        transaction.pending.answers.append { [queueIndex] in
            if !claimed.isEmpty { queueIndex.start(lease) }
            reply.succeed(claimed.map(\.delivery))
        }
    }

    /// Takes a waiting delivery out of turn; nil when it must wait for another one with its collapse ID.
    private func pull(_ number: Int64) throws(StoreError) -> Entry? {
        var reader = transaction.makeReader()
        guard queueIndex.claims[number] == nil, let stored = try reader.entry(number),
            !queueIndex.isInFlight(stored.collapseKey)
        else { return nil }
        let entry = stored.flow.take(stored.key) ?? stored
        entry.flow.leave()
        return entry
    }

    /// Returns the numbers of deliveries that seem to have expired, from where the last search ended.
    private func expired(limit: Int) throws(StoreError) -> [Int64] {
        guard transaction.now >= queueIndex.expiry.floor, limit > 0 else { return [] }
        var found: [Int64] = []
        var budget = transaction.core.options.expiryScan
        let isPartRound = queueIndex.expiry.cursor != nil
        try searchRound(&found, limit: limit, &budget)
        // A search that began in the middle continues from the start, as far as it may read.
        if isPartRound, queueIndex.expiry.cursor == nil, found.count < limit, budget > 0 {
            try searchRound(&found, limit: limit, &budget)
        }
        return found
    }

    private func searchRound(_ found: inout [Int64], limit: Int, _ budget: inout Int) throws(StoreError) {
        let rows = expiring
        let start = queueIndex.expiry.cursor ?? ExpiryRound.Position(flow: .min, due: .min, id: .min)
        rows.bind(1, start.flow)
        rows.bind(2, start.due)
        rows.bind(3, start.id)
        rows.bind(4, budget)
        while found.count < limit, budget > 0 {
            guard try rows.next() else {
                queueIndex.expiry.end()
                return
            }
            budget -= 1
            let position = ExpiryRound.Position(
                flow: try rows.integer(0),
                due: try rows.integer(1),
                id: try rows.integer(2)
            )
            // The search also moves past an unreadable row: otherwise a part full of such rows would begin again at its
            // start.
            queueIndex.expiry.cursor = position
            guard
                let expires = rows.readable({ (row) throws(StoreError) in try row.moment(3) }, transaction.core.status)
            else {
                continue
            }
            queueIndex.expiry.note(read: expires)
            if expires <= transaction.now, queueIndex.claims[position.id] == nil { found.append(position.id) }
        }
        rows.reset()
    }
}
