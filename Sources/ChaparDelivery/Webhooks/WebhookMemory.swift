package import Foundation
internal import ChaparCore

/// The state of an endpoint that the sender keeps over restarts: its failures, its pause, the reason why it is
/// disabled, and its last attempts.
///
/// It is a value with rules and without side effects: the worker asks it after each attempt. Times are of the steady
/// clock, but for those of attempts, which are shown.
package struct WebhookMemory: Sendable, Hashable {
    /// The reason why an endpoint gets nothing.
    package enum Reason: String, Sendable {
        /// Every attempt of five days failed.
        case failing
        /// It answered 410.
        case gone
        /// The guard refused its address three times in a row.
        case address
        /// An operator disabled it.
        case `operator`
    }

    /// A reason, with its time and the number of the enabling that it ended (``WebhookSettings/generation``).
    package struct Disabled: Sendable, Hashable {
        package var reason: Reason
        package var at: Date
        package var generation: Int64
    }

    /// An attempt, as the API shows it.
    package struct Attempt: Sendable, Hashable {
        package var at: Date
        package var id: String
        package var type: String
        package var attempt: Int
        package var outcome: String
        package var status: Int?
        package var detail: String?
        package var redirectHost: String?
        package var milliseconds: Int64
    }

    /// A warning that an endpoint will be disabled: the part of the time, in percent, that has passed.
    package static let warnings = [50, 70, 90]
    /// The time of failures after which an endpoint is disabled.
    package static let disabledAfter: TimeInterval = 5 * 86_400
    /// The window in which two failures must lie apart by ``distance`` before time counts.
    private static let window: TimeInterval = 86_400
    private static let distance: TimeInterval = 43_200
    /// The number of refused addresses in a row that disables.
    private static let addressLimit = 3
    /// The failures in a row from which new events are tried one at a time.
    static let breakerLimit = 5
    /// The pause between two such tries.
    static let probePause: TimeInterval = 60
    /// The most attempts that are remembered.
    static let keptAttempts = 50
    /// The pauses after answers that ask for less, without a time; the last one is repeated.
    private static let throttlePauses: [Double] = [5, 30, 300]

    /// The time of the first failure since the last success.
    package var failingSince: Date?
    /// Failures of the last 24 hours, at most one an hour, oldest first.
    private var failures: [Date] = []
    /// The time from which the days of failures count.
    package var countingSince: Date?
    /// The highest warning that was given.
    package var warned = 0
    /// The number of failures in a row.
    package var failuresInARow = 0
    private var addressesInARow = 0
    private var throttlesInARow = 0
    /// The time before which nothing is sent.
    package var notBefore: Date?
    /// The time of the last success.
    package var succeededAt: Date?
    /// Why it gets nothing; it counts for its generation only.
    package var disabled: Disabled?
    /// The last attempts, the newest first.
    package var attempts: [Attempt] = []

    package init() {}

    /// Whether new events are tried one at a time.
    var isBroken: Bool { failuresInARow >= Self.breakerLimit }

    /// The time at which it will be disabled when all attempts fail; nil while no time counts.
    package var disabledFrom: Date? { countingSince?.addingTimeInterval(Self.disabledAfter) }

    /// The consequence of an attempt for the endpoint.
    enum Consequence: Hashable {
        case disable(Reason)
        case warn(Int)
        /// An endpoint that failed takes messages again.
        case recovered
    }

    /// Takes the end of an attempt in.
    mutating func take(_ answer: WebhookAnswer, at now: Date) -> Consequence? {
        if answer.isSuccess {
            let wasBroken = isBroken
            // A request that began before the endpoint was disabled does not enable it.
            let (kept, reason) = (attempts, disabled)
            self = WebhookMemory()
            (attempts, succeededAt, disabled) = (kept, now, reason)
            return wasBroken ? .recovered : nil
        }
        throttle(answer, now)
        failuresInARow += 1
        addressesInARow = answer.failure == .address ? addressesInARow + 1 : 0
        if answer.status == 410 { return .disable(.gone) }
        if addressesInARow >= Self.addressLimit { return .disable(.address) }
        return fail(at: now)
    }

    private mutating func throttle(_ answer: WebhookAnswer, _ now: Date) {
        let isThrottled = answer.outcome == "throttled"
        throttlesInARow = isThrottled ? throttlesInARow + 1 : 0
        var pause = answer.retryAfter?.inSeconds
        if pause == nil, isThrottled {
            pause = Self.throttlePauses[min(throttlesInARow, Self.throttlePauses.count) - 1]
        }
        guard let pause else { return }
        notBefore = max(notBefore ?? now, now.addingTimeInterval(pause))
    }

    /// Counts a failure by the rule of Svix.
    ///
    /// The days until an endpoint is disabled begin when two failures within 24 hours are at least 12 hours apart. So a
    /// single outage of a quiet endpoint does not count as days of failure.
    private mutating func fail(at now: Date) -> Consequence? {
        failingSince = failingSince ?? now
        failures.removeAll { now.timeIntervalSince($0) > Self.window }
        if failures.last.map({ now.timeIntervalSince($0) >= 3_600 }) ?? true { failures.append(now) }
        if countingSince == nil, let first = failures.first, now.timeIntervalSince(first) >= Self.distance {
            countingSince = now
        }
        guard let countingSince else { return nil }
        let part = now.timeIntervalSince(countingSince) / Self.disabledAfter
        if part >= 1 { return .disable(.failing) }
        guard let warning = Self.warnings.last(where: { part * 100 >= Double($0) }), warning > warned else {
            return nil
        }
        warned = warning
        return .warn(warning)
    }

    /// Adds an attempt to those that are remembered.
    mutating func note(_ attempt: Attempt) {
        attempts.insert(attempt, at: 0)
        if attempts.count > Self.keptAttempts { attempts.removeLast(attempts.count - Self.keptAttempts) }
    }

    /// Forgets failures and the reason: the endpoint was enabled again.
    mutating func restart() {
        let (kept, time) = (attempts, succeededAt)
        self = WebhookMemory()
        (attempts, succeededAt) = (kept, time)
    }

    // MARK: The stored form

    /// The encoding, JSON.
    package var encoded: [UInt8] {
        var object = JSONObject()
        func put(_ name: String, _ time: Date?) { object[name] = time.map { .integer($0.millisecondsSince1970) } }
        put("failing_since", failingSince)
        put("counting_since", countingSince)
        put("not_before", notBefore)
        put("succeeded_at", succeededAt)
        if !failures.isEmpty { object["failures"] = .array(failures.map { .integer($0.millisecondsSince1970) }) }
        func put(_ name: String, _ number: Int) { if number != 0 { object[name] = .integer(Int64(number)) } }
        put("warned", warned)
        put("failures_in_a_row", failuresInARow)
        put("addresses_in_a_row", addressesInARow)
        put("throttles_in_a_row", throttlesInARow)
        if let disabled {
            object["disabled"] = [
                "reason": .string(disabled.reason.rawValue), "at": .integer(disabled.at.millisecondsSince1970),
                "generation": .integer(disabled.generation),
            ]
        }
        object["attempts"] = .array(attempts.map(\.json))
        return JSONValue.object(object).bytes
    }

    /// Reads the encoding; an unreadable one gives an empty memory.
    package init(encoded: [UInt8]) {
        guard let json = try? JSONValue(parsing: encoded) else { return }
        func time(_ name: String) -> Date? { json[name]?.integerValue.map { Date(millisecondsSince1970: $0) } }
        func number(_ name: String) -> Int { json[name]?.integerValue.map { Int(clamping: max(0, $0)) } ?? 0 }
        failingSince = time("failing_since")
        countingSince = time("counting_since")
        notBefore = time("not_before")
        succeededAt = time("succeeded_at")
        failures = (json["failures"]?.arrayValue ?? []).compactMap(\.integerValue).map {
            Date(millisecondsSince1970: $0)
        }
        warned = number("warned")
        failuresInARow = min(number("failures_in_a_row"), 1_000_000)
        addressesInARow = min(number("addresses_in_a_row"), 1_000_000)
        throttlesInARow = min(number("throttles_in_a_row"), 1_000_000)
        if let found = json["disabled"], let reason = found["reason"]?.stringValue.flatMap(Reason.init),
            let at = found["at"]?.integerValue, let generation = found["generation"]?.integerValue
        {
            disabled = Disabled(reason: reason, at: Date(millisecondsSince1970: at), generation: generation)
        }
        attempts = (json["attempts"]?.arrayValue ?? []).compactMap(Attempt.init)
    }
}

extension WebhookMemory.Attempt {
    /// The form in memory and in the API; `at` is in milliseconds since 1970.
    fileprivate var json: JSONValue {
        var object: JSONObject = [
            "at": .integer(at.millisecondsSince1970), "id": .string(id), "type": .string(type),
            "attempt": .integer(Int64(attempt)), "outcome": .string(outcome), "ms": .integer(milliseconds),
        ]
        object["status"] = status.map { .integer(Int64($0)) }
        object["detail"] = detail.map { .string($0) }
        object["redirect"] = redirectHost.map { .string($0) }
        return .object(object)
    }

    fileprivate init?(_ json: JSONValue) {
        guard let at = json["at"]?.integerValue, let id = json["id"]?.stringValue, let type = json["type"]?.stringValue,
            let outcome = json["outcome"]?.stringValue
        else { return nil }
        self.init(
            at: Date(millisecondsSince1970: at),
            id: id,
            type: type,
            attempt: json["attempt"]?.integerValue.map { Int(clamping: $0) } ?? 0,
            outcome: outcome,
            status: json["status"]?.integerValue.map { Int(clamping: $0) },
            detail: json["detail"]?.stringValue,
            redirectHost: json["redirect"]?.stringValue,
            milliseconds: json["ms"]?.integerValue ?? 0
        )
    }
}
