public import Foundation
public import PushCore
internal import Synchronization

/// A wall clock on which every wait is over at once: it jumps to the wait's end.
///
/// For tests of one thing that waits at a time; where several wait for each other take ``ManualTime``.
public final class InstantTime: TimeSource {
    private let time: Mutex<Date>
    private let waits = Mutex<[Duration]>([])

    /// Makes a clock; 1 January 2026 unless told otherwise.
    public init(_ now: Date = Date(timeIntervalSince1970: 1_767_225_600)) { time = Mutex(now) }

    /// The time it has jumped to.
    public var now: Date { time.withLock { $0 } }

    /// All waits so far, in order.
    public var slept: [Duration] { waits.withLock { $0 } }

    /// Moves it on, as a wait would.
    public func advance(by span: Duration) { time.withLock { $0 += span.inSeconds } }

    /// Jumps; throws `CancellationError` when the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        waits.withLock { $0.append(duration) }
        advance(by: max(.zero, duration))
        await Task.yield()
    }
}
