internal import Foundation
internal import PushCore
internal import Synchronization

/// The state of one lane: how much is under way, and whether more may follow.
///
/// Shared by the lane's loop and its reports.
///
/// The rules are in ``State``, a plain value; this class adds the lock and the waiting.
final class LaneGate: Sendable {
    /// What the loop does next.
    enum Step: Equatable {
        /// Claim up to so many.
        case claim(Int)
        /// Wait for a change, at most until then.
        case wait(until: Date?)
        /// End.
        case stop
    }

    /// The rules, without a lock.
    struct State {
        /// With the backend now.
        var inFlight = 0
        /// The most that may be with it; brought up to date with every look.
        var window = 0
        var pausedUntil: Date?
        var pauseReason: String?
        /// Set while an operator must mend the backend; then one delivery at a time is tried.
        var isParked = false
        var isStopped = false
        /// The wait after the next refusal while parked; doubles each time.
        var nextProbe = State.firstProbe

        static let firstProbe = Duration.seconds(15)
        static let longestProbe = Duration.seconds(900)

        /// A claim smaller than this is not worth a trip to the store while plenty is under way.
        var leastClaim: Int { max(1, min(256, window / 4)) }

        mutating func step(window: Int, at now: Date) -> Step {
            if isStopped { return .stop }
            self.window = window
            if let until = pausedUntil {
                if now < until { return .wait(until: until) }
                pausedUntil = nil
                if !isParked { pauseReason = nil }
            }
            let room = (isParked ? 1 : window) - inFlight
            return room > 0 && (room >= leastClaim || isParked || inFlight == 0) ? .claim(room) : .wait(until: nil)
        }

        /// Whether the loop has to look again after so many ended.
        mutating func finish(_ count: Int) -> Bool {
            inFlight -= count
            return isParked ? inFlight == 0 : window - inFlight >= leastClaim || inFlight == 0
        }

        /// True when the lane was not paused before.
        mutating func pause(until: Date, reason: String) -> Bool {
            let isNew = pausedUntil == nil
            pausedUntil = max(pausedUntil ?? until, until)
            if !isParked { pauseReason = reason }
            return isNew
        }

        /// Parks, or parks for longer; gives the time of the next probe when this is news.
        mutating func park(reason: String, at now: Date) -> Date? {
            guard pausedUntil.map({ now >= $0 }) ?? true else { return nil }
            let until = now.addingTimeInterval(nextProbe.inSeconds)
            nextProbe = min(nextProbe * 2, State.longestProbe)
            pausedUntil = until
            pauseReason = reason
            isParked = true
            return until
        }

        /// True when the lane was parked before.
        mutating func works() -> Bool {
            guard isParked else { return false }
            isParked = false
            pausedUntil = nil
            pauseReason = nil
            nextProbe = State.firstProbe
            return true
        }
    }

    private struct Guarded {
        var state = State()
        var waiter: CheckedContinuation<Void, Never>?
        /// A change came while nobody waited.
        var isSignalled = false
    }

    private let guarded = Mutex(Guarded())

    /// Reads or changes the state; the loop is woken when `body` says so.
    func update<Result: Sendable>(_ body: (inout State) -> (Result, wakes: Bool)) -> Result {
        let (result, waiter) = guarded.withLock { guarded in
            let (result, wakes) = body(&guarded.state)
            guard wakes else { return (result, CheckedContinuation<Void, Never>?.none) }
            let waiter = guarded.waiter
            guarded.waiter = nil
            guarded.isSignalled = waiter == nil
            return (result, waiter)
        }
        waiter?.resume()
        return result
    }

    /// The state now.
    var state: State { guarded.withLock { $0.state } }

    /// Waits until the state changed so that the loop has to look again; ends early when the task is cancelled.
    func waitForChange() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = guarded.withLock { guarded in
                    if guarded.isSignalled || guarded.state.isStopped || Task.isCancelled {
                        guarded.isSignalled = false
                        return true
                    }
                    guarded.waiter = continuation
                    return false
                }
                if isDone { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
    }

    /// Makes the loop look again.
    func wake() { update { _ in ((), wakes: true) } }

    /// Ends the loop; what is under way goes on.
    func stop() {
        update { state in
            state.isStopped = true
            return ((), wakes: true)
        }
    }
}
