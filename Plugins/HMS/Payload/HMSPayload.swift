import Crypto
import Foundation
import ChaparCore

/// A message in Huawei's form without the list of recipients, encoded once for all of them.
struct HMSPayload: Sendable {
    /// The kind of recipients that a message is written for.
    enum Form: Sendable, Hashable {
        /// Android phones and HarmonyOS up to 4.
        case android
        /// Apple's devices, through the `apns` block.
        case apple
        /// A topic, which Android apps alone can join.
        case audience
        /// HarmonyOS 5 and later, which v3 alone reaches.
        case harmony

        /// Makes the form of messages to tokens of a service; nil when this generation of the API does not take it.
        init?(_ service: TokenService, isHarmony: Bool) {
            switch service {
            case .androidHuawei where !isHarmony: self = .android
            case .iOSHuawei where !isHarmony: self = .apple
            case .harmonyHuawei where isHarmony: self = .harmony
            default: return nil
            }
        }

        /// Returns the overrides that apply to such recipients: a caller's block for one kind of device is left out for
        /// another.
        func blocks(of overrides: JSONObject) -> JSONObject {
            var blocks = overrides
            blocks[HMSScene.overrides] = nil
            blocks[self == .apple ? "android" : "apns"] = nil
            if let android = blocks["android"]?.objectValue {
                blocks["android"] = .object(Self.androidWords.folded(android))
            }
            return blocks
        }

        /// The words of the block `android`.
        private static let androidWords = PlatformWords([
            "urgency": ["HIGH", "NORMAL"], "notification/importance": ["LOW", "NORMAL", "HIGH"],
            "notification/visibility": ["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"],
        ])
    }

    /// The message without a target, as JSON without its closing brace.
    private let head: [UInt8]
    let isDryRun: Bool
    /// Whether a second copy takes the first one's place on the screen.
    let isRepeatHarmless: Bool
    private let normal: [UInt8]?
    /// The value of the header `push-type`; nil except with v3.
    let pushType: Int64?
    /// The id by which the message can be taken back; nil when it cannot.
    let trackingID: String?

    private init(
        head: [UInt8],
        isDryRun: Bool,
        isRepeatHarmless: Bool,
        normal: [UInt8]? = nil,
        pushType: Int64? = nil,
        trackingID: String? = nil
    ) {
        self.pushType = pushType
        self.trackingID = trackingID
        self.head = head
        self.isDryRun = isDryRun
        self.isRepeatHarmless = isRepeatHarmless
        self.normal = normal
    }

    /// An empty message, for finding the meaning of an answer that does not depend on the message.
    static let empty = HMSPayload(head: [UInt8(ascii: "{")], isDryRun: false, isRepeatHarmless: false)

    /// Returns the message of a request, or its fault.
    static func make(
        _ request: PushRequest,
        form: Form,
        language: String?,
        options: HMSOptions,
        now: Date,
        isDemoted: Bool
    ) -> Result<HMSPayload, MessageFault> {
        if form == .harmony { return scene(request, language: language, options: options, now: now) }
        let overrides = request.notification.overrides[HMSBackend.kind.rawValue]
        var tree = HMSPayloadTree.make(request, form: form, language: language, options: options, now: now)
        if let overrides { tree = tree.merging(form.blocks(of: overrides)) }
        if isDemoted { tree = HMSPayloadTree.demoted(tree) ?? tree }
        if let fault = HMSCheck.faults(request.notification, tree: tree, form: form, overrides: overrides).first {
            return .failure(MessageFault(fault))
        }
        let bytes = JSONValue.object(tree).bytes
        if let fault = HMSCheck.tooLarge(bytes.count) { return .failure(MessageFault(fault)) }
        let normal = options.demotesWithoutRight ? HMSPayloadTree.demoted(tree) : nil
        return .success(
            HMSPayload(
                head: Array(bytes.dropLast()),
                isDryRun: request.notification.isDryRun,
                isRepeatHarmless: HMSPayloadTree.replacesItself(tree, form),
                normal: normal.map { Array(JSONValue.object($0).bytes.dropLast()) }
            )
        )
    }

    /// Makes the message of a request to HarmonyOS 5 and later.
    private static func scene(
        _ request: PushRequest,
        language: String?,
        options: HMSOptions,
        now: Date
    ) -> Result<HMSPayload, MessageFault> {
        let notification = request.notification
        let tag = HMSPayloadTree.tag(request, language)
        let (pushType, tree) = HMSScene.make(request, language: language, tag: tag, options: options, now: now)
        if let fault = HMSScene.faults(notification, pushType, tree).first { return .failure(MessageFault(fault)) }
        let bytes = JSONValue.object(tree).bytes
        if let fault = HMSCheck.tooLarge(bytes.count) { return .failure(MessageFault(fault)) }
        return .success(
            HMSPayload(
                head: Array(bytes.dropLast()),
                isDryRun: notification.isDryRun,
                isRepeatHarmless: tree["payload"]?["notification"]?["notifyId"] != nil,
                pushType: pushType,
                trackingID: options.revocationID.flatMap { _ in HMSTrackingID(pushType, tree)?.description }
            )
        )
    }

    /// The same with normal urgency; nil when it has none higher.
    var demoted: HMSPayload? {
        normal.map { HMSPayload(head: $0, isDryRun: isDryRun, isRepeatHarmless: isRepeatHarmless) }
    }

    /// Returns the body of a request to recipients.
    func body(to target: HMSTarget, isDryRun: Bool? = nil) -> [UInt8] {
        var capacity = head.count + 64
        if case .tokens(let tokens) = target { capacity += tokens.reduce(0) { $0 + $1.utf8.count + 3 } }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(capacity)
        if pushType != nil {
            bytes += head
            bytes += #","target":{"token":["#.utf8
            if case .tokens(let tokens) = target { Self.list(tokens, into: &bytes) }
            bytes += "]}}".utf8
            return bytes
        }
        bytes +=
            isDryRun ?? self.isDryRun
            ? #"{"validate_only":true,"message":"#.utf8 : #"{"validate_only":false,"message":"#.utf8
        bytes += head
        if head.count > 1 { bytes.append(UInt8(ascii: ",")) }
        switch target {
        case .tokens(let tokens):
            bytes += #""token":["#.utf8
            Self.list(tokens, into: &bytes)
            bytes += "]}}".utf8
        case .topic(let name): bytes += #""topic":\#(JSONValue.string(name).text)}}"#.utf8
        case .condition(let text): bytes += #""condition":\#(JSONValue.string(text).text)}}"#.utf8
        }
        return bytes
    }

    private static func list(_ tokens: [String], into bytes: inout [UInt8]) {
        for (place, token) in tokens.enumerated() {
            if place > 0 { bytes.append(UInt8(ascii: ",")) }
            quote(token, into: &bytes)
        }
    }

    /// Writes a token in quotation marks.
    ///
    /// Tokens are printable ASCII (``HMSToken``), in which two characters need a backslash; few tokens have one.
    private static func quote(_ token: String, into bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        if token.utf8.contains(where: { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }) {
            for byte in token.utf8 {
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { bytes.append(UInt8(ascii: "\\")) }
                bytes.append(byte)
            }
        } else {
            bytes += token.utf8
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
