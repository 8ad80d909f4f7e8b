internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The writer of deliveries' outcomes, which come from event loops, to the store: one commit for all that wait.
///
/// While one commit runs, further outcomes are collected for the next. When the store fails, the write is tried again.
/// Unwritten outcomes stay in memory, and workers stop claiming when there are too many, so memory is bounded. An
/// outcome that the store refuses for its content delays no other outcome: its delivery ends as unknown. An outcome
/// whose row is damaged delays no other either: its delivery stays claimed, and the next start reports that it may have
/// been sent.
final class OutcomeWriter: Sendable {
    private struct Waiting: MailboxContents {
        var resolutions: [Resolution] = []
        var events: [[UInt8]] = []

        var isEmpty: Bool { resolutions.isEmpty && events.isEmpty }
    }

    private let waiting = Mailbox<Waiting>()
    /// The number of resolutions that are not committed yet.
    private let uncommitted = Atomic(0)
    private let store: any NotificationStore
    private let time: any TimeSource
    private let retry: StoreRetry
    private let logger: Logger

    init(store: any NotificationStore, time: any TimeSource, logger: Logger) {
        self.store = store
        self.time = time
        self.logger = logger
        retry = StoreRetry(time: time, logger: logger)
    }

    /// The number of resolutions that are not committed yet.
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
        var left: [Int64] = []
        var why = ""
        var parts = [resolutions[...]]
        while let part = parts.popLast() {
            guard let refusal = await write(Array(part)) else { continue }
            guard part.count == 1, let single = part.first else {
                // The store takes all or nothing, so each half is tried separately.
                let middle = part.startIndex + part.count / 2
                parts += [part[middle...], part[..<middle]]
                continue
            }
            switch refusal {
            case .refused(let reason): await giveUp(single, reason)
            case .damaged(let what):
                left.append(single.delivery)
                why = what
            }
        }
        guard let first = left.first else { return }
        logger.error(
            "outcomes cannot be written to a damaged store: their deliveries stay claimed until the next start",
            metadata: ["count": .stringConvertible(left.count), "delivery.number": "\(first)", "error": "\(why)"]
        )
    }

    /// The reason why the store never takes a write.
    private enum Obstacle: Sendable {
        /// The store refuses its content.
        case refused(String)
        /// The row that it would change is damaged.
        case damaged(String)
    }

    /// Writes resolutions until the store has taken them; returns the obstacle that prevents it.
    private func write(_ resolutions: [Resolution]) async -> Obstacle? {
        let obstacle = await retry.run("outcomes", count: resolutions.count) {
            [store, time] () throws(StoreError) -> Obstacle? in
            do throws(StoreError) {
                try await store.record(resolutions) { claim, state, reason in
                    EventJSON.delivery(claim, state: state, at: time.now, reason: reason.rawValue)
                }
                return nil
            } catch {
                switch error {
                case .refused(let reason): return .refused(reason)
                case .damaged(let what): return .damaged(what)
                default: throw error
                }
            }
        }
        return obstacle ?? nil
    }

    /// Ends a delivery as unknown when its outcome cannot be written.
    private func giveUp(_ resolution: Resolution, _ refusal: String) async {
        logger.error(
            "an outcome cannot be written: its delivery ends as unknown",
            metadata: ["delivery.number": "\(resolution.delivery)", "error": "\(refusal)"]
        )
        var end = resolution
        (end.transition, end.mayHaveBeenSent, end.event, end.receipt) = (.end(.unknown), true, nil, nil)
        _ = await write([end])
    }

    private func publish(_ events: [[UInt8]]) async {
        await retry.run("events", count: events.count) { [store] () throws(StoreError) in
            try await store.publish(events)
        }
    }
}

extension NotificationStore {
    /// Writes decisions about deliveries that wait for a backend; returns the numbers of those that it changed.
    func settle(
        _ resolutions: [Resolution],
        of backend: String,
        _ clock: WallClock
    ) async throws(StoreError) -> Set<Int64> {
        try await settle(resolutions, of: backend) { claim, state, reason in
            EventJSON.delivery(claim, state: state, at: clock.reading.wall, reason: reason.rawValue)
        }
    }
}
