public import Foundation
public import ChaparCore
internal import Synchronization

/// A wall clock that stands still until a test moves it.
///
/// `sleep(for:)` returns when the clock has been advanced past its end, in the order of the ends. ``set(_:)`` moves
/// only the wall clock, as an operator does; the steady clock and sleeping tasks are not affected.
public final class ManualTime: TimeSource {
    private struct Sleeper {
        let id: UInt64
        let end: Date
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        /// The steady time.
        var steady: Date
        /// The seconds by which the wall clock is ahead of it.
        var offset = 0.0
        var sleepers: [Sleeper] = []
        var cancelled: Set<UInt64> = []
        var nextID: UInt64 = 0
    }

    private let state: Mutex<State>

    /// Makes a clock; 1 January 2026 unless told otherwise.
    public init(_ now: Date = Date(timeIntervalSince1970: 1_767_225_600)) {
        state = Mutex(State(steady: now))
    }

    /// The time of day to which it was moved or set last.
    public var now: Date { state.withLock { $0.steady.addingTimeInterval($0.offset) } }

    /// The time to which it was advanced.
    public var steady: Date { state.withLock { $0.steady } }

    /// The number of tasks that wait on it.
    public var sleeping: Int { state.withLock { $0.sleepers.count } }

    /// Moves the clock on and wakes the tasks whose waits are over.
    public func advance(by duration: Duration) {
        let woken = state.withLock { state -> [Sleeper] in
            state.steady += duration.inSeconds
            let now = state.steady
            let woken = state.sleepers.filter { $0.end <= now }.sorted { $0.end < $1.end }
            state.sleepers.removeAll { $0.end <= now }
            return woken
        }
        for sleeper in woken { sleeper.continuation.resume() }
    }

    /// Sets the wall clock, also back; wakes no task.
    public func set(_ now: Date) { state.withLock { $0.offset = now.timeIntervalSince($0.steady) } }

    /// Waits until the clock has been moved on by `duration`; throws `CancellationError` when the task is cancelled.
    public func sleep(for duration: Duration) async throws {
        try await sleep { $0.addingTimeInterval(duration.inSeconds) }
    }

    /// Waits until the clock has been moved to a steady time; throws `CancellationError` when the task is cancelled.
    public func sleep(until steady: Date) async throws { try await sleep { _ in steady } }

    /// Waits until an end that is computed from the steady time at the start of the wait.
    private func sleep(_ end: @escaping @Sendable (Date) -> Date) async throws {
        let id = state.withLock { state -> UInt64 in
            state.nextID += 1
            return state.nextID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Void, any Error>? in
                    if state.cancelled.remove(id) != nil { return .failure(CancellationError()) }
                    let end = end(state.steady)
                    if end <= state.steady { return .success(()) }
                    state.sleepers.append(Sleeper(id: id, end: end, continuation: continuation))
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                guard let place = state.sleepers.firstIndex(where: { $0.id == id }) else {
                    state.cancelled.insert(id)  // It does not sleep yet.
                    return nil
                }
                return state.sleepers.remove(at: place)
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
        state.withLock { _ = $0.cancelled.remove(id) }
    }
}
