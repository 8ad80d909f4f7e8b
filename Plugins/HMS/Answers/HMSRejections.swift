import Foundation
import ChaparCore

/// The table of Huawei's refusals: what each code or status means for the message, the tokens and the backend.
///
/// ``HMSOutcomes`` applies a row to the recipients of a request.
///
/// Source: Huawei, "Push Kit, downlink message API, result codes", read 2026-08. Unknown codes are classified by their
/// family.
enum HMSRejections {
    /// The handling that a code calls for.
    enum Consequence: Sendable, Hashable {
        /// Every recipient was accepted.
        case accepted
        /// Some recipients were accepted; the answer lists those that were not.
        case partial
        /// The message is refused for good.
        case drop
        /// Send again in requests of at most this number of recipients.
        case split(Int)
        /// Send again in two halves.
        case halve
        /// Topic messages must pause.
        case slowTopics
        /// Once more with a fresh token; after that an operator must act.
        case reauthorize
        /// An operator must act.
        case configuration
        /// None of the tokens is valid.
        case deadTokens
        /// Once more with normal urgency; after that the account has no right to send it.
        case demote
        /// Only waiting helps.
        case retry
    }

    /// A row of the table.
    struct Rule: Sendable, Hashable {
        let consequence: Consequence
        let detail: String

        init(_ consequence: Consequence, _ detail: String) {
            self.consequence = consequence
            self.detail = detail
        }
    }

    /// Returns whether a code has a row of its own.
    static func isKnown(_ code: String) -> Bool { known[code] != nil }

    /// Returns the row of a code; that of its family when the code is unknown, nil when it has none.
    static func rule(for code: String) -> Rule? {
        known[code] ?? families.first { code.hasPrefix($0.prefix) }?.rule
    }

    private static let gatewayFault = "This is a fault of Chapar."
    /// Every row, for tests of the whole table.
    static let known: [String: Rule] = [
        "80000000": Rule(.accepted, "Accepted."),
        "80100000": Rule(.partial, "Some of the tokens were refused."),
        "80100001": Rule(.drop, "A parameter of the message is wrong: compare overrides.hms with Huawei's reference."),
        "80100002": Rule(.split(1), "A system message goes to one token at a time."),
        "80100003": Rule(.drop, "The message's structure is wrong: compare overrides.hms with Huawei's reference."),
        "80100004": Rule(
            .drop,
            "The message's time was over before it arrived: check options.ttl and this machine's clock."
        ),
        "80100013": Rule(.drop, "collapse_key must be a number from -1 to 100."),
        "80100016": Rule(.drop, "Huawei finds sensitive content in the message: change its words."),
        "80100017": Rule(.slowTopics, "More than 100 topic messages at once."),
        "80100018": Rule(.drop, "The message failed Huawei's verification."),
        "80100022": Rule(.drop, "The picture is not verified: use one that Huawei has approved."),
        "80200001": Rule(
            .reauthorize,
            "Huawei does not take the access token: check that app_id, project_id and client_secret belong together."
        ),
        "80200003": Rule(.reauthorize, "The access token has expired, and so has its replacement."),
        "80200005": Rule(
            .reauthorize,
            "The service account's JWT has expired when it is new: set this machine's clock."
        ),
        "80300002": Rule(
            .configuration,
            "The app may not send: enable Push Kit in AppGallery Connect, and check app_id and project_id."
        ),
        "80300007": Rule(.deadTokens, "Not a token of this app: the app was removed, or the token belongs elsewhere."),
        "80300008": Rule(.drop, "The message has more than 4096 bytes."),
        "80300010": Rule(.halve, "The number of tokens is not from 1 to 1000. \(gatewayFault)"),
        "80300011": Rule(
            .demote,
            "The app has no right to urgent messages of this category: apply for it, or send with normal priority."
        ),
        "80300029": Rule(.drop, "More test messages than Huawei allows in a day."),
        "80300030": Rule(.split(10), "A test message goes to 10 tokens at most."),
        "80300036": Rule(.configuration, "The JWT is valid for too long. \(gatewayFault)"),
        "80300037": Rule(.configuration, "Huawei has penalised the app: see AppGallery Connect."),
        "80600003": Rule(.retry, "Huawei's own authorization service failed."),
        "81000001": Rule(.retry, "Huawei's service has a problem."),
    ]

    /// The rows of codes that are not among ``known``, by their first digits.
    private static let families: [(prefix: String, rule: Rule)] = [
        ("8010", Rule(.drop, "Huawei refused the message with a code unknown to Chapar.")),
        ("8020", Rule(.reauthorize, "Huawei refused the credentials with a code unknown to Chapar.")),
        ("8030", Rule(.configuration, "Huawei refused the request with a code unknown to Chapar.")),
        ("806", Rule(.retry, "Huawei's service has a problem: a code unknown to Chapar.")),
        ("81", Rule(.retry, "Huawei's service has a problem: a code unknown to Chapar.")),
    ]
}

extension HMSRejections {
    /// A row for an answer without a code.
    struct StatusRule: Sendable, Hashable {
        /// The handling of the flow of messages that a status calls for.
        enum Flow: Sendable, Hashable {
            /// None.
            case untouched
            /// Fewer messages may be under way; the pause is the platform's.
            case slowed
            /// Fewer messages may be under way, and without `Retry-After` the pause is that of ``HMSFlowControl``.
            case paused
        }

        let kind: Refusal.Kind
        /// The advice; where it has no span, the platform's pause is filled in.
        let advice: Refusal.Advice
        let detail: String
        let flow: Flow

        init(_ kind: Refusal.Kind, _ advice: Refusal.Advice, _ detail: String, flow: Flow = .untouched) {
            self.kind = kind
            self.advice = advice
            self.detail = detail
            self.flow = flow
        }

        /// Returns the refusal that the row stands for.
        func refusal(status: Int, pause: Duration?) -> Refusal {
            Refusal(
                kind,
                reason: "http_\(status)",
                detail: detail.filled("status", "\(status)"),
                status: status,
                advice: advice.asked(pause)
            )
        }
    }

    /// Returns the row of an answer without a code, by its status; nil where the message may have been taken.
    static func rule(forStatus status: Int) -> StatusRule? { statuses[status] }

    /// The statuses of answers without a code; from 500 on the message may have been taken, unless a row says no.
    ///
    /// 503 is how Huawei limits the flow (the same page, "HTTP status codes"): without `Retry-After` the whole backend
    /// pauses. 429 is documented nowhere, so it does not stop the backend for that time: single messages are sent as a
    /// test.
    private static let statuses: StatusTable<StatusRule> = [
        .on(401, means: StatusRule(.account, .parkBackend, "Huawei does not take the access token.")),
        .on(403, means: StatusRule(.account, .parkBackend, "Huawei forbids this: check that Push Kit is enabled.")),
        .on(
            404,
            405,
            means: StatusRule(
                .account,
                .parkBackend,
                "The address is not one of Push Kit's: check base_url and api."
            )
        ),
        .on(413, means: StatusRule(.message, .never, "The request is too large.")),
        .on(429, means: StatusRule(.platform, .slowBackend(after: nil), flowLimit, flow: .slowed)),
        .on(503, means: StatusRule(.platform, .slowBackend(after: nil), flowLimit, flow: .paused)),
        .on(502, means: StatusRule(.platform, .retry(after: nil), "Huawei's service has a problem.")),
        .within(400...499, means: StatusRule(.message, .never, "Huawei refused the request without a code.")),
        .within(
            Int.min...399,
            means: StatusRule(
                .account,
                .parkBackend,
                "Status {status} is not one of Push Kit's: check base_url."
            )
        ),
    ]
    private static let flowLimit = "Huawei limits the flow: devices per second."
}

extension HMSRejections {
    /// Returns the error of a call that is no message.
    static func error(_ answer: HMSAnswer) -> PushError {
        guard let code = answer.code else {
            let reason = "http_\(answer.status)"
            let row = callStatuses[answer.status] ?? CallRule(.badAnswer)
            let sentence = row.sentence ?? "Huawei answered \(answer.status) without a code"
            let pause = row.code == .rateLimited ? answer.retryAfter : nil
            return PushError(row.code, sentence, reason: reason, retryAfter: pause)
        }
        let rule = rule(for: code)
        let detail = HMSTopicCodes.detail(code) ?? rule?.detail ?? "Huawei gave the code \(code)."
        switch rule?.consequence {
        case .reauthorize?, .configuration?: return PushError(.credentialsRefused, detail, reason: code)
        case .retry?: return PushError(.unavailable, detail, reason: code, retryAfter: answer.retryAfter)
        default:
            if HMSTopicCodes.isConfiguration(code) { return PushError(.credentialsRefused, detail, reason: code) }
            return PushError(.invalidRequest, detail, reason: code)
        }
    }

    /// The statuses of calls that are no messages, where the answer has no code.
    private static let callStatuses: StatusTable<CallRule> = [
        .on(429, 503, means: CallRule(.rateLimited, "Huawei limits the flow")),
        .on(401, 403, means: CallRule(.credentialsRefused, "Huawei does not take the access token")),
        .within(500...Int.max, means: CallRule(.unavailable)), .others(means: CallRule(.badAnswer)),
    ]
}

/// The meanings of the reasons that v3 gives for single tokens; v1 and v2 give none.
enum HMSTokenReasons {
    /// Whether the reason says that the token is dead.
    static func isDeath(_ reason: String) -> Bool { deaths.contains(reason) }

    /// Returns the sentence of a known reason; nil for any other.
    static func detail(_ reason: String) -> String? { known[reason] }

    private static let deaths: Set<String> = ["tokenFormatError", "tokenPlatformNotSupport"]
    static let known: [String: String] = [
        "tokenFormatError": "Not a Huawei token.",
        "tokenPlatformNotSupport": "The token was made through another push service.",
        "noRight":
            "The device has moved to HarmonyOS 5, which v1 and v2 cannot reach, or the token is of another project.",
        "noPushTypeRight": "The app has no right to this type of message.",
        "noRightToSendThisLiveNotificationEvent": "The app has no right to this live notification.",
        "notSupportPlayVoice": "The category PLAY_VOICE goes with push_type 2 only.",
        "atomicUnableSendUnsubscribedMsg": "An atomic service gets subscribed messages and widgets only.",
        "countryNotSupport": "Huawei does not serve the device's country.",
        "differentImgVerifyPolicy": "Huawei has approved the picture for another push_type.",
        "appinfoError": "Huawei does not know the app: create it in AppGallery Connect.",
        "disableSendHuaweiMsgBecauseOfPenalty": "Huawei has penalised the app.",
    ]

    /// Returns the reason as a metric label; every unknown reason gets the same label.
    static func label(_ reason: String) -> String { known[reason] == nil ? "other_token_reason" : reason }
}

/// The codes of the topic calls.
enum HMSTopicCodes {
    static func detail(_ code: String) -> String? { known[code] }
    static func isConfiguration(_ code: String) -> Bool { code == "82000012" || code == "82000013" }
    /// Whether a repeat may help: true for unknown codes of the family of the topic calls.
    static func isWorthATry(_ code: String) -> Bool { code.hasPrefix("82") && known[code] == nil }

    private static let known: [String: String] = [
        "82000007": "The topic's name is wrong.", "82000008": "The list of tokens is wrong.",
        "82000009": "The device is in 2,000 topics, which is the most.", "82000010": "Some tokens are wrong.",
        "82000011": "The token is missing. This is a fault of Chapar.",
        "82000012": "The data storage location is not set: set it in AppGallery Connect.",
        "82000013": "The data storage location is not supported: change it in AppGallery Connect.",
    ]
}

/// The codes of the call that takes messages back which sends do not have, or with another meaning.
///
/// Source: Huawei, "Push Kit, REST API, message revocation", read 2026-11.
enum HMSRevocationCodes {
    /// Returns the error of a code; nil for a code with the meaning that it has for sends.
    static func error(_ code: String) -> PushError? {
        known[code].map { PushError($0.code, $0.detail, reason: code) }
    }

    static let known: [String: (code: PushError.Code, detail: String)] = [
        "80000001": (.unavailable, "Huawei's service has a problem."),
        "80100020": (.invalidRequest, "Huawei finds a part of the request wrong, and does not say which."),
        "80300002": (.credentialsRefused, "Huawei does not know the client: set client_id to the app's Client ID."),
        "80300017": (.invalidRequest, "The tokens are of several apps."),
        "80300028": (.credentialsRefused, "The tokens are of another app than client_id, or app_id in its place."),
        "80300032": (.credentialsRefused, "The app has no right to take messages back."),
    ]
}
