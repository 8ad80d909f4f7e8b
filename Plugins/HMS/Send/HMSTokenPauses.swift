import Foundation
import ChaparCore
import Synchronization

/// The device tokens that Huawei has asked to leave alone, each until a date: then one message tries again.
///
/// Huawei says so for single tokens of an answer (`noRight`) and in delivery receipts (statuses 6, 10, 102, 201 and
/// 256, of which it advises to leave 6, 10 and 201 out). None of them means that the token is dead, so the registry
/// keeps it. Bounded, and in memory: after a restart or a reload each token costs one more refusal.
final class HMSTokenPauses: Sendable {
    /// The handling of one of Huawei's reasons.
    struct Rule: Sendable, Hashable {
        /// How long a pause lasts.
        enum Span: Sendable, Hashable {
            case fixed(Duration)
            /// Until the day ends at Huawei (UTC+8): its limits count calendar days.
            case untilTomorrow
        }

        var span: Span
        /// Whether the message is to come later through Huawei; else the delivery goes on to the next backend.
        var waits = false
        /// Whether silent messages go out nevertheless.
        var concernsVisibleOnly = false
    }

    /// The reasons that pause a token.
    ///
    /// The spans are ours, except for the day: Huawei names no other. After a week at most an unused phone gets another
    /// try.
    static let rules: [String: Rule] = [
        "noRight": Rule(span: .fixed(week)),
        "not_shown": Rule(span: .fixed(week), concernsVisibleOnly: true),
        "device_inactive": Rule(span: .fixed(week)),
        "controlled": Rule(span: .fixed(week)),
        "daily_limit": Rule(span: .untilTomorrow, waits: true),
        "frequency_limit": Rule(span: .fixed(.seconds(3600)), waits: true),
    ]
    /// The most tokens that are paused; when it is reached, an arbitrary pause is dropped for a new one.
    static let capacity = 100_000
    private static let week = Duration.seconds(7 * 86_400)

    private struct Pause {
        var reason: String
        var until: Date
    }

    private let pauses = Mutex<[String: Pause]>([:])

    /// Records a reason that Huawei gave for a token at `moment`; a reason without a rule changes nothing.
    func add(_ reason: String, of token: String, at moment: Date) {
        guard let rule = Self.rules[reason] else { return }
        let until =
            switch rule.span {
            case .fixed(let span): moment.addingTimeInterval(span.inSeconds)
            case .untilTomorrow: Self.tomorrow(after: moment)
            }
        pauses.withLock { pauses in
            if let known = pauses[token], known.until >= until { return }
            if pauses.count >= Self.capacity, pauses[token] == nil { pauses.remove(at: pauses.startIndex) }
            pauses[token] = Pause(reason: reason, until: until)
        }
    }

    /// Ends the pause of a token that a message has reached.
    func end(_ token: String) { pauses.withLock { _ = $0.removeValue(forKey: token) } }

    /// Why a message to the token does not go out now, with the date; nil when it may.
    func refusal(of token: String, isSilent: Bool, at now: Date) -> Refusal? {
        let pause: Pause? = pauses.withLock { pauses in
            guard !pauses.isEmpty, let pause = pauses[token] else { return nil }
            guard pause.until > now else {
                pauses[token] = nil
                return nil
            }
            return pause
        }
        guard let pause, let rule = Self.rules[pause.reason], !(isSilent && rule.concernsVisibleOnly) else {
            return nil
        }
        let why = HMSTokenReasons.detail(pause.reason) ?? HMSReceiptStatus.detail(of: pause.reason) ?? ""
        let rest = Duration.seconds(clamping: pause.until.timeIntervalSince(now).rounded(.up))
        return Refusal(
            .token,
            reason: pause.reason,
            detail: "\(why) Nothing is sent to the token before \(RFC3339.string(pause.until)).",
            advice: rule.waits ? .slowRecipient(after: rest) : .never
        )
    }

    /// How many tokens are paused.
    var count: Int { pauses.withLock { $0.count } }

    private static func tomorrow(after moment: Date) -> Date {
        let offset: TimeInterval = 8 * 3600
        let days = ((moment.timeIntervalSince1970 + offset) / 86_400).rounded(.down) + 1
        return Date(timeIntervalSince1970: days * 86_400 - offset)
    }
}
