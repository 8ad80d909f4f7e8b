import Foundation
import ChaparCore
import Synchronization

/// The device tokens that get no messages until a date, since Huawei asked for it; after the date one message is tried.
///
/// The sources are single tokens of an answer (`noRight`) and delivery receipts with the statuses 6, 10, 102, 201 and
/// 256. For 6, 10 and 201 Huawei advises to stop sending. None of them means that the token is dead, so the registry
/// keeps it. Bounded, and in memory: after a restart or a reload each token costs one more refusal.
final class HMSTokenPauses: Sendable {
    /// The handling of one of Huawei's reasons.
    struct Rule: Sendable, Hashable {
        /// The length of a pause.
        enum Span: Sendable, Hashable {
            case fixed(Duration)
            /// Until the end of the day at Huawei (UTC+8), since its limits count calendar days.
            case untilTomorrow
        }

        var span: Span
        /// Whether the delivery waits for Huawei; otherwise it goes on to the next backend.
        var waits = false
        /// Whether silent messages are sent during the pause.
        var concernsVisibleOnly = false
    }

    /// The reasons that pause a token.
    ///
    /// Huawei names the span of a day only; the others are Chapar's choice. An unused phone gets another message after
    /// a week at most.
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

    /// Returns the refusal of a message to a paused token, with the date; nil when the message may go out.
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

    /// The number of paused tokens.
    var count: Int { pauses.withLock { $0.count } }

    private static func tomorrow(after moment: Date) -> Date {
        let offset: TimeInterval = 8 * 3600
        let days = ((moment.timeIntervalSince1970 + offset) / 86_400).rounded(.down) + 1
        return Date(timeIntervalSince1970: days * 86_400 - offset)
    }
}
