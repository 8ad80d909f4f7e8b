import ChaparCore

/// The header fields that all recipients of one request share, checked against every rule of Apple's.
///
/// ``APNsTemplates`` encodes the fields that recur over requests once. `APNsBatch` adds those that depend on the
/// message or the recipient (`apns-id`, `apns-expiration`, `apns-collapse-id`).
///
/// Made in `check` before a notification is accepted, and again before it is sent.
struct APNsHeaders {
    var pushType: APNsPushType
    var topic: String
    var priority: String
    /// Whether the topic is the configured one without a suffix, so that only an operator can act on a refusal of it.
    var isOwnTopic: Bool
    var collapseID: String?
    /// The expiration that replaces the request's own: the caller's, or "0" for Push-to-Talk.
    var expiration: String?
    var faults: [Finding] = []

    /// Finds the fields of a notification.
    init(
        _ notification: PushNotification,
        overrides: APNsOverrides?,
        form: Recipient.Form,
        topic base: String,
        hasProviderToken: Bool
    ) {
        pushType = overrides?.pushType ?? (notification.isSilent ? .background : .alert)
        priority =
            overrides?.priority
            ?? (pushType == .background || notification.priority == .normal && pushType != .pushtotalk ? "5" : "10")
        collapseID = overrides?.collapseID ?? notification.collapseID
        expiration = overrides?.expiration ?? (pushType == .pushtotalk ? "0" : nil)
        let suffix = pushType.topicSuffix
        topic = suffix.isEmpty ? base : base + suffix
        isOwnTopic = suffix.isEmpty
        guard overrides != nil || collapseID != nil || form == .platformID else { return }  // The usual case is valid.
        if let own = overrides?.topic { override(topic: own, base: base) }
        validate(hasProviderToken: hasProviderToken, form: form, isOverridden: overrides?.collapseID != nil)
    }

    /// Checks a topic that the caller wrote: only the one that backend and push type give anyway is allowed.
    ///
    /// A provider key is valid for all apps of a team, so Apple would take another app's topic. But callers are
    /// authorized by the names of backends, so a backend must reach no other app than the one that its section names.
    private mutating func override(topic own: String, base: String) {
        let suffix = pushType.topicSuffix
        if let written = APNsPushType.suffix(of: own), written != suffix {
            fault(
                "topic",
                "wrong_topic_suffix",
                "A push of type \(pushType.rawValue) goes to \(suffix.isEmpty ? "the bare bundle id" : "…\(suffix)")."
            )
            return
        }
        guard Self.isTopic(own) else {
            fault("topic", "bad_topic", "A topic is a bundle id, such as com.example.app.")
            return
        }
        if own != base, own != base + suffix {
            fault(
                "topic",
                "foreign_topic",
                "This backend sends to \(base) only: leave apns-topic out, or name the backend of that app."
            )
        }
    }

    private mutating func validate(hasProviderToken: Bool, form: Recipient.Form, isOverridden: Bool) {
        if pushType == .background, priority == "10" {
            fault("priority", "bad_priority", "A background push has priority 5 (or 1): Apple refuses 10.")
        }
        if pushType == .pushtotalk, priority != "10" || expiration != "0" {
            fault("priority", "bad_priority", "A Push-to-Talk push has priority 10 and expiration 0.")
        }
        if pushType.needsProviderToken, !hasProviderToken {
            fault(
                "push-type",
                "needs_provider_token",
                "A push of type \(pushType.rawValue) needs a provider token: a client certificate is not enough."
            )
        }
        if form == .platformID, pushType != .liveactivity {
            fault("push-type", "wrong_push_type", "A channel takes Live Activity updates only: set it to liveactivity.")
        }
        if let collapseID, let problem = Self.problem(ofCollapseID: collapseID) {
            let pointer = isOverridden ? "#/overrides/apns/headers/apns-collapse-id" : "#/options/collapse_id"
            faults.append(Finding(pointer: pointer, code: "bad_collapse_id", detail: problem))
        }
    }

    private mutating func fault(_ header: String, _ code: String, _ detail: String) {
        faults.append(
            Finding(pointer: "#/overrides/apns/headers/apns-\(header)", code: code, detail: detail)
        )
    }

    private static func problem(ofCollapseID id: String) -> String? {
        let count = id.utf8.count
        if count > 64 { return "The collapse id has \(count) bytes; APNs takes 64." }
        if count == 0 { return "The collapse id is empty: leave it out instead." }
        let isClean = id.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
        if !isClean || id.utf8.first == 0x20 || id.utf8.last == 0x20 {
            return
                "The collapse id goes into a header: it must not hold control characters or begin or end with a space."
        }
        return nil
    }

    /// Whether a text has the form of a bundle id: at least two parts of letters, digits, hyphens and underscores, and
    /// 155 bytes at most.
    static func isTopic(_ text: String) -> Bool {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count >= 2 && text.utf8.count <= 155
            && parts.allSatisfy { part in
                !part.isEmpty
                    && part.utf8.allSatisfy {
                        switch $0 {
                        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                            true
                        default: false
                        }
                    }
            }
    }

    /// Returns the value of `apns-expiration`; nil leaves it to Apple.
    static func expiration(of request: PushRequest, now: Int64) -> String? {
        switch request.expiration {
        case .immediately: return "0"
        case .at(let seconds): return String(seconds)
        case nil: break
        }
        // Without a gateway the span counts from this send.
        guard let timeToLive = request.notification.timeToLive else { return nil }
        return timeToLive <= .zero ? "0" : String(now.adding(clamping: timeToLive.components.seconds))
    }
}
