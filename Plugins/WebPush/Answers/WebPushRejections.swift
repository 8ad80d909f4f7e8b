internal import ChaparCore

/// The tables of push services' answers: what each word, number or status means for the message, the subscription and
/// the origin.
///
/// Nothing here depends on which service it is: Mozilla's `errno` is decisive, then Apple's `reason`, then Microsoft's
/// header fields and Google's words, then the status. ``WebPushOutcomes`` applies a row.
enum WebPushRejections {
    /// The handling that an answer calls for.
    enum Consequence: Sendable, Hashable {
        /// The service took the message.
        case accepted
        /// The subscription is gone.
        case invalid
        /// The message is refused for good.
        case drop
        /// As `drop`, after one more attempt without the topic.
        case dropTopic
        /// The subscription was made with another VAPID key.
        case otherKey
        /// Once more with a fresh VAPID token; after that an operator must act.
        case resign
        /// Once more with a fresh VAPID token; after that only waiting helps.
        case resignThenRetry
        /// An operator must act.
        case account
        /// Only this device gets too much.
        case slowDevice
        /// The whole service asks for a pause.
        case slowOrigin
        /// Only waiting helps.
        case retry
        /// The message may have been sent.
        case unknown
    }

    /// A row of the table.
    struct Rule: Sendable, Hashable {
        let consequence: Consequence
        let reason: String
        let detail: String?
        /// Whether the row was chosen by the status alone.
        ///
        /// Then the cause may also be that the subscription was made with another VAPID key.
        let isVague: Bool

        init(_ consequence: Consequence, _ reason: String, _ detail: String? = nil, isVague: Bool = false) {
            self.consequence = consequence
            self.reason = reason
            self.detail = detail
            self.isVague = isVague
        }
    }

    private static let ours = "Chapar made a request that the service does not take: report it, with the reason."
    private static let gone = "The subscription is gone: the page was closed for good, or it subscribed anew."
    private static let vapid =
        "The service refuses the VAPID token: check subject (mailto: or https:) and this machine's clock."
    private static let mismatch =
        "The subscription was made with another VAPID key: give the older key in previous_vapid_keys, or let the page "
        + "unsubscribe and subscribe anew."
    private static let foreign = Rule(
        .unknown,
        "bad_answer",
        "The service gave an answer that push services do not give."
    )
    private static let tooLarge = "The service takes no message of this size."

    /// `errno` of Mozilla's answers.
    private static let numbers: [Int64: Rule] = [
        101: Rule(.drop, "errno_101", ours), 110: Rule(.drop, "errno_110", ours),
        111: Rule(.drop, "errno_111", ours), 112: Rule(.drop, "errno_112", ours),
        113: Rule(.dropTopic, "errno_113", ours), 114: Rule(.drop, "errno_114", ours),
        102: Rule(.invalid, "errno_102", gone), 103: Rule(.invalid, "errno_103", gone),
        104: Rule(.drop, "too_large", tooLarge),
        105: Rule(.invalid, "errno_105", gone), 106: Rule(.invalid, "errno_106", gone),
        109: Rule(.resign, "errno_109", vapid),
        201: Rule(.slowOrigin, "errno_201", "Mozilla asks for a pause."),
        202: Rule(.retry, "errno_202", "Mozilla asks for another attempt."),
        900: Rule(.retry, "errno_900", "Mozilla's bridge has trouble."),
        901: Rule(.retry, "errno_901", "Mozilla's bridge has trouble."),
        902: Rule(.retry, "errno_902", "Mozilla's bridge has trouble."),
        903: Rule(.unknown, "errno_903", "Mozilla's bridge gave no answer: the message may have been sent."),
        999: Rule(.retry, "errno_999", "Mozilla has a problem."),
    ]

    /// `reason` of Apple's answers.
    private static let words: [String: Rule] = [
        "BadWebPushTopic": Rule(.dropTopic, "BadWebPushTopic", ours),
        "BadTtl": Rule(.drop, "BadTtl", ours), "BadUrgency": Rule(.drop, "BadUrgency", ours),
        "BadWebPushRequest": Rule(.drop, "BadWebPushRequest", ours),
        "PayloadTooLarge": Rule(.drop, "too_large", tooLarge),
        "VapidPkHashMismatch": Rule(.otherKey, "vapid_key_mismatch", mismatch),
        "BadJwtToken": Rule(.resign, "BadJwtToken", vapid),
        "BadVapidPublicKey": Rule(.resign, "BadVapidPublicKey", vapid),
        "ExpiredJwtToken": Rule(.resign, "ExpiredJwtToken", vapid),
        "Unregistered": Rule(.invalid, "Unregistered", gone),
        "ExpiredToken": Rule(.invalid, "ExpiredToken", gone),
        "BadDeviceToken": Rule(.invalid, "BadDeviceToken", gone),
        "TooManyRequests": Rule(.slowDevice, "TooManyRequests", "Apple takes fewer messages for one device."),
        "InternalServerError": Rule(.retry, "InternalServerError", "Apple has a problem."),
        "ServiceUnavailable": Rule(.slowOrigin, "ServiceUnavailable", "Apple asks for a pause."),
        "Shutdown": Rule(.retry, "Shutdown", "Apple's server ends."),
    ]

    /// The rows of HTTP statuses, for answers whose words and numbers have no row.
    private static let statuses: StatusTable<Rule> = [
        .on(200, 201, 202, 204, means: Rule(.accepted, "accepted")),
        .within(200...299, means: foreign),
        .within(
            300...399,
            means: Rule(.account, "redirect", "The service answers with a redirect, which is never followed.")
        ),
        .on(401, means: Rule(.resignThenRetry, "unauthorized", vapid, isVague: true)),
        .on(403, means: Rule(.resign, "forbidden", vapid, isVague: true)),
        .on(404, 410, means: Rule(.invalid, "gone", gone)),
        .on(406, 429, means: Rule(.slowOrigin, "throttled", "The service asks for a pause.")),
        .on(408, means: Rule(.retry, "timeout", "The service did not get the request in time.")),
        .on(413, means: Rule(.drop, "too_large", tooLarge)),
        .within(400...499, means: Rule(.drop, "rejected", "The service does not take the message.")),
        .on(502, 504, means: Rule(.unknown, "bad_gateway", "A front end lost the answer: it may have been sent.")),
        .on(503, means: Rule(.slowOrigin, "unavailable", "The service is not available.")),
        .within(500...599, means: Rule(.retry, "server_error", "The service has a problem.")),
        .others(means: foreign),
    ]

    /// Returns what an answer means.
    static func rule(of answer: WebPushAnswer) -> Rule {
        let isRefusal = answer.status >= 400
        if isRefusal, let number = answer.errno, let rule = numbers[number] {
            // One number stands for every fault of VAPID; only the words tell the key from the token.
            return number == 109 && answer.text.contains("mismatch")
                ? Rule(.otherKey, "vapid_key_mismatch", mismatch) : rule
        }
        // A portal or a proxy in between answers 200 with a page; no push service does.
        if answer.status == 200, answer.text.hasPrefix("<") { return foreign }
        if isRefusal, let reason = answer.reason, let rule = words[reason] { return rule }
        if isRefusal, let rule = microsoft(answer) ?? google(answer) { return rule }
        return statuses[answer.status] ?? foreign
    }

    /// Returns the row of Microsoft's header fields; nil without one.
    private static func microsoft(_ answer: WebPushAnswer) -> Rule? {
        if answer.status == 406 || answer.status == 429, let word = answer.wnsStatus {
            return word == "channelthrottled"
                ? Rule(.slowDevice, "channelthrottled", "Microsoft takes fewer messages for one device.")
                : Rule(.slowOrigin, "appthrottled", "Microsoft asks for a pause.")
        }
        return answer.status == 400 && answer.hasWNSError ? Rule(.drop, "wns_rejected", ours) : nil
    }

    /// Returns the row of Google's words, which stand in HTML or plain text; nil without one.
    private static func google(_ answer: WebPushAnswer) -> Rule? {
        switch answer.status {
        case 400 where answer.text.contains("unauthorizedregistration"):
            Rule(.account, "UnauthorizedRegistration", "Google finds no VAPID token that it can read.")
        case 400, 403:
            answer.text.contains("do not correspond") ? Rule(.otherKey, "vapid_key_mismatch", mismatch) : nil
        default: nil
        }
    }

    /// Every row, once for each reason.
    static var rules: [Rule] {
        let google = Rule(.account, "UnauthorizedRegistration", "Google finds no VAPID token that it can read.")
        let microsoft = [
            Rule(.slowDevice, "channelthrottled", "Microsoft takes fewer messages for one device."),
            Rule(.slowOrigin, "appthrottled", "Microsoft asks for a pause."), Rule(.drop, "wns_rejected", ours),
        ]
        let numbered = numbers.sorted { $0.key < $1.key }.map(\.value)
        let worded = words.sorted { $0.key < $1.key }.map(\.value)
        var seen: Set<String> = ["accepted"]
        return (numbered + worded + microsoft + [google] + statuses.rows.map(\.meaning)).filter {
            seen.insert($0.reason).inserted
        }
    }
}
