internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// A change of devices whose caller waits for the commit.
struct DeviceChangeRequest: GroupRequest {
    /// The devices that it names.
    var ids: [String] = []
    /// The tokens that it names: their devices are changed, or the tokens move to one of ``ids``.
    var tokens: [DeviceToken] = []
    /// The time of the changes in the outbox; nil when they do not go there.
    var outbox: Date?
    /// Whether the request is refused when the outbox is full.
    var mayRefuse = false
    /// Makes the change, and returns the closure that answers the caller after the commit; may be called more than
    /// once.
    var body: @Sendable (inout DeviceBatch) -> @Sendable () -> Void
    /// Answers the caller when nothing was changed.
    var fail: @Sendable (StoreError) -> Void

    var needsRoom: Bool { outbox != nil && mayRefuse }
    var weight: Int { ids.count + tokens.count }
}

/// Changes devices for the callers of a ``GroupLoop``: the locks of all of them are taken before anything is read
/// (``RegistryLocks``).
struct DeviceChangeGroups: Sendable {
    let core: StoreCore
    let connection: PostgresConnection

    /// Changes devices, and answers the callers.
    func change(_ requests: [DeviceChangeRequest]) async throws(PostgresError) {
        let (answers, isNoted) = try await commit(requests)
        core.outboxSignals.raise(changes: isNoted)
        for answer in answers { answer() }
    }

    /// Commits the changes; returns the callers' answers, and whether anything went into the outbox.
    private func commit(
        _ requests: [DeviceChangeRequest]
    ) async throws(PostgresError) -> (answers: [@Sendable () -> Void], isNoted: Bool) {
        let options = core.options
        return try await connection.transaction { (db) throws(PostgresError) in
            let backlog = requests.contains(where: \.needsRoom) ? try OutboxChangeTable.backlog(db) : 0
            let (ids, tokens) = (Set(requests.flatMap(\.ids)), Set(requests.flatMap(\.tokens)))
            var locks = RegistryLocks(options)
            locks.add(devices: ids)
            locks.add(tokens: tokens)
            try locks.take(db)
            let stored = try LockedDevices.read(Array(ids), having: Array(tokens), db)
            var batch = DeviceBatch(stored, tokens: tokens)
            var answers: [@Sendable () -> Void] = []
            var contents: [(content: OutboxChange.Content, at: Date)] = []
            for request in requests {
                if request.needsRoom, backlog + contents.count >= options.maximumUnplannedChanges {
                    answers.append { request.fail(OutboxChangeTable.refusal) }
                    continue
                }
                answers.append(request.body(&batch))
                let changed = batch.takeContents()
                if let moment = request.outbox { contents += changed.map { ($0, moment) } }
            }
            try DeviceWriter.write(batch.changes, db)
            try OutboxChangeTable.add(contents, db)
            return (answers, !contents.isEmpty)
        }
    }
}
