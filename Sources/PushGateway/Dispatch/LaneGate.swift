internal import Foundation
internal import PushCore
internal import Synchronization

/// The state of one lane: how much is under way, and whether more may follow.
///
/// Shared by the lane's loop and its reports.
///
/// The rules are in ``LaneGate/State``, a plain value; this class adds the lock and the waiting.
final class LaneGate: Sendable {
    /// What the loop does next.
    enum Step: Equatable {
        /// Claim up to so many.
        case claim(Int)
        /// Send on to other backends what has no more patience.
        case passOn
        /// Wait for a change, at most until then.
        case wait(until: Date?)
        /// End.
        case stop
    }

    /// What happened to a lane, for the log and the events.
    enum Change: Equatable {
        /// A parked lane works again.
        case resumed
        /// The platform wants to be left alone.
        case paused(until: Date, reason: String)
        /// An operator must act.
        case parked(until: Date, reason: String, detail: String?)
        /// Too many messages failed.
        case opened(until: Date, reason: String)
        /// A probe was taken.
        case closed
    }

    private struct Guarded {
        var state = State()
        var waiter: CheckedContinuation<Void, Never>?
        /// A change came while nobody waited.
        var isSignalled = false
    }

    private let guarded: Mutex<Guarded>

    /// Makes an open gate.
    ///
    /// - Parameters:
    ///   - breaker: Opens after too many failures; nil never does.
    ///   - patience: The shortest time after which a delivery goes on to another backend; nil when none ever does.
    init(breaker: Breaker? = nil, patience: Duration? = nil) {
        guarded = Mutex(Guarded(state: State(breaker: breaker, patience: patience)))
    }

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

    /// Whether the lane claims nothing more.
    var isStopped: Bool { guarded.withLock { $0.state.isStopped } }

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
