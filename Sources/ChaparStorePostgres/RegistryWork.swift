internal import ChaparCore
internal import ChaparQueue

/// The requests to the registry and the outbox, and the loops that carry them out.
final class RegistryWork: Sendable {
    let deviceChanges = Inbox<DeviceChangeRequest>(capacity: 50_000)
    let outboxEntries = Inbox<OutboxEntryRequest>(capacity: 50_000)
    let outboxResults = Inbox<OutboxResultRequest>()

    /// Starts the loops, which end after ``close()`` when everything is done.
    func start(_ core: StoreCore, registry: PostgresConnection, outbox: PostgresConnection) -> [Task<Void, Never>] {
        let devices = DeviceChangeGroups(core: core, connection: registry)
        let outbox = OutboxGroups(core: core, connection: outbox)
        let changes = GroupLoop(core: core, inbox: deviceChanges, largestGroup: 4_000, commit: devices.change)
        let entries = GroupLoop(core: core, inbox: outboxEntries, largestGroup: 2_000, commit: outbox.enqueue)
        let results = GroupLoop(core: core, inbox: outboxResults, largestGroup: 2_000, commit: outbox.record)
        // Unstructured: they last as long as the store, which ends and awaits them.
        return [Task { await changes.run() }, Task { await entries.run() }, Task { await results.run() }]
    }

    /// Closes the inboxes for new requests.
    func close() {
        deviceChanges.close()
        outboxEntries.close()
        outboxResults.close()
    }
}
