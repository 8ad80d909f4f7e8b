internal import Foundation
internal import PushCore
internal import PushQueue

/// A change of devices that somebody waits for.
struct DeviceChangeRequest: Sendable {
    /// The devices that it names.
    var ids: [String] = []
    /// The tokens that it names: their devices are changed, or they go to one of ``ids``.
    var tokens: [DeviceToken] = []
    /// The time under which what changes goes into the outbox; nil when it does not.
    var outbox: Date?
    /// Whether it is refused when the outbox is full.
    var mayRefuse = false
    /// Makes the change, and gives what answers the caller once it is committed; may be called more than once.
    var body: @Sendable (inout DeviceBatch) -> @Sendable () -> Void
    /// Answers the caller when nothing was changed.
    var fail: @Sendable (StoreError) -> Void

    var weight: Int { ids.count + tokens.count }
}

/// Changes devices: one transaction for all that came while the one before was under way.
///
/// The locks of all of them are taken before anything is read (``RegistryLocks``). When the server refuses what one of several asks for,
/// each is done alone.
struct DeviceChangeLoop {
    private static let largestGroup = 4_000
    private static let mostAttempts = 8

    let core: StoreCore
    let connection: PostgresConnection
    let inbox: Inbox<DeviceChangeRequest>
    let signals: OutboxSignals

    /// Works until the inbox is closed and empty.
    func run() async {
        while let requests = await inbox.take() {
            var group: [DeviceChangeRequest] = []
            var weight = 0
            for request in requests {
                if !group.isEmpty, weight + request.weight > Self.largestGroup {
                    await change(group)
                    (group, weight) = ([], 0)
                }
                group.append(request)
                weight += request.weight
            }
            await change(group)
        }
    }

    private func change(_ requests: [DeviceChangeRequest]) async {
        var attempts = 0
        while true {
            do throws(PostgresError) {
                let (answers, isNoted) = try await commit(requests)
                core.noteSuccess()
                signals.raise(changes: isNoted)
                for answer in answers { answer() }
                return
            } catch {
                attempts += 1
                if error.isConflict, attempts < Self.mostAttempts { continue }
                core.noteFailure(error)
                if requests.count > 1, case .refused = error {
                    for request in requests { await change([request]) }
                } else {
                    for request in requests { request.fail(error.storeError) }
                }
                return
            }
        }
    }

    /// Gives the callers' answers, and whether something went into the outbox.
    private func commit(
        _ requests: [DeviceChangeRequest]
    ) async throws(PostgresError) -> (answers: [@Sendable () -> Void], isNoted: Bool) {
        let options = core.options
        return try await connection.transaction { (db) throws(PostgresError) in
            var answers: [@Sendable () -> Void] = []
            var accepted = requests
            if requests.contains(where: { $0.outbox != nil && $0.mayRefuse }),
                let refusal = try OutboxChangeTable.refusal(db, options)
            {
                for request in requests where request.outbox != nil && request.mayRefuse {
                    answers.append { request.fail(refusal) }
                }
                accepted.removeAll { $0.outbox != nil && $0.mayRefuse }
            }
            guard !accepted.isEmpty else { return (answers, false) }
            let (ids, tokens) = (Set(accepted.flatMap(\.ids)), Set(accepted.flatMap(\.tokens)))
            var locks = RegistryLocks(options)
            locks.add(devices: ids)
            locks.add(tokens: tokens)
            try locks.take(db)
            let stored = try RegistryLocks.devices(Array(ids), having: Array(tokens), db)
            var batch = DeviceBatch(stored, tokens: tokens)
            var contents: [(content: OutboxChange.Content, at: Date)] = []
            for request in accepted {
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
