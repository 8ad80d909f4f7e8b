import ChaparCore
import ChaparQueue

/// Cancellation of waiting deliveries, and the search for expired ones.
extension CommitLoop {
    /// Cancels the next part of a notification's deliveries, and answers after the last.
    func cancel(_ step: CancelStep, _ reply: Reply<Cancellation?>) throws(StoreError) {
        if let entry = queueIndex.withoutRow(step.id) { try rows.writeOut(entry) }
        sql.countOf.bind(1, step.id.rawValue)
        guard try sql.countOf.next() else {
            let isArchived = try archive.delivery(step.id.rawValue) != nil
            transaction.pending.answers.append {
                reply.succeed(isArchived ? Cancellation(cancelled: 0, tooLate: 1) : nil)
            }
            return
        }
        let count = try sql.countOf.count(0)
        sql.countOf.reset()
        let limit = core.options.rowsPerCommit
        let waiting = sql.waitingOf
        waiting.bind(1, step.after)
        waiting.bind(2, step.id.delivery(at: count))
        waiting.bind(3, limit)
        var numbers: [Int64] = []
        while try waiting.next() { numbers.append(try waiting.integer(0)) }
        var next = step
        var reader = transaction.makeReader()
        for number in numbers {
            next.after = number
            if let claimed = queueIndex.claims[number] {
                try mark(claimed, step.event)
                next.inFlight += 1
                continue
            }
            guard let entry = try reader.entry(number) else { continue }
            try withdraw(entry, step.event)
            next.cancelled += 1
        }
        transaction.pending.answers.append { [next] in
            if numbers.count == limit {
                self.continuations.append(.cancel(next, reply))
            } else {
                let tooLate = count - next.cancelled - next.inFlight
                reply.succeed(Cancellation(cancelled: next.cancelled, tooLate: tooLate, inFlight: next.inFlight))
            }
        }
    }

    /// Cancels a part of a caller's waiting deliveries: they get rows first, then end; at last the claimed ones are
    /// marked.
    ///
    /// No place in the table is kept between parts: ended deliveries have left the indexes that are read here, and
    /// deliveries that come back to a flow meanwhile are found there.
    func cancel(
        caller: String,
        from place: CallerCancellation.Place,
        _ event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) throws(StoreError) -> CallerCancellation {
        let limit = core.options.rowsPerCommit
        var result = CallerCancellation(cancelled: 0, next: place)
        let unwritten = queueIndex.withoutRow(of: caller, upTo: place.end, limit: limit)
        for entry in unwritten { try rows.writeOut(entry) }
        if unwritten.count == limit { return result }
        let waiting = try self.waiting(of: caller, upTo: place.end, limit: limit - unwritten.count)
        for entry in waiting { try withdraw(entry, event) }
        result.cancelled = waiting.count
        if waiting.count + unwritten.count == limit { return result }
        for entry in queueIndex.claims.values
        where entry.flow.caller == caller && entry.id <= place.end && entry.cancellation == nil && !entry.isCancelled {
            try mark(entry, event)
            result.inFlight += 1
        }
        result.next = nil
        return result
    }

    /// Returns the deliveries of a caller that wait and have rows, up to a number, as many as `limit`.
    ///
    /// Unreadable rows are skipped: they do not count, and the part still comes to an end.
    private func waiting(of caller: String, upTo end: Int64, limit: Int) throws(StoreError) -> [Entry] {
        var reader = transaction.makeReader()
        var found: [Entry] = []
        for flow in queueIndex.flows where flow.caller == caller {
            let rows = sql.waitingOfFlow
            rows.bind(1, flow.number)
            rows.bind(2, end)
            defer { rows.reset() }
            while found.count < limit, try rows.next() {
                let number = try rows.integer(0)
                guard queueIndex.claims[number] == nil, let entry = try reader.entry(number) else { continue }
                found.append(entry)
            }
        }
        return found
    }

    /// Marks a claimed delivery, so that it is not retried.
    private func mark(
        _ claimed: Entry,
        _ event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) throws(StoreError) {
        try transaction.begin()
        sql.markCancelled.bind(1, claimed.id)
        try sql.markCancelled.run()
        claimed.cancellation = event  // At once: its outcome may be recorded in the same transaction.
    }

    /// Ends a waiting delivery.
    func withdraw(_ entry: Entry, _ event: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])?) throws(StoreError)
    {
        let state = entry.withdrawnState
        try end(entry.id, as: state, attempt: nil)
        transaction.pending.append(.removed(entry.flow, entry.key, entry.collapseKey))
        if let event { transaction.pending.events.append(event(entry.delivery, state)) }
    }

    /// Moves the waiting deliveries of a backend to another one, by a change of names only, however many wait.
    func move(_ name: String, to other: String, _ reply: Reply<Int?>) throws(StoreError) {
        let queue = queueIndex.queue(named: name)
        guard name != other, queue.claimed == 0 else {
            transaction.pending.answers.append { reply.succeed(name == other ? 0 : nil) }
            return
        }
        try transaction.begin()
        try transaction.writeFlows()
        for statement in [sql.moveFlows, sql.redirectMoves, sql.insertMove] {
            statement.bind(1, name)
            statement.bind(2, other)
            try statement.run()
        }
        // Flows that are made later in this transaction are the other backend's.
        for (former, target) in transaction.pending.moves where target == name {
            transaction.pending.moves[former] = other
        }
        transaction.pending.moves[name] = other
        transaction.pending.answers.append { [queueIndex] in
            let waiting = queue.waiting
            queueIndex.move(queue, to: other)
            reply.succeed(waiting)
        }
    }

    /// Ends the move of a backend that is in use again.
    func endMove(of name: String) throws(StoreError) {
        guard queueIndex.moves[name] != nil else { return }
        try transaction.begin()
        sql.deleteMove.bind(1, name)
        try sql.deleteMove.run()
        transaction.pending.answers.append { [queueIndex] in queueIndex.endMove(of: name) }
    }

    /// Claims deliveries whose time to live is over; reads as many waiting ones as the options allow, in turn.
    func claimExpired(limit: Int, _ reply: Reply<[ClaimedDelivery]>) throws(StoreError) {
        try rows.writeOutForSearch()
        let lease = queueIndex.makeLease()
        var claimed: [Entry] = []
        for number in try expired(limit: limit) {
            guard let entry = try pull(number) else { continue }
            _ = queueIndex.claim(entry, under: lease)
            transaction.pending.given.append((entry, true))
            list(entry, lease)
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
        var budget = core.options.expiryScan
        let isPartRound = queueIndex.expiry.cursor != nil
        try searchRound(&found, limit: limit, &budget)
        // A search that began in the middle continues from the start, as far as it may read.
        if isPartRound, queueIndex.expiry.cursor == nil, found.count < limit, budget > 0 {
            try searchRound(&found, limit: limit, &budget)
        }
        return found
    }

    private func searchRound(_ found: inout [Int64], limit: Int, _ budget: inout Int) throws(StoreError) {
        let rows = sql.expiring
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
            guard let expires = rows.readable({ (row) throws(StoreError) in try row.moment(3) }, core.status) else {
                continue
            }
            queueIndex.expiry.note(read: expires)
            if expires <= transaction.now, queueIndex.claims[position.id] == nil { found.append(position.id) }
        }
        rows.reset()
    }
}
