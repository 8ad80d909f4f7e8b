import Foundation
import ChaparCore

/// The mapping table: what each of Huawei's codes means for the message, the tokens and the backend.
///
/// Source: Huawei, "Push Kit, downlink message API, result codes", read 2026-08. Unknown codes are classified by their
/// family.
enum HMSRejections {
    /// The handling that a code calls for.
    enum Consequence: Sendable, Hashable {
        /// Every recipient was accepted.
        case accepted
        /// Some were; the message says which not.
        case partial
        /// The message stays wrong.
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
        /// None of the tokens is good.
        case deadTokens
        /// Once more with normal urgency; after that it is the account's.
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

    static func isKnown(_ code: String) -> Bool { known[code] != nil }

    /// The row of a code; of its family when the code is unknown, nil when it has none.
    static func rule(for code: String) -> Rule? {
        if let rule = known[code] { return rule }
        let description = "a code unknown to Chapar"
        switch code.prefix(4) {
        case "8010": return Rule(.drop, "Huawei refused the message with \(description).")
        case "8020": return Rule(.reauthorize, "Huawei refused the credentials with \(description).")
        case "8030": return Rule(.configuration, "Huawei refused the request with \(description).")
        case "8060", "8100", "8101", "8102": return Rule(.retry, "Huawei's service has a problem: \(description).")
        default:
            if code.hasPrefix("806") || code.hasPrefix("81") {
                return Rule(.retry, "Huawei's service has a problem: \(description).")
            }
            return nil
        }
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
}

/// The meanings of the reasons that v3 gives for single tokens; v1 and v2 give none.
enum HMSTokenReasons {
    /// Whether the reason says that the token is dead.
    static func isDeath(_ reason: String) -> Bool { deaths.contains(reason) }

    /// A sentence for a known reason.
    static func detail(_ reason: String) -> String? { known[reason] }

    private static let deaths: Set<String> = ["tokenFormatError", "tokenPlatformNotSupport"]
    fileprivate static let known: [String: String] = [
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

    /// The reason as a metric label: an unknown word must not become one.
    static func label(_ reason: String) -> String { known[reason] == nil ? "other_token_reason" : reason }
}

extension HMSRejections {
    /// Returns the outcome of an answer without a code, by its status; nil where the message may have been taken.
    ///
    /// 503 is how Huawei limits the flow (the same page, "HTTP status codes"): without `Retry-After` the whole backend
    /// pauses for as long as `throttled` says. 429 is documented nowhere, so a single one does not stop the backend for
    /// that time: single messages probe it.
    static func outcome(of status: Int, retryAfter: Duration?, throttled: () -> Duration) -> DeliveryOutcome? {
        let flow = "Huawei limits the flow: devices per second."
        let (kind, advice, detail): (Refusal.Kind, Refusal.Advice, String)
        switch status {
        case 401: (kind, advice, detail) = (.account, .parkBackend, "Huawei does not take the access token.")
        case 403:
            (kind, advice, detail) = (
                .account, .parkBackend, "Huawei forbids this: check that Push Kit is enabled."
            )
        case 404, 405:
            (kind, advice, detail) = (
                .account, .parkBackend, "The address is not one of Push Kit's: check base_url and api."
            )
        case 413: (kind, advice, detail) = (.message, .never, "The request is too large.")
        case 429:
            _ = throttled()  // Less is under way from now on.
            (kind, advice, detail) = (.platform, .slowBackend(after: retryAfter), flow)
        case 503: (kind, advice, detail) = (.platform, .slowBackend(after: throttled()), flow)
        case 502: (kind, advice, detail) = (.platform, .retry(after: retryAfter), "Huawei's service has a problem.")
        case 500...: return nil
        case 400..<500: (kind, advice, detail) = (.message, .never, "Huawei refused the request without a code.")
        default:
            (kind, advice, detail) = (
                .account, .parkBackend, "Status \(status) is not one of Push Kit's: check base_url."
            )
        }
        return .refused(Refusal(kind, reason: "http_\(status)", detail: detail, status: status, advice: advice))
    }

    /// The outcome of a delivery to one token for each of Huawei's codes, statuses and reasons.
    static var outcomes: [DeliveryOutcome] {
        // Neither ends a delivery: the others are accepted, and each refused token has a reason of its own.
        let ends = known.filter { $0.value.consequence != .accepted && $0.value.consequence != .partial }
        let codes = ends.keys.sorted().map { code -> HTTPAnswer in
            let body: JSONValue = ["code": .string(code)]
            return HTTPAnswer(status: 200, body: body.bytes)
        }
        let statuses = [400, 401, 403, 404, 413, 429, 502, 503].map { HTTPAnswer(status: $0) }
        let reasons = HMSTokenReasons.known.keys.sorted().map { reason -> HTTPAnswer in
            let tokens: JSONValue = ["failure": 1, "illegalTokens": [reason: ["t"]]]
            let body: JSONValue = ["code": "80100000", "msg": tokens]
            return HTTPAnswer(status: 200, body: body.bytes)
        }
        return (codes + statuses + reasons).compactMap { outcome(on: $0) }
    }

    /// Returns the outcome that ``HMSOutcomes`` gives for an answer to a request with one token when nothing can be
    /// sent again; nil when it would send again.
    static func outcome(on answer: HTTPAnswer) -> DeliveryOutcome? {
        let started = Date(timeIntervalSince1970: 0)
        let slot = HMSBatchRequest.Slot(request: 0, recipient: 0, token: 0, isReplay: false)
        let request = HMSBatchRequest(.empty, to: .tokens(["t"]), slots: [slot], awaitsReceipts: false)
        let outcomes = HMSOutcomes(started: started, batchRequest: request)
        switch outcomes.verdict(on: HMSAnswer(answer, now: started), flow: HMSFlowControl(random: { 1 })) {
        case .reports(let reports): return reports.first?.outcome
        case .reauthorize(code: _, status: _, otherwise: let outcome): return outcome
        case .again, .suspicious: return nil
        }
    }
}
