internal import Foundation
internal import Logging
public import PushCore
import PushQueue
internal import Synchronization

/// Takes what backends announce to the stream of events, in groups.
///
/// Backends are built before the store is open, so the board is made first. It never makes a backend wait: with too much on
/// it, what comes is dropped and counted.
public final class EventSink: Sendable {
    /// The most notices that wait to be written.
    static let capacity = 1_000
    /// So many are written at a time.
    private static let group = 200

    private struct Contents {
        var events: [[UInt8]] = []
        var dropped = 0
        var isFinished = false
    }

    private let contents = Mutex(Contents())
    private let nap = AsyncSignal()
    private let time: any TimeSource

    /// Makes an empty board.
    public init(time: any TimeSource = SystemTime()) { self.time = time }

    /// What a backend of a name announces with; never blocks.
    public func announcer(for backend: String) -> @Sendable (BackendNotice) -> Void {
        { [self] notice in
            let event = EventJSON.notice(notice, backend: backend, at: time.now)
            contents.withLock { contents in
                if contents.events.count < Self.capacity {
                    contents.events.append(event)
                } else {
                    contents.dropped += 1
                }
            }
            nap.wake()
        }
    }

    /// Lets ``run(_:_:_:)`` end once everything is written.
    func finish() {
        contents.withLock { $0.isFinished = true }
        nap.wake()
    }

    /// Writes until ``finish()`` was called and nothing is left; what the store does not take is dropped.
    func run(_ store: any NotificationStore, _ metrics: GatewayMetrics, _ logger: Logger) async {
        while !Task.isCancelled {
            let (events, dropped, isFinished) = contents.withLock { contents in
                let events = Array(contents.events.prefix(Self.group))
                contents.events.removeFirst(events.count)
                defer { contents.dropped = 0 }
                return (events, contents.dropped, contents.isFinished)
            }
            if dropped > 0 { metrics.droppedNotices(dropped) }
            if events.isEmpty {
                if isFinished { return }
                await nap.rest(.seconds(60), time)
                continue
            }
            do throws(StoreError) {
                try await store.publish(events)
            } catch {
                metrics.droppedNotices(events.count)
                logger.warning("notices of backends were not written", metadata: ["error": "\(error)"])
            }
        }
    }
}
