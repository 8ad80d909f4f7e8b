internal import ChaparCore
public import ChaparSimulator
internal import Foundation

/// A push service that the simulator imitates: its addresses, and the form of its answers.
@nonexhaustive
public enum WebPushService: String, Sendable, Hashable, CaseIterable {
    /// Google's, which Chrome and others use.
    case fcm
    /// Mozilla's.
    case mozilla
    /// Apple's.
    case apple
    /// Microsoft's.
    case wns
    /// A server that keeps to the RFCs and no more, as those of UnifiedPush.
    case plain

    /// The service's listener.
    public var listener: SandboxListener { SandboxListener(rawValue: rawValue) }

    /// The part of an address before the id of its subscription.
    var prefix: String {
        switch self {
        case .fcm: "/fcm/send/"
        case .mozilla: "/wpush/v2/"
        case .apple: "/"
        case .wns: "/w/?token="
        case .plain: "/push/"
        }
    }

    /// Returns the id of a subscription that a request is for; nil for another address.
    func id(of request: SandboxRequest) -> String? {
        let target = request.query.isEmpty ? request.path : "\(request.path)?\(request.query)"
        guard target.hasPrefix(prefix) else { return nil }
        let id = String(target.dropFirst(prefix.count))
        return Self.isID(id) ? id : nil
    }

    /// Whether a text can be the id of a subscription.
    static func isID(_ text: String) -> Bool { (1...200).contains(text.utf8.count) && isBase64URL(text) }

    /// Whether a text has only characters of the base64url alphabet.
    static func isBase64URL(_ text: String) -> Bool {
        text.utf8.allSatisfy {
            $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") || (48...57).contains($0) || (65...90).contains($0)
                || (97...122).contains($0)
        }
    }

    /// Returns the answer that the service gives with a refusal.
    func answer(_ refusal: WebPushRefusal) -> SandboxAnswer {
        switch self {
        case .mozilla: mozilla(refusal)
        case .apple: apple(refusal)
        case .fcm: google(refusal)
        case .wns: microsoft(refusal)
        case .plain: SandboxAnswer(status: refusal.status, body: Array(refusal.words.utf8))
        }
    }

    /// Returns the answer that a fault rule asks for; its reason is the service's own word: Mozilla's `errno`, Apple's
    /// `reason`, Microsoft's `X-WNS-STATUS`, a text of Google's.
    func answer(_ fault: FaultAnswer, at now: Date) -> SandboxAnswer {
        guard fault.body == nil, let reason = fault.reason else { return fault.plain(now: now).with(fault.headers) }
        var answer = fault.plain(now: now)
        switch self {
        case .mozilla:
            answer.body = Self.mozilla(status: fault.status, errno: Int64(reason) ?? 999, "As a fault rule wants it")
        case .apple: answer.body = JSONValue.object(["reason": .string(reason)]).bytes
        case .wns: answer.headers.append(HTTPHeader("x-wns-status", reason))
        case .fcm, .plain: answer.body = Array(reason.utf8)
        }
        return answer.with(fault.headers)
    }

    private func mozilla(_ refusal: WebPushRefusal) -> SandboxAnswer {
        let (status, errno): (Int, Int64) =
            switch refusal {
            case .noTTL: (400, 111)
            case .badTTL: (400, 114)
            case .badTopic: (400, 113)
            case .badUrgency: (400, 999)
            case .oldHeaders, .badEncoding, .undecryptable: (400, 110)
            case .tooLarge: (413, 104)
            case .noVAPID, .badVAPID, .otherKey: (401, 109)
            case .unknown: (404, 102)
            case .gone: (410, 103)
            case .busyDevice, .busyService: (429, 202)
            case .down: (503, 201)
            case .cachePolicy, .notFound, .notPosted: (refusal.status, 999)
            }
        let words = refusal == .otherKey ? "VAPID public key mismatch" : refusal.words
        return SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "application/json")] + refusal.pause,
            body: Self.mozilla(status: status, errno: errno, words)
        )
    }

    private static func mozilla(status: Int, errno: Int64, _ words: String) -> [UInt8] {
        JSONValue.object([
            "code": .integer(Int64(status)), "errno": .integer(errno), "error": "Refused", "message": .string(words),
            "more_info": "http://autopush.readthedocs.io/en/latest/http.html#error-codes",
        ]).bytes
    }

    private func apple(_ refusal: WebPushRefusal) -> SandboxAnswer {
        let (status, reason) =
            switch refusal {
            case .noTTL, .badTTL: (400, "BadTtl")
            case .badTopic: (400, "BadWebPushTopic")
            case .badUrgency: (400, "BadUrgency")
            case .oldHeaders, .badEncoding, .undecryptable, .cachePolicy, .notPosted: (400, "BadWebPushRequest")
            case .tooLarge: (413, "PayloadTooLarge")
            case .noVAPID, .badVAPID: (403, "BadJwtToken")
            case .otherKey: (400, "VapidPkHashMismatch")
            case .unknown, .notFound: (404, "BadPath")
            case .gone: (410, "Unregistered")
            case .busyDevice, .busyService: (429, "TooManyRequests")
            case .down: (503, "ServiceUnavailable")
            }
        return SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "application/json")] + refusal.pause,
            body: JSONValue.object(["reason": .string(reason)]).bytes
        )
    }

    private func google(_ refusal: WebPushRefusal) -> SandboxAnswer {
        let (status, words) =
            switch refusal {
            case .noVAPID: (400, "UnauthorizedRegistration")
            case .otherKey:
                (
                    403,
                    "the VAPID credentials in the authorization header do not correspond to the credentials used to "
                        + "create the subscriptions."
                )
            case .gone, .unknown: (refusal.status, "push subscription has unsubscribed or expired. NotRegistered")
            default: (refusal.status, refusal.words)
            }
        let page = "<HTML><HEAD><TITLE>\(words)</TITLE></HEAD><BODY><H1>\(words)</H1></BODY></HTML>"
        return SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "text/html; charset=UTF-8")] + refusal.pause,
            body: Array(page.utf8)
        )
    }

    private func microsoft(_ refusal: WebPushRefusal) -> SandboxAnswer {
        switch refusal {
        case .busyDevice:
            let fields = [HTTPHeader("x-wns-status", "channelthrottled"), HTTPHeader("retry-after", "900")]
            return SandboxAnswer(status: 406, headers: fields)
        case .busyService:
            let fields = [HTTPHeader("x-wns-status", "appthrottled"), HTTPHeader("retry-after", "900")]
            return SandboxAnswer(status: 406, headers: fields)
        default:
            let fields = [HTTPHeader("x-wns-error-description", refusal.words)] + refusal.pause
            return SandboxAnswer(status: refusal.status, headers: fields)
        }
    }
}

/// The reasons for which a push service refuses a request.
enum WebPushRefusal: Sendable, Hashable {
    case notFound, notPosted
    case noTTL, badTTL, badUrgency, badTopic, oldHeaders, badEncoding, tooLarge, cachePolicy, undecryptable
    case noVAPID, otherKey
    case badVAPID(String)
    case unknown, gone, busyDevice, busyService, down

    /// The status where the service has none of its own.
    var status: Int {
        switch self {
        case .notFound, .unknown: 404
        case .notPosted: 405
        case .noTTL, .badTTL, .badUrgency, .badTopic, .oldHeaders, .badEncoding, .cachePolicy, .undecryptable: 400
        case .tooLarge: 413
        case .noVAPID, .badVAPID: 401
        case .otherKey: 403
        case .gone: 410
        case .busyDevice, .busyService: 429
        case .down: 503
        }
    }

    /// The pause that it asks for.
    var pause: [HTTPHeader] {
        switch self {
        case .busyDevice, .busyService, .down: [HTTPHeader("retry-after", "1")]
        default: []
        }
    }

    /// The fault, in words.
    var words: String {
        switch self {
        case .notFound: "Nothing is here"
        case .notPosted: "Messages are posted"
        case .noTTL: "TTL is missing"
        case .badTTL: "TTL is no number"
        case .badUrgency: "Urgency is no word of RFC 8030"
        case .badTopic: "Topic has more than 32 characters, or others than those of base64url"
        case .oldHeaders: "Crypto-Key and Encryption do not go with aes128gcm"
        case .badEncoding: "Content-Encoding is not aes128gcm"
        case .tooLarge: "The body has more than 4096 octets"
        case .cachePolicy: "Ttl value conflicts with X-WNS-Cache-Policy"
        case .undecryptable: "The body cannot be decrypted"
        case .noVAPID: "The VAPID token is missing"
        case .badVAPID(let words): words
        case .otherKey: "The subscription belongs to another VAPID key"
        case .unknown: "No such subscription"
        case .gone: "The subscription has ended"
        case .busyDevice, .busyService: "Too many messages"
        case .down: "The service is not available"
        }
    }

    /// The name in counts.
    var name: String {
        if case .badVAPID = self { return "badVAPID" }
        return "\(self)"
    }
}
