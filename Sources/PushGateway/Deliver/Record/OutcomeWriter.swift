internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue
internal import Synchronization

/// Takes what became of deliveries from the event loops and writes it to the store, a commit for all that waits.
///
/// While one commit runs the next batch gathers. A store that fails is tried again: what is not written yet stays here,
/// and workers stop claiming when it becomes too much, so that it is bounded.
final class OutcomeWriter: Sendable {
    private struct Waiting: MailboxContents {
        var resolutions: [Resolution] = []
        var events: [[UInt8]] = []

        var isEmpty: Bool { resolutions.isEmpty && events.isEmpty }
    }

    private let waiting = Mailbox<Waiting>()
    /// Resolutions that are not committed yet.
    private let uncommitted = Atomic(0)
    private let store: any NotificationStore
    private let time: any TimeSource
    private let retry: StoreRetry

    init(store: any NotificationStore, time: any TimeSource, logger: Logger) {
        self.store = store
        self.time = time
        retry = StoreRetry(time: time, logger: logger)
    }

    /// How many resolutions are not committed yet.
    var backlog: Int { uncommitted.load(ordering: .relaxed) }

    /// Adds resolutions and events to the next batch; never blocks.
    func append(_ resolutions: [Resolution], events: [[UInt8]] = []) {
        waiting.put { waiting in
            uncommitted.wrappingAdd(resolutions.count, ordering: .relaxed)
            waiting.resolutions.append(contentsOf: resolutions)
            waiting.events.append(contentsOf: events)
        }
    }

    /// Lets ``run()`` end once everything is written.
    func finish() { waiting.finish() }

    /// Writes until ``finish()`` was called and nothing is left.
    func run() async {
        while let batch = await waiting.receive() {
            if !batch.resolutions.isEmpty { await record(batch.resolutions) }
            uncommitted.wrappingSubtract(batch.resolutions.count, ordering: .relaxed)
            if !batch.events.isEmpty { await publish(batch.events) }
        }
    }

    private func record(_ resolutions: [Resolution]) async {
        await retry.run("outcomes", count: resolutions.count) { [store, time] () throws(StoreError) in
            try await store.record(resolutions) { claim, state, reason in
                EventJSON.delivery(claim, state: state, at: time.now, reason: reason.rawValue)
            }
        }
    }

    private func publish(_ events: [[UInt8]]) async {
        await retry.run("events", count: events.count) { [store] () throws(StoreError) in
            try await store.publish(events)
        }
    }
}
