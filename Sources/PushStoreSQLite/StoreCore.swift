import Foundation
import GRDB
import Logging
import PushCore
import Synchronization

/// What the callers of a store and its writer share.
final class StoreCore: Sendable {
    let options: SQLiteStoreOptions
    let time: any TimeSource
    let inbox: Inbox
    let feed: EventFeed
    let disk: DiskGuard
    let alarm: Alarm
    let status: StoreStatus
    private let ids: Mutex<(allocator: NotificationIDAllocator, highest: Int64)>

    init(_ options: SQLiteStoreOptions, time: any TimeSource, logger: Logger, opened: OpenedStore) {
        self.options = options
        self.time = time
        let inbox = Inbox(maximumRows: options.maximumQueuedRows)
        self.inbox = inbox
        feed = EventFeed(last: opened.lastEvent, capacity: options.eventsInMemory)
        disk = DiskGuard(options)
        alarm = Alarm(time: time) { inbox.poke() }
        status = StoreStatus(logger: logger)
        ids = Mutex((NotificationIDAllocator(above: opened.highestID), opened.highestID))
    }

    /// The highest number ever given out.
    var highestID: Int64 { ids.withLock { $0.highest } }

    func makeID(recipients: Int) -> NotificationID {
        let now = time.now
        return ids.withLock { ids in
            let id = ids.allocator.take(recipients, at: now)
            ids.highest = id.rawValue + Int64(max(1, recipients)) - 1
            return id
        }
    }
}

/// Remembers whether the last commit worked.
final class StoreStatus: Sendable {
    private let failure = Mutex<String?>(nil)
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    var lastFailure: String? { failure.withLock { $0 } }

    func note(_ error: StoreError) {
        failure.withLock { $0 = error.description }
        logger.debug("a store transaction failed", metadata: ["store.error": "\(error)"])
    }

    func noteSuccess() { failure.withLock { if $0 != nil { $0 = nil } } }
}

/// Lets tasks wait for the end of the writer's thread.
final class ThreadEnd: Sendable {
    private struct State {
        var hasEnded = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func signal() {
        let waiters = state.withLock { state in
            state.hasEnded = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let hasEnded = state.withLock { state in
                if !state.hasEnded { state.waiters.append(continuation) }
                return state.hasEnded
            }
            if hasEnded { continuation.resume() }
        }
    }
}
