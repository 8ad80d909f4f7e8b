internal import Foundation
internal import Logging
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The periodic work that ends expired waiting deliveries and removes rows that are older than the retention, a few at
/// a time.
///
/// ``Dispatcher`` runs it beside the workers. Each step is a short commit, so that accepting and delivering never wait
/// long for it.
final class Upkeep: Sendable {
    private static let pause = Duration.seconds(1)
    private static let batch = 500

    /// The retention of finished work.
    struct Keep: Sendable {
        var notifications: Duration
        var events: Duration

        init(_ store: GatewayConfiguration.Store) {
            notifications = store.retention
            events = store.eventRetention
        }
    }

    private let store: any NotificationStore
    private let outcomeWriter: OutcomeWriter
    private let observer: any DispatchObserver
    private let time: any TimeSource
    private let clock: WallClock
    private let logger: Logger
    private let kept: Mutex<Keep>
    private let eachRound: @Sendable () async -> Void
    private let timer = PeriodicTimer(every: Upkeep.pause)

    init(
        store: any NotificationStore,
        outcomeWriter: OutcomeWriter,
        observer: any DispatchObserver,
        time: any TimeSource,
        clock: WallClock,
        logger: Logger,
        keep: Keep,
        eachRound: @escaping @Sendable () async -> Void = {}
    ) {
        self.store = store
        self.outcomeWriter = outcomeWriter
        self.observer = observer
        self.time = time
        self.clock = clock
        self.logger = logger
        kept = Mutex(keep)
        self.eachRound = eachRound
    }

    /// The retention in force.
    var keep: Keep {
        get { kept.withLock { $0 } }
        set { kept.withLock { $0 = newValue } }
    }

    /// Works until ``stop()``.
    func run() async {
        var isFailing = false  // So that an outage of hours is one line.
        while !Task.isCancelled {
            await eachRound()
            var isDone = true
            do throws(StoreError) {
                try await expire()
                isDone = try await purge()
                if isFailing { logger.notice("upkeep goes on") }
                isFailing = false
            } catch {
                if case .closed = error { return }
                if !isFailing {
                    logger.unlessCancelled?.warning("upkeep failed, trying again", metadata: ["error": "\(error)"])
                }
                isFailing = true
            }
            guard isDone else { continue }
            guard await timer.next(time) else { return }
        }
    }

    /// Purges for at most a second, since the rest of upkeep must not wait; returns false when there is more.
    private func purge() async throws(StoreError) -> Bool {
        let end = time.steady.addingTimeInterval(Self.pause.inSeconds)
        while !Task.isCancelled, !timer.isStopped {
            guard try await store.purge(retention) else { return true }
            guard time.steady < end else { return false }
        }
        return true
    }

    private var retention: Retention {
        let (now, keep) = (time.steady, keep)
        return Retention(
            notifications: now.addingTimeInterval(-keep.notifications.inSeconds),
            events: now.addingTimeInterval(-keep.events.inSeconds)
        )
    }

    /// Lets ``run()`` end.
    func stop() { timer.stop() }

    private func expire() async throws(StoreError) {
        while true {
            let claims = try await store.claimExpired(limit: Self.batch)
            let now = clock.reading
            // The store's time may be a little later than this one.
            let ends = claims.map { Resolution.ending($0, at: now) ?? .expiry($0, at: now) }
            outcomeWriter.append(ends)
            var expired: [String: Int] = [:]
            for (claim, end) in zip(claims, ends) where end.transition == .end(.expired) {
                expired[claim.plan.backend(at: claim.step), default: 0] += 1
            }
            for (backend, count) in expired { observer.expired(backend: backend, count: count) }
            guard claims.count == Self.batch else { return }
        }
    }
}
