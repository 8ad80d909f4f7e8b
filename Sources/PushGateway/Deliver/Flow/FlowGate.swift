internal import Foundation
internal import PushCore
internal import PushComposition
internal import Synchronization

/// The state of one backend's lane: how much is under way, and whether more may follow.
///
/// Shared by the lane's loop and its reports, and by the lanes of one backend over a reload: what is under way with the old
/// one counts in the new one's window, and what the platform asked for stays in force.
///
/// The rules are in ``FlowGate/State``, a plain value; this class adds the lock and the waiting.
final class FlowGate: Sendable {
    /// What the loop does next.
    enum Step: Equatable {
        /// Claim up to so many.
        case claim(Int)
        /// Send on to other backends what has no more patience.
        case passOn
        /// Wait for a change, at most until then.
        case wait(until: Date?)
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
        var state: State
        /// Grows with each change that a loop has to look at.
        var version = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
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
        let (result, waiters) = guarded.withLock { guarded in
            let (result, wakes) = body(&guarded.state)
            guard wakes else { return (result, [CheckedContinuation<Void, Never>]()) }
            guarded.version += 1
            defer { guarded.waiters = [] }
            return (result, guarded.waiters)
        }
        for waiter in waiters { waiter.resume() }
        return result
    }

    /// What the loop does next, and the version of the state that says so.
    ///
    /// The room of a ``Step/claim(_:)`` is reserved until ``settle(room:claimed:isLast:)``: another lane of the backend does
    /// not claim for it as well.
    func step(window: Int, at now: Date) -> (step: Step, version: Int) {
        guarded.withLock { guarded in
            let step = guarded.state.step(window: window, at: now)
            if case .claim(let room) = step { guarded.state.reserved += room }
            return (step, guarded.version)
        }
    }

    /// Gives back the room of a claim, of which so many deliveries took up some; `isLast` wakes the lane that follows.
    func settle(room: Int, claimed: Int, isLast: Bool) {
        update { state in
            state.reserved -= room
            state.inFlight += claimed
            if claimed == 0 { state.breaker?.abandonProbe() }  // The next look may be the probe.
            return ((), wakes: isLast)
        }
    }

    /// The state now.
    var state: State { guarded.withLock { $0.state } }

    /// Waits until the state is another than that of a version, so that the loop has to look again.
    ///
    /// Ends early when the task is cancelled.
    func waitForChange(after version: Int) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = guarded.withLock { guarded in
                    if guarded.version != version || Task.isCancelled { return true }
                    guarded.waiters.append(continuation)
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
}
