public import Foundation
public import ChaparCore

/// A circuit breaker of a backend: closed, open after too many failures, half open for a probe.
///
/// It is a value that the caller supplies with the time; ``CircuitBreakingBackend`` and the gateway's workers keep one
/// for each backend.
public struct Breaker: Sendable {
    /// When it opens and for how long.
    public typealias Settings = BreakerSettings

    /// The state of a breaker.
    public enum State: Sendable, Hashable {
        /// Messages pass.
        case closed
        /// No message passes until this time.
        case open(until: Date, reason: String)
        /// One message passes at a time, as a probe; `probeUntil` is when the current one is given up.
        case halfOpen(probeUntil: Date?, reason: String)
    }

    /// The answer to a request to send.
    package enum Admission: Sendable, Hashable {
        /// Send.
        case pass
        /// Send one message, as a probe: its outcome decides.
        case probe
        /// Do not send before this time.
        case refuse(until: Date, reason: String)
    }

    /// The change that a signal caused.
    public enum Change: Sendable, Hashable {
        /// It opened, or opened again after a probe, until this time.
        case opened(until: Date, reason: String)
        /// It closed.
        case closed
    }

    /// The state.
    package private(set) var state = State.closed
    private var settings: Settings
    private var counts: RecentCounts
    /// The number of failed requests of several messages since the last success.
    private var failedInRow = 0
    /// The length of the next opening.
    package private(set) var nextCooldown: Duration
    /// The length of the next opening for a platform that asks for a pause without a length.
    private var nextRest = BackendSignal.firstWait

    /// Makes a closed breaker.
    package init(_ settings: Settings = Settings()) {
        self.settings = settings
        counts = RecentCounts(window: settings.window)
        nextCooldown = settings.cooldown
    }

    /// Requests permission to send; after ``Admission/probe`` the next answer must be that of one message alone.
    package mutating func admit(at now: Date) -> Admission {
        switch state {
        case .closed:
            return .pass
        case .open(let until, let reason) where now < until:
            return .refuse(until: until, reason: reason)
        case .halfOpen(let probeUntil?, let reason) where now < probeUntil:
            return .refuse(until: probeUntil, reason: reason)
        case .open(_, let reason), .halfOpen(_, let reason):
            move(.probe, to: .halfOpen(probeUntil: now.addingTimeInterval(settings.cooldown.inSeconds), reason: reason))
            return .probe
        }
    }

    /// Returns a probe without a result, so that another can be made at once.
    package mutating func abandonProbe() {
        if case .halfOpen(_, let reason) = state { move(.abandon, to: .halfOpen(probeUntil: nil, reason: reason)) }
    }

    /// Records the signal of an answer, `count` times; returns the change that it caused.
    @discardableResult
    package mutating func record(_ signal: BackendSignal, count: Int = 1, at now: Date) -> Change? {
        switch signal {
        case .nothing:
            return nil
        case .works:
            failedInRow = 0
            counts.add(works: count, at: now)
            guard case .halfOpen = state else { return nil }  // While open it is an old message's answer.
            return close(.work)
        case .fails(let reason):
            return record(failure: reason, messages: count, requests: count, at: now)
        case .pause(let span, let reason):
            return rest(.pause, until: now.addingTimeInterval(span.inSeconds), reason)
        case .slow(let reason, _):
            if case .open = state { return nil }
            defer { nextRest = min(nextRest * 2, BackendSignal.longestSlowWait) }
            return rest(.slow, until: now.addingTimeInterval(nextRest.inSeconds), reason)
        case .park(let reason, _):
            if case .open = state { return nil }
            return open(.park, reason, at: now)
        }
    }

    /// Records the failure of messages that were sent in fewer requests.
    ///
    /// Each request counts as one failure, so that a single large request does not open the breaker; ``Settings/share``
    /// counts messages. A backend sends few requests of several messages, and each may last longer than
    /// ``Settings/window``. So failures of such requests count even if they are far apart, until a request succeeds.
    @discardableResult
    package mutating func record(failure reason: String, messages: Int, requests: Int = 1, at now: Date) -> Change? {
        counts.add(failures: requests, failed: messages, at: now)
        if messages > requests { failedInRow = failedInRow.adding(clamping: requests) }
        switch state {
        case .open: return nil
        case .halfOpen: return open(.fail, reason, at: now)
        case .closed:
            let (failures, failed, answers) = counts.sums(at: now)
            guard max(failures, failedInRow) >= settings.failures else { return nil }
            guard Double(failed) >= settings.share * Double(answers) else { return nil }
            return open(.fail, reason, at: now)
        }
    }

    /// Opens it until a time, no matter what was counted, unless it is open for longer: for an operator, or a guard.
    @discardableResult
    package mutating func trip(until: Date, reason: String) -> Change? { rest(.trip, until: until, reason) }

    /// Ends the wait of an open breaker, so that a probe can be sent at once; returns the reason for which the breaker
    /// was open, or nil when it was not open.
    ///
    /// The next wait is as short as the first one again, unless `keepingNext` is true.
    package mutating func endCooldown(at now: Date, keepingNext: Bool = false) -> String? {
        if !keepingNext { nextCooldown = settings.cooldown }
        guard case .open(let until, let reason) = state, until > now else { return nil }
        move(.trip, to: .open(until: now, reason: reason))
        return reason
    }

    /// Uses other settings from now on; the state does not change.
    package mutating func adopt(_ settings: Settings) {
        guard settings != self.settings else { return }
        if settings.window != self.settings.window { counts = RecentCounts(window: settings.window) }
        let isWaiting = state != .closed
        nextCooldown = isWaiting ? min(nextCooldown, settings.longestCooldown) : settings.cooldown
        self.settings = settings
    }

    /// Restores a saved breaker: its state, and the length of its next opening.
    package mutating func restore(_ state: State, cooldown: Duration?) {
        self.state = state
        nextCooldown = min(cooldown ?? settings.cooldown, settings.longestCooldown)
    }

    /// Closes it and resets all counts.
    @discardableResult
    package mutating func reset() -> Change? { close(.reset) }

    private mutating func open(_ event: BreakerEvent, _ reason: String, at now: Date) -> Change {
        let until = now.addingTimeInterval(nextCooldown.inSeconds)
        nextCooldown = min(nextCooldown * 2, settings.longestCooldown)
        move(event, to: .open(until: until, reason: reason))
        return .opened(until: until, reason: reason)
    }

    private mutating func rest(_ event: BreakerEvent, until: Date, _ reason: String) -> Change? {
        if case .open(let end, _) = state, end >= until { return nil }
        move(event, to: .open(until: until, reason: reason))
        return .opened(until: until, reason: reason)
    }

    private mutating func close(_ event: BreakerEvent) -> Change? {
        nextCooldown = settings.cooldown
        nextRest = BackendSignal.firstWait
        failedInRow = 0
        counts = RecentCounts(window: settings.window)
        guard state != .closed else { return nil }
        move(event, to: .closed)
        return .closed
    }

    /// Changes the state: the only place that does so, except ``restore(_:cooldown:)``.
    private mutating func move(_ event: BreakerEvent, to new: State) {
        assert(Self.transitions.allows(event, from: state.status, to: new.status), "\(state) \(event) \(new)")
        state = new
    }
}

/// The numbers of failures, failed messages and answers in the window, counted in ten slices of time, so that memory
/// does not grow with traffic.
struct RecentCounts: Sendable {
    private static let slices = 10
    private let span: Double
    private var failures = Array(repeating: 0, count: Self.slices)
    private var failed = Array(repeating: 0, count: Self.slices)
    private var answers = Array(repeating: 0, count: Self.slices)
    /// The number of the newest slice, counted from 1970.
    private var newest: Int64 = 0

    init(window: Duration) { span = max(window.inSeconds, 0.001) / Double(Self.slices) }

    mutating func add(works: Int = 0, failures requests: Int = 0, failed messages: Int = 0, at now: Date) {
        let index = turn(to: now)
        failures[index] += requests
        failed[index] += messages
        answers[index] += messages + works
    }

    mutating func sums(at now: Date) -> (failures: Int, failed: Int, answers: Int) {
        _ = turn(to: now)
        return (failures.reduce(0, +), failed.reduce(0, +), answers.reduce(0, +))
    }

    /// Empties the slices that are too old; returns the newest one's index.
    private mutating func turn(to now: Date) -> Int {
        let slice = max(newest, Int64(clamping: now.timeIntervalSince1970 / span))
        let passed = min(slice.subtracting(clamping: newest), Int64(Self.slices))
        for step in 0..<passed {
            let index = Int(slice.subtracting(clamping: step) % Int64(Self.slices))
            failures[index] = 0
            failed[index] = 0
            answers[index] = 0
        }
        newest = slice
        return Int(slice % Int64(Self.slices))
    }
}
