internal import Foundation
internal import PushCore
internal import PushComposition

extension FlowGate {
    /// The rules, without a lock.
    ///
    /// Four things stop a worker: a pause that the platform asked for, an operator's work (parked), too many failures (the
    /// breaker), and quarantined dead-token answers. Each ends by itself but the last, and none overrules another.
    struct State {
        /// With the backend now.
        var inFlight = 0
        /// Room that a look for work may fill at this moment.
        var reserved = 0
        /// The most that may be with it; brought up to date with every look.
        var window = 0
        var pausedUntil: Date?
        var pauseReason: String?
        /// Set while an operator must mend the backend; then one delivery at a time is tried.
        var isParked = false
        /// The wait after the next refusal while parked; doubles each time.
        var nextProbe = State.firstProbe
        /// Opens after too many failures; nil never does.
        var breaker: Breaker?
        /// When the breaker's last probe began.
        private var probeBegan = Date.distantPast
        /// Set while invalidations are held: then nothing is sent until an operator decides.
        var isHeld = false
        /// Since when the backend has not worked; nil while it does.
        var troubleSince: Date?
        /// The shortest time after which a delivery goes on to another backend; nil when none ever does.
        var fallbackDelay: Duration?
        /// When to look again for deliveries whose fallback delay has ended.
        private var nextPassOn = Date.distantPast

        static let firstProbe = Duration.seconds(15)
        static let longestProbe = Duration.seconds(900)
        /// How often a worker that stands still looks for such deliveries.
        static let passOnInterval = 0.25
        /// The longest wait for the answer to a probe, in seconds, before a delivery is looked at again.
        static let longestWait = 2.0

        init(breaker: Breaker? = nil, fallbackDelay: Duration? = nil) {
            self.breaker = breaker
            self.fallbackDelay = fallbackDelay
        }

        /// A claim smaller than this is not worth a trip to the store while plenty is under way.
        var leastClaim: Int { max(1, min(256, window / 4)) }

        mutating func step(window: Int, at now: Date) -> Step {
            self.window = window
            if isHeld { return standStill(until: nil, at: now) }
            if let until = pausedUntil {
                if now < until { return standStill(until: until, at: now) }
                move(.pauseEnds) { state in
                    state.pausedUntil = nil
                    if !state.isParked { state.pauseReason = nil }
                }
            }
            switch breaker?.admit(at: now) ?? .pass {
            case .pass: break
            case .probe:
                probeBegan = now
                return .claim(1)
            case .refuse(let until, _): return standStill(until: until, at: now)
            }
            let capacity = (isParked ? 1 : window) - inFlight - reserved
            return capacity > 0 && (capacity >= leastClaim || isParked || inFlight == 0)
                ? .claim(capacity) : .wait(until: nil)
        }

        /// Waits, but for a look now and then for deliveries whose fallback delay has ended.
        private mutating func standStill(until: Date?, at now: Date) -> Step {
            guard let fallbackDelay, let since = troubleSince else { return .wait(until: until) }
            let look = max(since.addingTimeInterval(fallbackDelay.inSeconds), nextPassOn)
            if now >= look {
                nextPassOn = now.addingTimeInterval(State.passOnInterval)
                return .passOn
            }
            return .wait(until: until.map { min($0, look) } ?? look)
        }

        /// Looks for more of these deliveries at once, since the last look did not find all.
        mutating func passOnMore() { nextPassOn = .distantPast }

        /// How it stands, apart from the breaker.
        var status: FlowStatus {
            isHeld ? .held : isParked ? .parked : pausedUntil == nil ? .sending : .paused
        }

        /// When the worker may go on; nil when nobody knows.
        func blockedUntil(at now: Date) -> Date? {
            if isHeld { return nil }
            if let pausedUntil, now < pausedUntil { return pausedUntil }
            switch breaker?.state {
            case .open(let until, _)?: return until
            case .halfOpen(let until, _)?:
                // The answer to the probe may come at any moment, its deadline is far: the wait is as long as it was until now, and
                // never so long that an urgent message would notice.
                let wait = min(State.longestWait, max(State.passOnInterval, now.timeIntervalSince(probeBegan)))
                return until.map { min($0, now.addingTimeInterval(wait)) }
            case .closed?, nil: return nil
            }
        }

        /// Whether nothing may be sent now.
        func standsStill(at now: Date) -> Bool {
            if isHeld { return true }
            if let pausedUntil, now < pausedUntil { return true }
            if case .open(let until, _)? = breaker?.state { return now < until }
            return false
        }

        /// Why the worker stands still, as a reason of bounded variety.
        var blockReason: String {
            switch status {
            case .held: "invalidations_held"
            case .parked: "backend_parked"
            case .paused: "backend_paused"
            case .sending: GatewayReason.breakerOpen
            }
        }

        /// The breaker's status, and why it is not closed.
        var breakerState: WorkerStatus.Breaker {
            if isHeld { return .init(.open, reason: "mass_invalidation") }
            switch breaker?.state {
            case .open(let until, let reason)?: return .init(.open, until: until, reason: reason)
            case .halfOpen(_, let reason)?: return .init(.halfOpen, reason: reason)
            case .closed?, nil: return .init(.closed)
            }
        }

        /// Whether the loop has to look again after so many ended.
        mutating func finish(_ count: Int) -> Bool {
            inFlight -= count
            if inFlight == 0 { breaker?.abandonProbe() }
            if isParked { return inFlight == 0 }
            return window - inFlight >= leastClaim || inFlight == 0
        }

        // MARK: Answers

        /// The platform took or judged so many messages: whatever was wrong before is over.
        mutating func works(_ count: Int, at now: Date) -> Change? {
            let isClosing = breaker?.record(.works, count: count, at: now) == .closed
            let wasParked = isParked
            move(.work) { if wasParked { $0.unpark() } }
            // One answer of a batch does not end what another one asked for.
            if breakerState.status != .open, !standsStill(at: now) { troubleSince = nil }
            return wasParked ? .resumed : isClosing ? .closed : nil
        }

        private mutating func unpark() {
            isParked = false
            pausedUntil = nil
            pauseReason = nil
            nextProbe = State.firstProbe
        }

        /// Applies what an answer other than an acceptance shows of the backend; wakes the loop when more may be sent.
        mutating func apply(_ signal: BackendSignal, at now: Date) -> (Change?, wakes: Bool) {
            switch signal {
            case .nothing:
                return (nil, false)
            case .works:
                let change = works(1, at: now)
                return (change, change != nil)
            case .fails:
                troubleSince = troubleSince ?? now
                guard case .opened(let until, let reason)? = breaker?.record(signal, at: now) else {
                    return (nil, false)
                }
                return (.opened(until: until, reason: reason), true)
            case .pause(let span, let reason):
                troubleSince = troubleSince ?? now
                let until = now.addingTimeInterval(span.inSeconds)
                return (pause(until: until, reason: reason) ? .paused(until: until, reason: reason) : nil, false)
            case .park(let reason, let detail):
                troubleSince = troubleSince ?? now
                guard let until = park(reason: reason, at: now) else { return (nil, false) }
                return (.parked(until: until, reason: reason, detail: detail), false)
            }
        }

        /// Stops the worker while invalidations are held, or lets it go on.
        mutating func hold(_ isHeld: Bool, at now: Date) -> Bool {
            guard isHeld != self.isHeld else { return false }
            move(isHeld ? .hold : .release) { $0.isHeld = isHeld }
            if isHeld {
                troubleSince = troubleSince ?? now
            } else if !standsStill(at: now) {
                troubleSince = nil
            }
            return true
        }

        /// True when the worker was not paused before.
        mutating func pause(until: Date, reason: String) -> Bool {
            let isNew = pausedUntil == nil
            move(.pause) { state in
                state.pausedUntil = max(state.pausedUntil ?? until, until)
                if !state.isParked { state.pauseReason = reason }
            }
            return isNew
        }

        /// Parks, or parks for longer; gives the time of the next probe when this is news.
        mutating func park(reason: String, at now: Date) -> Date? {
            guard pausedUntil.map({ now >= $0 }) ?? true else { return nil }
            let until = now.addingTimeInterval(nextProbe.inSeconds)
            nextProbe = min(nextProbe * 2, State.longestProbe)
            move(.park) { state in
                state.pausedUntil = until
                state.pauseReason = reason
                state.isParked = true
            }
            return until
        }

        /// The one place that changes what ``status`` shows, but for ``restore(_:)``.
        private mutating func move(_ event: FlowEvent, _ change: (inout State) -> Void) {
            let before = status
            change(&self)
            assert(FlowGate.transitions.allows(event, from: before, to: status), "\(before) \(event) \(status)")
        }
    }
}
