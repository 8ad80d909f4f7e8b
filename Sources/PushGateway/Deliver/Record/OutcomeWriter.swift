internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue
internal import Synchronization

/// Takes what became of deliveries from the event loops and writes it to the store, a commit for all that waits.
///
/// While one commit runs the next batch gathers. A store that fails is tried again: what is not written yet stays here,
/// and lanes stop claiming when it becomes too much, so that it is bounded.
final class OutcomeWriter: Sendable {
    private struct Waiting {
        var resolutions: [Resolution] = []
        var events: [[UInt8]] = []
        var isFinished = false
        var waiter: CheckedContinuation<Void, Never>?
        /// Handed to the store and not committed yet.
        var beingWritten = 0

        var isEmpty: Bool { resolutions.isEmpty && events.isEmpty }
    }

    private let waiting = Mutex(Waiting())
    private let store: any NotificationStore
    private let time: any TimeSource
    private let logger: Logger

    init(store: any NotificationStore, time: any TimeSource, logger: Logger) {
        self.store = store
        self.time = time
        self.logger = logger
    }

    /// How many resolutions are not committed yet.
    var backlog: Int { waiting.withLock { $0.resolutions.count + $0.beingWritten } }

    /// Takes resolutions and events; never blocks.
    func append(_ resolutions: [Resolution], events: [[UInt8]] = []) {
        let waiter = waiting.withLock { waiting in
            waiting.resolutions.append(contentsOf: resolutions)
            waiting.events.append(contentsOf: events)
            defer { waiting.waiter = nil }
            return waiting.waiter
        }
        waiter?.resume()
    }

    /// Lets ``run()`` end once everything is written.
    func finish() {
        let waiter = waiting.withLock { waiting in
            waiting.isFinished = true
            defer { waiting.waiter = nil }
            return waiting.waiter
        }
        waiter?.resume()
    }

    /// Writes until ``finish()`` was called and nothing is left.
    func run() async {
        while let (resolutions, events) = await next() {
            await write("outcomes", resolutions) { [store, time] resolutions throws(StoreError) in
                try await store.record(resolutions) { claim, state, reason in
                    EventJSON.delivery(claim, state: state, at: time.now, reason: reason.rawValue)
                }
            }
            waiting.withLock { $0.beingWritten = 0 }
            await write("events", events) { [store] events throws(StoreError) in try await store.publish(events) }
        }
    }

    private func next() async -> (resolutions: [Resolution], events: [[UInt8]])? {
        await withCheckedContinuation { continuation in
            let isReady = waiting.withLock { waiting in
                guard waiting.isEmpty, !waiting.isFinished else { return true }
                waiting.waiter = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
        return waiting.withLock { waiting in
            guard !waiting.isEmpty || !waiting.isFinished else { return nil }
            defer {
                waiting.resolutions = []
                waiting.events = []
            }
            waiting.beingWritten = waiting.resolutions.count
            return (waiting.resolutions, waiting.events)
        }
    }

    /// Writes a batch, again and again until it works; a closed store ends it, since nothing can be written any more.
    private func write<Element: Sendable>(
        _ what: String,
        _ batch: [Element],
        _ body: ([Element]) async throws(StoreError) -> Void
    ) async {
        guard !batch.isEmpty else { return }
        var pause = Duration.milliseconds(50)
        while true {
            do {
                return try await body(batch)
            } catch .closed {
                logger.error(
                    "the store closed before everything was written",
                    metadata: ["lost": "\(batch.count) \(what)"]
                )
                return
            } catch {
                logger.error("writing to the store failed, trying again", metadata: ["error": "\(error)"])
                do {
                    try await time.sleep(for: pause)
                } catch {
                    // Cancelled: the next start takes the deliveries up as sent without an answer.
                    logger.error(
                        "the gateway ended before everything was written",
                        metadata: ["lost": "\(batch.count) \(what)"]
                    )
                    return
                }
                pause = min(pause * 2, .seconds(1))
            }
        }
    }
}
