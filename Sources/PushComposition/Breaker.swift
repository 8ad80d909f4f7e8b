public import Foundation
public import PushCore

/// Decides whether a backend is used at all: closed, open after too many failures, half open for a probe.
///
/// A value whose time comes from outside; ``CircuitBreakingBackend`` and the gateway's workers keep one for each
/// backend.
public struct Breaker: Sendable {
    /// When it opens and for how long.
    public typealias Settings = BreakerSettings

    /// How it stands.
    public enum State: Sendable, Hashable {
        /// Messages pass.
        case closed
        /// None pass until then.
        case open(until: Date, reason: String)
        /// One passes at a time, to see; `probeUntil` is when the one under way is given up.
        case halfOpen(probeUntil: Date?, reason: String)
    }

    /// What a message may do.
    public enum Admission: Sendable, Hashable {
        /// Go.
        case pass
        /// Go alone, as a probe: its outcome decides.
        case probe
        /// Not before then.
        case refuse(until: Date, reason: String)
    }

    /// What a signal changed.
    public enum Change: Sendable, Hashable {
        /// It opened, or opened again after a probe, until then.
        case opened(until: Date, reason: String)
        /// It closed.
        case closed
    }

    /// How it stands.
    public private(set) var state = State.closed
    private var settings: Settings
    private var counts: RecentCounts
    /// Failed requests of several messages since the last one that worked.
    private var failedInRow = 0
    /// How long the next opening lasts.
    public private(set) var nextCooldown: Duration
    /// How long it stays open next for a platform that asks for a pause without saying how long.
    private var nextRest = BackendSignal.firstWait

    /// Makes a closed breaker.
    public init(_ settings: Settings = Settings()) {
        self.settings = settings
        counts = RecentCounts(window: settings.window)
        nextCooldown = settings.cooldown
    }

    /// Asks for leave to send; after ``Admission/probe`` the next answer is that of one message alone.
    public mutating func admit(at now: Date) -> Admission {
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

    /// Gives a probe back that showed nothing, so that another can be made at once.
    public mutating func abandonProbe() {
        if case .halfOpen(_, let reason) = state { move(.abandon, to: .halfOpen(probeUntil: nil, reason: reason)) }
    }

    /// Takes what an answer says of the backend, `count` times the same; says what it changed.
    @discardableResult
    public mutating func record(_ signal: BackendSignal, count: Int = 1, at now: Date) -> Change? {
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

    /// Takes the failure of messages that went in fewer requests.
    ///
    /// The requests count as failures, so that one which carried many does not open it by itself; the share is one of
    /// messages. Requests of several messages are few and may each last longer than ``Settings/window``: they count
    /// however far apart they fail, while none works.
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

    /// The name of ``record(_:count:at:)`` before.
    @available(*, deprecated, renamed: "record(_:count:at:)")
    @discardableResult
    public mutating func note(_ signal: BackendSignal, count: Int = 1, at now: Date) -> Change? {
        record(signal, count: count, at: now)
    }

    /// Opens it until then, whatever was counted, unless it is open for longer: an operator's hand, or a guard's.
    @discardableResult
    public mutating func trip(until: Date, reason: String) -> Change? { rest(.trip, until: until, reason) }

    /// Lets a probe go at once, after which the wait is the first one again unless `keepingNext`; the reason for which
    /// it was open, or nil when it was not.
    package mutating func endCooldown(at now: Date, keepingNext: Bool = false) -> String? {
        if !keepingNext { nextCooldown = settings.cooldown }
        guard case .open(let until, let reason) = state, until > now else { return nil }
        move(.trip, to: .open(until: now, reason: reason))
        return reason
    }

    /// Goes by other settings from now on; how it stands does not change.
    public mutating func adopt(_ settings: Settings) {
        guard settings != self.settings else { return }
        if settings.window != self.settings.window { counts = RecentCounts(window: settings.window) }
        let isWaiting = state != .closed
        nextCooldown = isWaiting ? min(nextCooldown, settings.longestCooldown) : settings.cooldown
        self.settings = settings
    }

    /// Puts a breaker back as it was left: how it stood, and how long its next opening lasts.
    public mutating func restore(_ state: State, cooldown: Duration?) {
        self.state = state
        nextCooldown = min(cooldown ?? settings.cooldown, settings.longestCooldown)
    }

    /// Closes it and forgets what was counted.
    @discardableResult
    public mutating func reset() -> Change? { close(.reset) }

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

    /// The one place that changes the state, but for ``restore(_:cooldown:)``.
    private mutating func move(_ event: BreakerEvent, to new: State) {
        assert(Self.transitions.allows(event, from: state.status, to: new.status), "\(state) \(event) \(new)")
        state = new
    }
}

/// Failures, the messages that failed with them, and answers of the last while, in ten slices of time: memory does not
/// grow with the traffic.
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

    /// Empties the slices that have become old; gives the newest one's index.
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
