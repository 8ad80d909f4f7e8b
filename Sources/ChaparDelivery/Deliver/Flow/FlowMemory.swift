internal import Foundation
internal import ChaparCore
internal import ChaparComposition

/// The part of a backend's ``FlowControl`` that survives a restart, as a small value in the store.
///
/// Times are on the steady clock.
struct FlowMemory: Sendable {
    /// The most recipients whose pauses are kept.
    static let mostRecipients = 500
    /// The longest pause, in seconds, that is restored when the wall clock was set back in between, since then the time
    /// that has passed is unknown.
    private static let longestAfterStepBack = 60.0

    /// The identity of the backend.
    var identity: String
    /// The time of this state.
    var at: Date
    var pausedUntil: Date?
    var pauseReason: String?
    var isParked = false
    var isSlowed = false
    /// The next wait while parked or slowed; nil is the first one.
    var nextProbe: Duration?
    var troubleSince: Date?
    /// The state of the breaker; nil is closed.
    var breaker: Breaker.State?
    /// The length of the breaker's next opening.
    var cooldown: Duration?
    /// The fill of the quota's bucket, from 0 to 1; nil when it does not matter.
    var fill: Double?
    /// The progress of the quota's ramp, from 0 to 1.
    var ramp: Double?
    var recipients: [(recipient: Recipient, until: Date)] = []

    init(identity: String, at now: Date) {
        self.identity = identity
        at = now
    }

    /// Whether it equals the state of a backend without troubles.
    var isEmpty: Bool {
        pausedUntil == nil && !isParked && !isSlowed && nextProbe == nil && troubleSince == nil && breaker == nil
            && fill ?? 1 >= 1
            && ramp ?? 0 <= 0 && recipients.isEmpty
    }

    /// Whether another memory says the same; nil stands for a backend without troubles.
    func isLike(_ other: FlowMemory?, comparingQuota: Bool) -> Bool {
        let other = other ?? FlowMemory(identity: identity, at: at)
        guard identity == other.identity, pausedUntil == other.pausedUntil, pauseReason == other.pauseReason,
            isParked == other.isParked, isSlowed == other.isSlowed, nextProbe == other.nextProbe,
            troubleSince == other.troubleSince,
            breaker == other.breaker, cooldown == other.cooldown
        else { return false }
        guard recipients.elementsEqual(other.recipients, by: { $0 == $1 }) else { return false }
        return !comparingQuota || fill ?? 1 == other.fill ?? 1 && ramp ?? 0 == other.ramp ?? 0
    }

    // MARK: As it is stored

    /// Returns the form for the store: durations from a wall-clock time, since the next process has another steady
    /// clock.
    func stored(at now: TimeReading) -> [UInt8] {
        func span(_ time: Date) -> JSONValue {
            .integer(Int64(clamping: (time.timeIntervalSince(now.steady) * 1000).rounded()))
        }
        var object = JSONObject()
        object["identity"] = .string(identity)
        object["at"] = .integer(now.wall.millisecondsSince1970)
        if let pausedUntil { object["paused_until"] = span(pausedUntil) }
        if let pauseReason { object["pause_reason"] = .string(pauseReason) }
        if isParked { object["parked"] = .bool(true) }
        if isSlowed { object["slowed"] = .bool(true) }
        if let nextProbe { object["next_probe"] = .integer(nextProbe.inMilliseconds) }
        if let troubleSince { object["trouble_since"] = span(troubleSince) }
        switch breaker {
        case .open(let until, let reason)?:
            object["breaker_until"] = span(until)
            object["breaker_reason"] = .string(reason)
        case .halfOpen(let until, let reason)?:
            object["breaker_until"] = span(until ?? now.steady)
            object["breaker_reason"] = .string(reason)
        case .closed?, nil: break
        }
        if let cooldown { object["breaker_cooldown"] = .integer(cooldown.inMilliseconds) }
        if let fill { object["quota_fill"] = .integer(Int64(clamping: (fill * 1e6).rounded())) }
        if let ramp { object["quota_ramp"] = .integer(Int64(clamping: (ramp * 1e6).rounded())) }
        if !recipients.isEmpty {
            object["recipients"] = .array(
                recipients.map { ["recipient": .string($0.recipient.storedForm), "until": span($0.until)] }
            )
        }
        return JSONValue.object(object).bytes
    }

    /// Reads ``stored(at:)``; nil for anything else.
    ///
    /// The wall clock tells the time that has passed; if it was set back in between, no pause lasts longer than a
    /// minute.
    init?(stored: [UInt8], at now: TimeReading) {
        guard let value = try? JSONValue(parsing: stored), let identity = value["identity"]?.stringValue,
            let written = value["at"]?.integerValue
        else { return nil }
        self.init(identity: identity, at: now.steady)
        let passed = now.wall.timeIntervalSince(Date(millisecondsSince1970: written))
        func time(_ key: String, in value: JSONValue) -> Date? {
            guard let span = value[key]?.integerValue.map({ Double($0) / 1000 }) else { return nil }
            let rest = passed < -1 ? min(span, Self.longestAfterStepBack) : span - max(0, passed)
            return now.steady.addingTimeInterval(rest)
        }
        pausedUntil = time("paused_until", in: value)
        pauseReason = value["pause_reason"]?.stringValue
        isParked = value["parked"]?.boolValue ?? false
        isSlowed = value["slowed"]?.boolValue ?? false
        nextProbe = value["next_probe"]?.integerValue.map { .milliseconds($0) }
        troubleSince = time("trouble_since", in: value).map { min($0, now.steady) }
        if let until = time("breaker_until", in: value) {
            breaker = .open(until: until, reason: value["breaker_reason"]?.stringValue ?? "")
        }
        cooldown = value["breaker_cooldown"]?.integerValue.map { .milliseconds($0) }
        fill = value["quota_fill"]?.integerValue.map { Double($0) / 1e6 }
        ramp = value["quota_ramp"]?.integerValue.map { Double($0) / 1e6 }
        for pause in value["recipients"]?.arrayValue ?? [] {
            guard let recipient = pause["recipient"]?.stringValue.flatMap({ Recipient(storedForm: $0) }),
                let until = time("until", in: pause)
            else { continue }
            recipients.append((recipient, until))
        }
    }
}
