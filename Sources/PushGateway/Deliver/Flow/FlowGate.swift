internal import Foundation
internal import PushCore
internal import PushQueue
internal import PushComposition
internal import Synchronization

/// The state of one backend's delivery: how much is under way, and whether more may follow.
///
/// Shared by the worker's loop and its reports, and by the workers of one backend over a reload: what is under way with
/// the old one counts in the new one's window, and a pause that the platform required stays in force.
///
/// The rules are in ``FlowGate/State``, a plain value; this class adds the lock and the waiting.
final class FlowGate: Sendable {
    /// What the loop does next.
    enum Step: Equatable {
        /// Claim up to so many messages; those of a backend that takes several in a request, up to so many requests.
        /// The look must not wait where only the request that is kept ready is missing.
        case claim(Int, requests: Int = 0, mayWait: Bool = true)
        /// Send on to other backends the deliveries whose fallback delay has ended.
        case passOn
        /// Wait for a change, at most until then.
        case wait(until: Date?)
    }

    /// What happened to a worker, for the log and the events.
    enum Change: Equatable {
        /// A parked or slowed worker works again.
        case resumed
        /// The same for a worker whose stop was not reported.
        case resumedQuietly
        /// The platform asked for a pause.
        case paused(until: Date, reason: String)
        /// The platform asked for a pause without saying how long; `isFirst` unless it goes on asking, or asks again
        /// soon, for the same reason.
        case slowed(until: Date, reason: String, detail: String?, isFirst: Bool)
        /// An operator must act; `isFirst` unless that is known, for the same reason.
        case parked(until: Date, reason: String, detail: String?, isFirst: Bool)
        /// Too many messages failed.
        case opened(until: Date, reason: String)
        /// A probe was taken.
        case closed
    }

    private let guarded: Mutex<State>
    /// Given with each change that a loop has to look at.
    private let changed = AsyncSignal()
    /// The waits for work of its workers: after a reload there are two for a while.
    private let looks = Mutex<[ObjectIdentifier: Look]>([:])

    /// Makes an open gate.
    ///
    /// - Parameters:
    ///   - breaker: Opens after too many failures; nil never does.
    ///   - fallbackDelay: The shortest time after which a delivery goes on to another backend; nil when none ever does.
    init(breaker: Breaker? = nil, fallbackDelay: Duration? = nil) {
        guarded = Mutex(State(breaker: breaker, fallbackDelay: fallbackDelay))
    }

    /// Reads or changes the state; the loop is woken when `body` says so.
    func update<Result: Sendable>(_ body: (inout State) -> (Result, wakes: Bool)) -> Result {
        let (result, wakes) = guarded.withLock { body(&$0) }
        if wakes { changed.signal() }
        return result
    }

    /// What the loop does next, and the mark after which a change makes it look again.
    ///
    /// The capacity of a ``Step/claim(_:requests:mayWait:)`` is reserved until
    /// ``release(reserved:claimed:in:isLast:at:)``: another worker of the backend does not claim for it as well.
    func step(window: Int, requests: OpenRequests.Limit? = nil, at now: Date) -> (step: Step, mark: AsyncSignal.Mark) {
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

    /// Ends the reservation of a claim that found these deliveries, in requests where the backend takes several in one;
    /// `isLast` wakes the worker that follows.
    func release(
        reserved: Int,
        claimed: some Collection<Int64>,
        in requests: OpenRequests.Look? = nil,
        isLast: Bool,
        at now: Date
    ) {
        update { state in
            state.reserved -= reserved
            state.begin(claimed, at: now)
            if let requests { state.requests?.end(requests) }
            if claimed.isEmpty { state.breaker?.abandonProbe() }  // The next look may be the probe.
            return ((), wakes: isLast)
        }
    }

    /// A request of several messages is over: another one may follow.
    func endRequest() {
        update { state in
            state.requests?.end()
            return ((), wakes: true)
        }
    }

    /// The state now.
    var state: State { guarded.withLock { $0 } }

    /// Whether nothing may be sent now; without the copy of ``state``.
    func standsStill(at now: Date) -> Bool { guarded.withLock { $0.standsStill(at: now) } }

    /// Whether the backend is left alone since its platform is out of reach; without the copy of ``state``.
    func waitsForReach(at now: Date) -> Bool { guarded.withLock { $0.waitsForReach(at: now) } }

    /// Waits for a change after a mark of ``step(window:at:)``; ends early when the task is cancelled.
    func waitForChange(after mark: AsyncSignal.Mark) async { await changed.wait(after: mark) }

    /// Waits for a change after a mark, but no longer than until a steady time.
    func waitForChange(after mark: AsyncSignal.Mark, until end: Date, _ time: any TimeSource) async {
        await changed.wait(after: mark, until: end, time)
    }

    /// Makes the loop look again.
    func wake() { changed.signal() }

    // MARK: Looks for work

    /// A wait for work at the store.
    typealias Look = Task<[ClaimedDelivery], any Error>

    /// Keeps a worker's look, so that it can be ended.
    func begin(_ look: Look, of worker: DeliveryWorker) { looks.withLock { $0[ObjectIdentifier(worker)] = look } }

    /// The worker's look is over.
    func forgetLook(of worker: DeliveryWorker) {
        _ = looks.withLock { $0.removeValue(forKey: ObjectIdentifier(worker)) }
    }

    /// Ends a worker's look for work.
    func endLook(of worker: DeliveryWorker) { looks.withLock { $0[ObjectIdentifier(worker)] }?.cancel() }

    /// Ends all looks for work, since the backend has to be left alone: also those of the worker that follows one whose
    /// platform answered after a reload.
    func endLooks() { for look in looks.withLock({ Array($0.values) }) { look.cancel() } }
}
