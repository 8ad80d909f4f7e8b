internal import Foundation
package import Logging
public import ChaparCore
package import ChaparQueue

/// The path of backends' notices to the event stream, which writes them in groups.
///
/// Backends are made before the store is open, so the sink is made before them. A backend never waits for it: when
/// 1,000 notices wait, further notices are dropped and counted.
public final class EventSink: Sendable {
    /// The most notices that wait to be written.
    static let capacity = 1_000
    /// The most events that are written at a time.
    private static let group = 200

    private struct Contents: MailboxContents {
        var events: [[UInt8]] = []
        var dropped = 0

        var isEmpty: Bool { events.isEmpty && dropped == 0 }
    }

    private let contents = Mailbox<Contents>()
    private let time: any TimeSource

    /// Makes an empty sink.
    public convenience init() { self.init(time: SystemTime()) }

    /// Does the same with a clock of its own.
    package init(time: any TimeSource) { self.time = time }

    /// Returns the function by which a backend announces notices; it never blocks.
    public func announcer(for backend: String) -> @Sendable (BackendNotice) -> Void {
        { [self] notice in
            let event = EventJSON.notice(notice, backend: backend, at: time.now)
            contents.put { contents in
                if contents.events.count < Self.capacity {
                    contents.events.append(event)
                } else {
                    contents.dropped += 1
                }
            }
        }
    }

    /// Lets ``run(_:_:_:)`` end once everything is written.
    package func finish() { contents.finish() }

    /// Writes until ``finish()`` was called and nothing is left; events that the store does not take are dropped.
    package func run(_ store: any NotificationStore, _ metrics: GatewayMetrics, _ logger: Logger) async {
        while var (events, dropped) = await contents.receive().map({ ($0.events[...], $0.dropped) }) {
            while !events.isEmpty {
                let group = Array(events.prefix(Self.group))
                events = events.dropFirst(group.count)
                do throws(StoreError) {
                    try await store.publish(group)
                } catch {
                    dropped += group.count
                    logger.warning("notices of backends were not written", metadata: ["error": "\(error)"])
                }
            }
            if dropped > 0 { metrics.droppedNotices(dropped) }
        }
    }
}
