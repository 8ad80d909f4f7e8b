internal import Foundation
internal import ChaparCore
internal import ChaparComposition

extension FlowGate {
    /// The rules of the gate, without a lock.
    ///
    /// Four things stop a worker: a pause of a length that the platform asked for; single probes, while it asks for a
    /// pause without a length (slowed) or an operator must act (parked); too many failures (the breaker); and
    /// quarantined dead-token answers. All but the last end without an operator, and each ends on its own.
    struct State {
        /// The number of messages with the backend.
        var inFlight = 0
        /// The capacity that claims under way may fill.
        var reserved = 0
        /// The most messages with the backend; updated at every step.
        var window = 0
        /// The requests of a backend that takes several messages in one; nil when each message is a request.
        var requests: OpenRequests?
        /// The end of the pause that the platform asked for.
        var pausedUntil: Date?
        var pauseReason: String?
        /// Whether an operator must correct something; meanwhile one delivery at a time is tried.
        var isParked = false
        /// Whether the platform asks for a pause without naming a time; meanwhile one delivery at a time is tried.
        var isSlowed = false
        /// The time of the next single delivery; nil when one may go now.
        var probeAt: Date?
        /// The deliveries that are under way as probes, the oldest first; at most ``mostProbes``.
        private var probes: [Int64] = []
        /// The time when the last of ``probes`` was claimed; nil when the next one need not wait for it.
        var probedAt: Date?
        /// The time when a probe last ended the single deliveries or closed the breaker: messages that were sent since
        /// then were not held up.
        private var isFreeSince = Date.distantPast
        /// The reason for being parked or slowed.
        var probeReason: String?
        /// The reason as a sentence with the fix; nil when there is none.
        var probeDetail: String?
        /// The time and the reason of the last reported slowing: one that repeats is reported only at intervals.
        private var told: (reason: String, at: Date)?
        /// Whether the slowing in force was reported.
        private var isTold = false
        /// The wait after the next refusal while parked or slowed; doubles each time.
        var nextProbe = BackendSignal.firstWait
        /// The breaker, which opens after too many failures; nil when there is none.
        var breaker: Breaker?
        /// Whether invalidations are quarantined; meanwhile nothing is sent until an operator decides.
        var isQuarantined = false
        /// The time since which the backend has not worked; nil while it works.
        var troubleSince: Date?
        /// The shortest time after which a delivery goes on to another backend; nil when none ever does.
        var fallbackAfter: Duration?
        /// Whether the platform was unreachable while the breaker was open.
        ///
        /// ``cameBackAt`` is the time when the platform was last found reachable again.
        private var isOutOfReach = false
        private var cameBackAt = Date.distantPast
        /// The next time to look for deliveries whose fallback delay has ended.
        private var nextPassOn = Date.distantPast

        /// The interval, in seconds, at which a worker checks whether its unreachable platform is back.
        static let reachInterval = 0.5
        /// The shortest time, in seconds, between probes for a platform that comes and goes.
        private static let returnInterval = 10.0
        /// The interval, in seconds, at which a stopped worker looks for deliveries whose fallback delay has ended.
        static let passOnInterval = 0.25
        /// The shortest time, in seconds, between reports of a slowing that comes and goes for one reason.
        static let tellingInterval = 600.0
        /// The number of probes that are remembered; an older one counts as a message that was sent before.
        static let mostProbes = 8

        /// The message that an answer is about.
        struct Message {
            var delivery: Int64
            /// The time when the backend got it, on the steady clock.
            var sentAt: Date
        }

        init(breaker: Breaker? = nil, fallbackAfter: Duration? = nil) {
            self.breaker = breaker
            self.fallbackAfter = fallbackAfter
        }

        /// The smallest claim that is worth a trip to the store while many messages are under way.
        var leastClaim: Int { max(1, min(256, window / 4)) }

        mutating func step(window: Int, requests limit: OpenRequests.Limit? = nil, at now: Date) -> Step {
            self.window = window
            requests = limit.map { requests ?? OpenRequests($0) }
            if isQuarantined { return standStill(until: nil, at: now) }
            if let until = waitsUntil {
                if now < until { return standStill(until: until, at: now) }
                move(.pauseEnds) { state in
                    (state.pausedUntil, state.pauseReason) = (nil, nil)
                    state.probeAt = nil
                }
            }
            switch breaker?.admit(at: now) ?? .pass {
            case .pass: break
            case .probe: return .claim(1)
            case .refuse(let until, _): return standStill(until: until, at: now)
            }
            if isProbing { return probe(at: now) }
            let capacity = window - inFlight - reserved
            if let limit, let room = requests?.room(limit, messages: capacity) {
                return room.requests > 0
                    ? .claim(room.messages, requests: room.requests, mayWait: room.mayWait) : .wait(until: nil)
            }
            return capacity > 0 && (capacity >= leastClaim || inFlight == 0) ? .claim(capacity) : .wait(until: nil)
        }

        /// Claims a single delivery when the window has room, even beside messages that were sent before the pause.
        ///
        /// While a probe is unanswered the next one waits, longer each time, so that a probe that hangs does not block
        /// the backend until its deadline.
        private func probe(at now: Date) -> Step {
            guard reserved == 0, inFlight < max(1, window) else { return .wait(until: nil) }
            if let probedAt, !probes.isEmpty {
                let wait = min(BackendSignal.firstWait * (1 << (probes.count - 1)), BackendSignal.longestSlowWait)
                let next = probedAt.addingTimeInterval(wait.inSeconds)
                if now < next { return .wait(until: next) }
            }
            return .claim(1)
        }

        /// Waits, with periodic searches for deliveries whose fallback delay has ended.
        private mutating func standStill(until: Date?, at now: Date) -> Step {
            guard let fallbackAfter, let since = troubleSince else { return .wait(until: until) }
            let search = max(since.addingTimeInterval(fallbackAfter.inSeconds), nextPassOn)
            if now >= search {
                nextPassOn = now.addingTimeInterval(State.passOnInterval)
                return .passOn
            }
            return .wait(until: until.map { min($0, search) } ?? search)
        }

        /// Searches for more of these deliveries at once, since the last search did not find all.
        mutating func passOnMore() { nextPassOn = .distantPast }

        /// The status, apart from the breaker.
        var status: FlowStatus {
            isQuarantined ? .quarantined : isParked ? .parked : pausedUntil == nil && !isSlowed ? .sending : .paused
        }

        /// Whether one delivery at a time is tried.
        var isProbing: Bool { isParked || isSlowed }

        /// Whether the answers of probes decide, which includes the single message of a half-open breaker.
        private var waitsForProbes: Bool {
            if case .halfOpen? = breaker?.state { return true }
            return isProbing
        }

        /// Whether one of the deliveries is under way as a probe.
        func isProbe(anyOf deliveries: some Sequence<Int64>) -> Bool {
            !probes.isEmpty && deliveries.contains { probes.contains($0) }
        }

        /// Whether an answer is about the backend's current state.
        ///
        /// While the gate waits for probes, only the answer to a probe is. Otherwise the answer to a message that was
        /// sent after the probes ended is. The answer to an older message neither opens nor closes the gate. Nil,
        /// for a signal that came without an answer, always is.
        private func isNews(_ message: Message?) -> Bool {
            guard let message else { return true }
            return waitsForProbes ? probes.contains(message.delivery) : message.sentAt >= isFreeSince
        }

        /// The time until which nothing is sent, because of a pause or the next probe; nil without either.
        var waitsUntil: Date? {
            guard let pausedUntil, let probeAt else { return pausedUntil ?? probeAt }
            return max(pausedUntil, probeAt)
        }

        /// Whether nothing may be sent now.
        func standsStill(at now: Date) -> Bool {
            if isQuarantined { return true }
            if let waitsUntil, now < waitsUntil { return true }
            if case .open(let until, _)? = breaker?.state { return now < until }
            return false
        }

        /// Whether the pause that the platform asked for is in force: it ends after the time of the next probe.
        var isPauseInForce: Bool {
            guard let pausedUntil else { return false }
            return probeAt.map { pausedUntil > $0 } ?? true
        }

        /// The reason for the current pause, slowing or parking, in the platform's word and as a sentence; nil when
        /// messages flow.
        var blockDetail: (reason: String?, sentence: String?) {
            isProbing && !isPauseInForce ? (probeReason, probeDetail) : (pauseReason, nil)
        }

        /// The reason why the worker is stopped, of bounded variety.
        var blockReason: String {
            switch status {
            case .quarantined: "invalidations_held"
            case .parked: "backend_parked"
            case .paused: "backend_paused"
            case .sending: GatewayReason.breakerOpen
            }
        }

        /// The breaker's status, with the reason why it is not closed.
        var breakerState: WorkerStatus.Breaker {
            if isQuarantined { return .init(.open, reason: "mass_invalidation") }
            switch breaker?.state {
            case .open(let until, let reason)?: return .init(.open, until: until, reason: reason)
            case .halfOpen(_, let reason)?: return .init(.halfOpen, reason: reason)
            case .closed?, nil: return .init(.closed)
            }
        }

        /// Counts claimed deliveries as under way, and as probes while probes decide.
        mutating func begin(_ deliveries: some Collection<Int64>, at now: Date) {
            inFlight += deliveries.count
            guard waitsForProbes, !deliveries.isEmpty else { return }
            probes = Array((probes + deliveries).suffix(Self.mostProbes))
            probedAt = now
        }

        /// Counts deliveries as ended; returns whether the loop has to take another step.
        mutating func finish(_ deliveries: some Collection<Int64>) -> Bool {
            inFlight -= deliveries.count
            let hadProbe = isProbe(anyOf: deliveries)
            if hadProbe { probes.removeAll { deliveries.contains($0) } }
            if inFlight == 0 || hadProbe && probes.isEmpty { breaker?.abandonProbe() }
            // The next probe may have waited for this answer, or for room in the window.
            if hadProbe || isProbing { return true }
            if requests != nil { return inFlight == 0 }
            return window - inFlight >= leastClaim || inFlight == 0
        }

        // MARK: Reach

        /// Whether the breaker is open because the platform could not be reached.
        func waitsForReach(at now: Date) -> Bool {
            guard case .open(let until, let reason)? = breaker?.state else { return false }
            return now < until && reason == HTTPFailure.Cause.connect.reason
        }

        /// Records whether the platform can be reached while ``waitsForReach(at:)``; once it can, the breaker's probe
        /// is due at once.
        ///
        /// - Returns: The latest time of the next check; nil when the result made no difference.
        mutating func note(isInReach: Bool, at now: Date) -> Date? {
            guard waitsForReach(at: now), isOutOfReach || !isInReach else {
                isOutOfReach = false
                return nil
            }
            isOutOfReach = true
            if isInReach, now >= cameBackAt.addingTimeInterval(Self.returnInterval) {
                (isOutOfReach, cameBackAt) = (false, now)
                // If the probe fails, the next wait is as long as it would have been.
                _ = breaker?.endCooldown(at: now, keepingNext: true)
                return now
            }
            return now.addingTimeInterval(Self.reachInterval)
        }

        // MARK: Answers

        /// Records that the platform accepted messages, or refused them for reasons of their own.
        ///
        /// If one of them was a probe, the backend's earlier failure is over. `isProbe` matters only while probes are
        /// being sent: then other answers are about messages that were sent before the failure.
        mutating func works(_ count: Int, isProbe: Bool = true, at now: Date) -> Change? {
            guard isProbe || !waitsForProbes else { return nil }
            let isClosing = breaker?.record(.works, count: count, at: now) == .closed
            let isOver = isProbing && isProbe
            let isQuiet = !isParked && !isTold
            move(.work) { if isOver { $0.endProbes() } }
            if isOver || isClosing {
                (probes, probedAt) = ([], nil)
                isFreeSince = now
            }
            // One answer of a batch does not end a pause that another one asked for.
            if breakerState.status != .open, !standsStill(at: now) { troubleSince = nil }
            return isOver ? isQuiet ? .resumedQuietly : .resumed : isClosing ? .closed : nil
        }

        private mutating func endProbes() {
            (isParked, isSlowed) = (false, false)
            (probeAt, probeReason, probeDetail) = (nil, nil, nil)
            nextProbe = BackendSignal.firstWait
            isTold = false
        }

        /// Applies an answer other than an acceptance; wakes the loop when it has to take another step.
        ///
        /// A pause with a length counts from every message, everything else only if ``isNews(_:)``; `message` is nil
        /// when there was no answer.
        mutating func apply(
            _ signal: BackendSignal,
            of message: Message? = nil,
            at now: Date
        ) -> (Change?, wakes: Bool) {
            let isNews = isNews(message)
            switch signal {
            case .nothing:
                return (nil, false)
            case .works:
                let change = works(1, isProbe: isNews, at: now)
                return (change, change != nil)
            case .fails where !isNews, .slow where !isNews, .park where !isNews:
                return (nil, false)
            case .fails:
                let change = breaker?.record(signal, at: now)
                return fail(change, at: now)
            case .pause(let span, let reason):
                troubleSince = troubleSince ?? now
                let until = now.addingTimeInterval(span.inSeconds)
                return (pause(until: until, reason: reason) ? .paused(until: until, reason: reason) : nil, false)
            case .slow(let reason, let detail):
                troubleSince = troubleSince ?? now
                // A loop that waits for room must be told the time of the probe.
                let change = slow(reason: reason, detail: detail, at: now)
                return (change, change != nil)
            case .park(let reason, let detail):
                troubleSince = troubleSince ?? now
                let change = park(reason: reason, detail: detail, at: now)
                return (change, change != nil)
            }
        }

        /// Applies the failure of messages that went in one request as one failure; it is news if any of them is.
        mutating func apply(
            failure reason: String,
            of messages: [Message],
            at now: Date
        ) -> (Change?, wakes: Bool) {
            let news = messages.count(where: { isNews($0) })
            guard news > 0 else { return (nil, false) }
            let change = breaker?.record(failure: reason, messages: news, at: now)
            return fail(change, at: now)
        }

        private mutating func fail(_ change: Breaker.Change?, at now: Date) -> (Change?, wakes: Bool) {
            troubleSince = troubleSince ?? now
            guard case .opened(let until, let reason)? = change else { return (nil, false) }
            return (.opened(until: until, reason: reason), true)
        }

        /// Stops the worker while invalidations are quarantined, or lets it go on.
        mutating func quarantine(_ isQuarantined: Bool, at now: Date) -> Bool {
            guard isQuarantined != self.isQuarantined else { return false }
            move(isQuarantined ? .quarantine : .resolve) { $0.isQuarantined = isQuarantined }
            if isQuarantined {
                troubleSince = troubleSince ?? now
            } else if !standsStill(at: now) {
                troubleSince = nil
            }
            return true
        }

        /// Pauses the worker; returns true when it was not paused before.
        mutating func pause(until: Date, reason: String) -> Bool {
            let isNew = pausedUntil == nil
            move(.pause) { state in
                // The longer pause counts, with its reason.
                guard state.pausedUntil.map({ until >= $0 }) ?? true else { return }
                (state.pausedUntil, state.pauseReason) = (until, reason)
            }
            return isNew
        }

        /// Slows the backend to single probes, or lengthens the wait between them; nil when nothing changes.
        ///
        /// A parked backend stays parked, since an operator must act; only the time of its next probe changes.
        mutating func slow(reason: String, detail: String?, at now: Date) -> Change? {
            if isParked { return park(reason: probeReason ?? reason, detail: probeDetail ?? detail, at: now) }
            let isNew = !isSlowed || probeReason != reason
            guard let until = nextProbeTime(atMost: BackendSignal.longestSlowWait, at: now) else { return nil }
            let isOld =
                told.map { $0.reason == reason && now < $0.at.addingTimeInterval(State.tellingInterval) } ?? false
            let isFirst = isNew && !isOld
            if isFirst { (told, isTold) = ((reason, now), true) }
            move(.slow) { state in
                state.isSlowed = true
                (state.probeAt, state.probeReason, state.probeDetail) = (until, reason, detail)
            }
            return .slowed(until: until, reason: reason, detail: detail, isFirst: isFirst)
        }

        /// Parks the backend, or lengthens the wait for the next probe; nil when nothing changes.
        mutating func park(reason: String, detail: String?, at now: Date) -> Change? {
            let isFirst = !isParked || probeReason != reason
            guard let until = nextProbeTime(atMost: BackendSignal.longestParkedWait, at: now) else { return nil }
            move(.park) { state in
                (state.isParked, state.isSlowed) = (true, false)
                (state.probeAt, state.probeReason, state.probeDetail) = (until, reason, detail)
            }
            return .parked(until: until, reason: reason, detail: detail, isFirst: isFirst)
        }

        /// Returns the time of the next probe after a refusal; nil before the current probe time, since many refusals
        /// at the same time count as one.
        private mutating func nextProbeTime(atMost longest: Duration, at now: Date) -> Date? {
            guard waitsUntil.map({ now >= $0 }) ?? true else { return nil }
            let wait = min(nextProbe, longest)
            nextProbe = min(nextProbe * 2, longest)
            return now.addingTimeInterval(wait.inSeconds)
        }

        /// Changes what ``status`` shows; no other code does so, except ``restore(_:)``.
        private mutating func move(_ event: FlowEvent, _ change: (inout State) -> Void) {
            let before = status
            change(&self)
            assert(FlowGate.transitions.allows(event, from: before, to: status), "\(before) \(event) \(status)")
        }
    }
}
