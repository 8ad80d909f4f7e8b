public import Foundation
public import ChaparCore
internal import Synchronization

/// A wall clock on which every wait ends at once: it jumps to the end of the wait.
///
/// For tests in which one task waits at a time; where several wait for each other, use ``ManualTime``.
public final class InstantTime: TimeSource {
    private let time: Mutex<Date>
    private let waits = Mutex<[Duration]>([])

    /// Makes a clock; 1 January 2026 unless told otherwise.
    public init(_ now: Date = Date(timeIntervalSince1970: 1_767_225_600)) { time = Mutex(now) }

    /// The current time, after all jumps.
    public var now: Date { time.withLock { $0 } }

    /// All waits, in order.
    public var slept: [Duration] { waits.withLock { $0 } }

    /// Moves the clock on, as a wait would.
    public func advance(by span: Duration) { time.withLock { $0 += span.inSeconds } }

    /// Jumps to the end of the wait; throws `CancellationError` when the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        waits.withLock { $0.append(duration) }
        advance(by: max(.zero, duration))
        await Task.yield()
    }
}
