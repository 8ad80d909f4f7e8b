internal import Foundation
internal import Logging
internal import PushCore
internal import Synchronization

/// Ends deliveries whose time is over while they wait, and removes what is older than the retention, a little at a time.
final class Upkeep: Sendable {
    private static let rest = Duration.seconds(1)
    private static let batch = 500

    private let store: any NotificationStore
    private let recorder: Recorder
    private let time: any TimeSource
    private let logger: Logger
    private let keep: Mutex<Duration>
    private let sleeper = Mutex<(isStopped: Bool, task: Task<Void, any Error>?)>((false, nil))

    init(
        store: any NotificationStore,
        recorder: Recorder,
        time: any TimeSource,
        logger: Logger,
        retention: Duration
    ) {
        self.store = store
        self.recorder = recorder
        self.time = time
        self.logger = logger
        keep = Mutex(retention)
    }

    /// How long finished notifications are kept.
    var retention: Duration {
        get { keep.withLock { $0 } }
        set { keep.withLock { $0 = newValue } }
    }

    /// Works until ``stop()``.
    func run() async {
        while !Task.isCancelled {
            do throws(StoreError) {
                try await expire()
                _ = try await store.purge(
                    before: time.now.addingTimeInterval(-retention.inSeconds),
                    limit: Self.batch
                )
            } catch {
                if case .closed = error { return }
                logger.warning("upkeep failed, trying again", metadata: ["error": "\(error)"])
            }
            guard await rest() else { return }
        }
    }

    /// Lets ``run()`` end.
    func stop() {
        sleeper.withLock { sleeper in
            sleeper.isStopped = true
            return sleeper.task
        }?.cancel()
    }

    private func expire() async throws(StoreError) {
        while true {
            let claims = try await store.claimExpired(limit: Self.batch, lease: .seconds(60))
            let now = time.now
            recorder.append(
                claims.map { claim in
                    let event = EventJSON.delivery(claim, state: .expired, at: now, reason: "ttl_ended")
                    return Resolution(
                        delivery: claim.id,
                        transition: .end(.expired),
                        attempt: EventJSON.ending("ttl_ended", at: now),
                        event: event
                    )
                }
            )
            guard claims.count == Self.batch else { return }
        }
    }

    /// Waits for the next round; false when there is none.
    ///
    /// The task is awaited here, and is one so that ``stop()`` can end it.
    private func rest() async -> Bool {
        let task = Task<Void, any Error> { [time] in try await time.sleep(for: Self.rest) }
        let isStopped = sleeper.withLock { sleeper in
            sleeper.task = task
            return sleeper.isStopped
        }
        if isStopped { task.cancel() }
        return await withTaskCancellationHandler {
            (try? await task.value) != nil
        } onCancel: {
            task.cancel()
        }
    }
}
