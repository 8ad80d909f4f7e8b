internal import Foundation
public import ChaparCore
public import ChaparQueue

/// The outbox: unplanned changes, and entries that wait for their platforms, shared by all nodes.
extension PostgresStore: OutboxStore {
    private var now: Int64 { core.now }

    /// Adds entries.
    public func enqueue(_ entries: [OutboxEntry]) async throws(StoreError) {
        guard !entries.isEmpty else { return }
        let result: Result<Void, StoreError> = await withCheckedContinuation { continuation in
            registryWork.outboxEntries.hand(in: OutboxEntryRequest(entries: entries, continuation: continuation))
        }
        try result.get()
    }

    /// Claims due entries, and waits for some when there are none.
    public func claimEntries(
        of backend: String,
        limit: Int,
        lease: Duration,
        wait: Duration
    ) async throws(StoreError) -> [ClaimedEntry] {
        guard limit > 0 else { return [] }
        let signal = core.outboxSignals.entries(of: backend)
        let span = lease.boundedMilliseconds
        return try await poll(signal, within: wait) { () throws(PostgresError) in
            let now = now
            let claims = try await OutboxEntryTable.claim(
                of: backend,
                by: core.nodeNumber,
                limit: limit,
                until: now.adding(clamping: span),
                now: now,
                on: outbox
            )
            guard claims.isEmpty, wait > .zero else { return (claims, nil) }
            return ([], try await OutboxEntryTable.nextDue(of: backend, on: outbox))
        }
    }

    /// Records the results of claimed entries.
    public func record(_ results: [OutboxResult]) async throws(StoreError) {
        guard !results.isEmpty else { return }
        let result: Result<Void, StoreError> = await withCheckedContinuation { continuation in
            registryWork.outboxResults.hand(in: OutboxResultRequest(results: results, continuation: continuation))
        }
        try result.get()
    }

    /// Returns the entries that wait for a device.
    public func entries(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingEntry] {
        guard limit > 0 else { return [] }
        return try await session(on: registryReader) { (db) throws(PostgresError) in
            try OutboxEntryTable.waiting(for: device, limit: limit, db)
        }
    }

    /// Removes the entries that wait for a backend now, in steps, between which other calls get their turn.
    public func cancelEntries(of backend: String, device: String?) async throws(StoreError) -> Int {
        let last = try await transaction(on: outbox) { (db) throws(PostgresError) in
            try OutboxChangeTable.skip(backend, device: device, db)
            return try OutboxEntryTable.newestNumber(db)
        }
        var total = 0
        while true {
            let now = now
            let (found, removed) = try await transaction(on: outbox) { (db) throws(PostgresError) in
                let found = try OutboxEntryTable.oldest(of: backend, device: device, upTo: last, db)
                guard !found.isEmpty else { return (0, 0) }
                var locks = RegistryLocks(self.options)
                locks.add(devices: found.map(\.device))
                try locks.take(db)
                return (found.count, try OutboxEntryTable.remove(found.map(\.number), now: now, db))
            }
            if removed > 0 { core.outboxSignals.raise(entriesOf: [backend]) }
            total += removed
            if found < OutboxEntryTable.largestRemoval { return total }
        }
    }

    /// Makes entries due that wait for a retry, in steps, between which other calls get their turn.
    public func makeRetriesDue(ofEntriesAt backend: String) async throws(StoreError) -> Int {
        let now = now
        var (total, changed) = (0, 0)
        repeat {
            changed = try await transaction(on: outbox) { (db) throws(PostgresError) in
                try OutboxEntryTable.makeRetriesDue(of: backend, now: now, db)
            }
            total += changed
        } while changed == OutboxEntryTable.largestRemoval
        if total > 0 { core.outboxSignals.raise(entriesOf: [backend]) }
        return total
    }

    /// Returns how much waits at each backend, from sums that are kept up to date.
    public func outboxDepths() async throws(StoreError) -> [String: OutboxDepth] {
        try await session(on: registryReader) { (db) throws(PostgresError) in try OutboxEntryTable.depths(db) }
    }

    // MARK: Changes

    /// Returns the oldest changes, in order; waits for one when there is none.
    public func unplannedChanges(limit: Int, wait: Duration) async throws(StoreError) -> [OutboxChange] {
        guard limit > 0 else { return [] }
        return try await poll(core.outboxSignals.changes, within: wait) { () throws(PostgresError) in
            (try await OutboxChangeTable.oldest(limit, on: outbox), nil)
        }
    }

    /// Replaces changes with the entries of their plans.
    public func record(_ plans: [OutboxPlan]) async throws(StoreError) {
        guard !plans.isEmpty else { return }
        let now = now
        let added = try await transaction(on: outbox) { (db) throws(PostgresError) in
            let devices = try OutboxChangeTable.devices(of: plans.map(\.change), db)
            guard !devices.isEmpty else { return [String: Int]() }
            var locks = RegistryLocks(self.options)
            locks.add(devices: devices)
            locks.add(devices: plans.flatMap { $0.operations.map(\.device) })
            try locks.take(db)
            var taken = try OutboxChangeTable.take(plans.map(\.change), db)
            var entries: [OutboxEntry] = []
            for plan in plans {
                guard let skipped = taken.removeValue(forKey: plan.change) else { continue }
                entries += plan.operations.filter { !skipped.contains($0.backend) }
            }
            return try OutboxEntryTable.add(entries, now: now, db)
        }
        core.outboxSignals.raise(entriesOf: added.keys)
    }

    /// Returns how many changes wait: exactly for one device, about for all.
    public func unplannedCount(ofDevice device: String?) async throws(StoreError) -> Int {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows =
                if let device {
                    try db.run("SELECT count(*) FROM chapar.outbox_changes WHERE device = $1", [.text(device)])
                } else { try db.run(OutboxChangeTable.span) }
            return Int(count: rows.integer(0, 0) ?? 0)
        }
    }

    // MARK: Waiting

    /// Calls `search` until it finds something, the wait is over or the task is cancelled; `search` may also return
    /// when more will be due.
    private func poll<Found: Sendable>(
        _ signal: AsyncSignal,
        within wait: Duration,
        _ search: () async throws(PostgresError) -> (found: [Found], due: Int64?)
    ) async throws(StoreError) -> [Found] {
        let until = now.adding(clamping: wait.boundedMilliseconds)
        var hasEnded = false
        while !Task.isCancelled {
            guard !isClosed else { throw .closed }
            let seen = signal.mark
            let (found, due): ([Found], Int64?)
            do throws(PostgresError) {
                (found, due) = try await search()
            } catch {
                let isFirstEnd = error == .ended && !hasEnded
                guard error.isConflict || isFirstEnd else { throw error.storeError }
                hasEnded = hasEnded || isFirstEnd
                continue
            }
            let now = now
            guard found.isEmpty, now < until else { return found }
            let left = Duration.milliseconds(max(1, min(until, due ?? until).subtracting(clamping: now)))
            await signal.wait(after: seen, atMost: min(left, OutboxSignals.poll), time)
        }
        return []
    }
}
