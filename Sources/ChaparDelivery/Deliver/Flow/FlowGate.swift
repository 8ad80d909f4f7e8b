internal import Foundation
internal import ChaparCore
internal import ChaparQueue
internal import ChaparComposition
internal import Synchronization

/// The send state of one backend: the messages under way, and whether more may follow.
///
/// The worker's loop and the functions that report results share it. After a reload the backend's new worker takes it
/// over from the old worker: messages that the old worker sent count against the limit of messages under way, and a
/// pause that the platform asked for stays in force.
///
/// The rules are in ``FlowGate/State``, a plain value; this class adds the lock and the waiting.
final class FlowGate: Sendable {
    /// The loop's next step.
    enum Step: Equatable {
        /// Claim at most this number of messages. For a backend that takes several messages in one request, `requests`
        /// is the most requests that they may fill.
        ///
        /// The claim must not wait when only the request kept in reserve is missing.
        case claim(Int, requests: Int = 0, mayWait: Bool = true)
        /// Pass deliveries whose fallback delay has ended on to other backends.
        case passOn
        /// Wait for a change, at most until this time.
        case wait(until: Date?)
    }

    /// A change of a worker's state, for the log and the events.
    enum Change: Equatable {
        /// A parked or slowed worker works again.
        case resumed
        /// The same for a worker whose stop was never reported.
        case resumedQuietly
        /// The platform asked for a pause.
        case paused(until: Date, reason: String)
        /// The platform asked for a pause without a length; `isFirst` unless it repeats that for the same reason, now
        /// or soon after.
        case slowed(until: Date, reason: String, detail: String?, isFirst: Bool)
        /// An operator must act; `isFirst` unless that was already known for the same reason.
        case parked(until: Date, reason: String, detail: String?, isFirst: Bool)
        /// Too many messages failed.
        case opened(until: Date, reason: String)
        /// A probe succeeded.
        case closed
    }

    private let guarded: Mutex<State>
    /// The signal of each change that a loop must react to.
    private let changed = AsyncSignal()
    /// The open claims of its workers; after a reload there are two workers for a while.
    private let claims = Mutex<[ObjectIdentifier: ClaimTask]>([:])

    /// Makes a gate through which messages may be sent.
    ///
    /// - Parameters:
    ///   - breaker: The breaker, which opens after too many failures; nil for none.
    ///   - fallbackAfter: The shortest time after which a delivery goes on to another backend; nil when no delivery
    ///     does.
    init(breaker: Breaker? = nil, fallbackAfter: Duration? = nil) {
        guarded = Mutex(State(breaker: breaker, fallbackAfter: fallbackAfter))
    }

    /// Reads or changes the state; wakes the loop when `body` returns `wakes`.
    func update<Result: Sendable>(_ body: (inout State) -> (Result, wakes: Bool)) -> Result {
        let (result, wakes) = guarded.withLock { body(&$0) }
        if wakes { changed.signal() }
        return result
    }

    /// Returns the loop's next step, and a mark with which it can wait for a later change.
    ///
    /// The capacity of a ``Step/claim(_:requests:mayWait:)`` is reserved until
    /// ``release(reserved:claimed:in:isLast:at:)``: another worker of the backend does not claim for it as well.
    func step(window: Int, requests: OpenRequests.Limit? = nil, at now: Date) -> (
        step: Step, mark: AsyncSignal.Mark
    ) {
        let mark = changed.mark
        return guarded.withLock { state in
            let step = state.step(window: window, requests: requests, at: now)
            if case .claim(let capacity, let requests, _) = step {
                state.reserved += capacity
                state.requests?.reserve(requests)
            }
            return (step, mark)
        }
    }

    /// Ends the reservation of a claim that found these deliveries, parted into requests for a backend that takes
    /// several in one.
    ///
    /// `isLast` wakes the worker that replaces this one.
    func release(
        reserved: Int,
        claimed: some Collection<Int64>,
        in requests: OpenRequests.RequestClaim? = nil,
        isLast: Bool,
        at now: Date
    ) {
        update { state in
            state.reserved -= reserved
            state.begin(claimed, at: now)
            if let requests { state.requests?.end(requests) }
            if claimed.isEmpty { state.breaker?.abandonProbe() }  // The next claim may be the probe.
            return ((), wakes: isLast)
        }
    }

    /// Counts a request of several messages as over, so that another one may follow.
    func endRequest() {
        update { state in
            state.requests?.end()
            return ((), wakes: true)
        }
    }

    /// A copy of the state.
    var state: State { guarded.withLock { $0 } }

    /// Whether nothing may be sent now; avoids the copy of ``state``.
    func standsStill(at now: Date) -> Bool { guarded.withLock { $0.standsStill(at: now) } }

    /// Whether the backend is left alone because its platform is unreachable; avoids the copy of ``state``.
    func waitsForReach(at now: Date) -> Bool { guarded.withLock { $0.waitsForReach(at: now) } }

    /// Waits for a change after a mark of ``step(window:requests:at:)``; ends early when the task is cancelled.
    func waitForChange(after mark: AsyncSignal.Mark) async { await changed.wait(after: mark) }

    /// Waits for a change after a mark, at most until a steady time.
    func waitForChange(after mark: AsyncSignal.Mark, until end: Date, _ time: any TimeSource) async {
        await changed.wait(after: mark, until: end, time)
    }

    /// Makes the loop take another step.
    func wake() { changed.signal() }

    // MARK: Open claims

    /// A claim at the store, which waits for work.
    typealias ClaimTask = Task<[ClaimedDelivery], any Error>

    /// Stores a worker's open claim, so that it can be cancelled.
    func begin(_ claim: ClaimTask, of worker: ObjectIdentifier) { claims.withLock { $0[worker] = claim } }

    /// Removes a worker's claim that has ended.
    func forgetClaim(of worker: ObjectIdentifier) {
        _ = claims.withLock { $0.removeValue(forKey: worker) }
    }

    /// Cancels a worker's open claim.
    func cancelClaim(of worker: ObjectIdentifier) { claims.withLock { $0[worker] }?.cancel() }

    /// Cancels every open claim for this backend, including those of the worker that replaced this one in a reload.
    func cancelClaims() { for claim in claims.withLock({ Array($0.values) }) { claim.cancel() } }
}
