internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// A caller's request to add entries.
struct OutboxEntryRequest: GroupRequest {
    var entries: [OutboxEntry]
    var continuation: CheckedContinuation<Result<Void, StoreError>, Never>

    var weight: Int { entries.count }
    var fail: @Sendable (StoreError) -> Void { { continuation.resume(returning: .failure($0)) } }
}

/// An owner's request to record the results of its claims.
struct OutboxResultRequest: GroupRequest {
    var results: [OutboxResult]
    var continuation: CheckedContinuation<Result<Void, StoreError>, Never>

    var weight: Int { results.count }
    var fail: @Sendable (StoreError) -> Void { { continuation.resume(returning: .failure($0)) } }
}

/// The transactions of the outbox that many callers share (``GroupLoop``).
struct OutboxGroups: Sendable {
    let core: StoreCore
    let connection: PostgresConnection

    /// Adds entries; those of a device with an unplanned change go behind it, and are refused when there is no room for
    /// them.
    func enqueue(_ requests: [OutboxEntryRequest]) async throws(PostgresError) {
        let (options, now) = (core.options, core.now)
        let (refused, added, isBehind) = try await connection.transaction { (db) throws(PostgresError) in
            let devices = Set(requests.flatMap { $0.entries.map(\.device) })
            var locks = RegistryLocks(options)
            locks.add(devices: devices)
            try locks.take(db)
            let holding = try OutboxChangeTable.holding(Array(devices), db)
            let backlog = holding.isEmpty ? 0 : try OutboxChangeTable.backlog(db)
            var refused: Set<Int> = []
            var behind: [(content: OutboxChange.Content, at: Date)] = []
            var new: [OutboxEntry] = []
            for (place, request) in requests.enumerated() {
                if backlog + behind.count >= options.maximumUnplannedChanges,
                    request.entries.contains(where: { holding.contains($0.device) })
                {
                    refused.insert(place)
                    continue
                }
                for entry in request.entries {
                    if holding.contains(entry.device) {
                        behind.append((.operation(entry), entry.at))
                    } else {
                        new.append(entry)
                    }
                }
            }
            try OutboxChangeTable.add(behind, db)
            return (refused, try OutboxEntryTable.add(new, now: now, db), !behind.isEmpty)
        }
        core.outboxSignals.raise(changes: isBehind, entriesOf: added.keys)
        for (place, request) in requests.enumerated() {
            if refused.contains(place) {
                request.fail(OutboxChangeTable.refusal)
            } else {
                request.continuation.resume(returning: .success(()))
            }
        }
    }

    /// Records the results of claimed entries, with their events.
    func record(_ requests: [OutboxResultRequest]) async throws(PostgresError) {
        let now = core.now
        let results = requests.flatMap(\.results)
        let events = results.compactMap(\.event)
        let (options, numbers) = (core.options, core.ownNumbers)
        if !events.isEmpty { try await core.prepareDay(now, on: connection) }
        try await connection.transaction { (db) throws(PostgresError) in
            var locks = RegistryLocks(options)
            locks.add(devices: results.map(\.claim.operation.device))
            try locks.take(db)
            try OutboxEntryTable.record(results, of: numbers, now: now, db)
            try EventLog.append(events, now: now, db)
        }
        if !events.isEmpty { core.noteEvents() }
        core.outboxSignals.raise(entriesOf: Set(results.map(\.claim.operation.backend)))
        for request in requests { request.continuation.resume(returning: .success(())) }
    }
}
