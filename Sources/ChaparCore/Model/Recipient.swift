/// A service that issues device tokens.
///
/// A token is valid only at its own service.
public struct TokenService: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The name in the API and in configuration files.
    public let rawValue: String

    /// Makes a service from its name, lower-cased; see ``known`` for those that exist.
    public init(rawValue: String) { self.rawValue = rawValue.lowercased() }

    /// Apple's own tokens.
    public static let iOSAPNs = TokenService(rawValue: "ios-apns")
    /// Firebase tokens on Apple devices; each wraps an APNs token.
    public static let iOSFirebase = TokenService(rawValue: "ios-firebase")
    /// Huawei tokens on Apple devices.
    public static let iOSHuawei = TokenService(rawValue: "ios-huawei")
    /// Firebase tokens on Android.
    public static let androidFirebase = TokenService(rawValue: "android-firebase")
    /// RuStore tokens of apps with the direct SDK.
    public static let androidRuStore = TokenService(rawValue: "android-rustore")
    /// RuStore tokens of apps with the universal SDK, which RuStore's direct API does not reach.
    public static let androidRuStoreUniversal = TokenService(rawValue: "android-rustore-universal")
    /// Huawei tokens on Android.
    public static let androidHuawei = TokenService(rawValue: "android-huawei")

    /// Huawei tokens on HarmonyOS 5 and later, which the older generations of Huawei's API cannot reach.
    public static let harmonyHuawei = TokenService(rawValue: "harmony-huawei")
    /// Firebase tokens of browsers.
    public static let webFirebase = TokenService(rawValue: "web-firebase")
    /// Push subscriptions of browsers and of apps of UnifiedPush, as JSON.
    public static let webPush = TokenService(rawValue: "web-push")

    /// Every service that has a name of its own, in the order in which a device's tokens are preferred.
    public static let known: [TokenService] = [
        .iOSAPNs, .iOSFirebase, .iOSHuawei, .androidFirebase, .androidRuStore, .androidRuStoreUniversal,
        .androidHuawei, .harmonyHuawei, .webFirebase,
        .webPush,
    ]

    /// Returns the service of a name that the API accepts: the name of a known service, or, for another platform, `x-`
    /// and 1 to 30 lower-case letters, digits or `-`.
    ///
    /// Nil for any other name.
    public static func named(_ name: String) -> TokenService? {
        if let known = known.first(where: { $0.rawValue == name }) { return known }
        let own = name.utf8.dropFirst(2)
        let isOwn =
            name.hasPrefix("x-") && (1...30).contains(own.count)
            && own.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == 45 }
        return isOwn ? TokenService(rawValue: name) : nil
    }

    /// The words for platforms; a platform's name alone does not say on which devices the tokens are.
    private static let usual: [String: TokenService] = [
        "apns": .iOSAPNs, "apn": .iOSAPNs, "apple": .iOSAPNs, "ios": .iOSAPNs,
        "fcm": .androidFirebase, "gcm": .androidFirebase, "firebase": .androidFirebase, "android": .androidFirebase,
        "hms": .androidHuawei, "huawei": .androidHuawei, "rustore": .androidRuStore,
        "webpush": .webPush, "web": .webPush, "browser": .webPush,
    ]

    /// Returns the known service that a word probably means, if the word is the name of a platform or a misspelt name
    /// of a service; nil for any other word.
    package static func nearest(to word: String) -> TokenService? {
        if let service = usual[word.lowercased()] { return service }
        let names = known.map(\.rawValue)
        return Suggestion.nearest(to: String(word.unicodeScalars.prefix(64)), among: names).flatMap(named)
    }

    /// The platform of the service's devices: `ios`, `android`, `harmony` or `web`; `x` for a service that is not in
    /// ``known``.
    public var platform: String { String(rawValue.prefix { $0 != "-" }) }

    /// The name.
    public var description: String { rawValue }
}

/// The opaque address of one installation of an app, kept byte for byte as the device registered it.
///
/// A token is enough to send to the phone. So a printed token, or a printed ``Recipient`` that has one, shows only the
/// token's fingerprint.
public struct DeviceToken: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The token.
    public let value: String
    /// The service that gave it.
    public let service: TokenService

    /// Makes a token without checking it: its service's provider does.
    public init(_ value: String, service: TokenService) {
        self.value = value
        self.service = service
    }

    /// Whether it is empty or only white space, which no service's token is.
    package var isBlank: Bool {
        // Nearly every token begins with a letter or a digit, and a byte is cheaper to test than a character.
        if let first = value.utf8.first, (0x21..<0x7F).contains(first) { return false }
        return value.allSatisfy(\.isWhitespace)
    }

    /// The service and the token's first six and last four characters; of a token of under 20 only its length.
    public var description: String { "\(service) \(Fingerprint.of(value))" }

    /// The mirror for `dump`, which shows only ``description``.
    public var customMirror: Mirror { Mirror(self, children: ["token": description]) }

    /// Compares byte for byte: texts in different Unicode normalization forms are different tokens.
    public static func == (left: DeviceToken, right: DeviceToken) -> Bool {
        ExactText(left.value) == ExactText(right.value) && left.service == right.service
    }

    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(ExactText(value))
        hasher.combine(service)
    }
}

/// The recipient of a notification.
@nonexhaustive
public enum Recipient: Hashable, Sendable {
    /// One installation of an app, by its token.
    case token(DeviceToken)
    /// A device of the gateway's registry.
    case device(String)
    /// All devices of a user of the gateway's registry.
    case user(String)
    /// An id of the platform itself: a OneSignal player id, an APNs broadcast channel.
    case platformID(String)
    /// Every user who joined a topic of the platform.
    case topic(String)
    /// Every user whose tags match a filter.
    case tags(TagFilter)
    /// Every user of the platform.
    case everyone
}

/// A filter over tags: all of these, any of these, none of these.
public struct TagFilter: Hashable, Sendable {
    /// Tags a device must have.
    public var all: [String]
    /// Tags of which a device must have at least one; empty for no such condition.
    public var any: [String]
    /// Tags a device must not have.
    public var none: [String]

    /// Makes a filter.
    public init(all: [String] = [], any: [String] = [], none: [String] = []) {
        self.all = all
        self.any = any
        self.none = none
    }
}

extension Recipient {
    /// Compares byte for byte: names in different Unicode normalization forms are different recipients.
    public static func == (left: Recipient, right: Recipient) -> Bool {
        switch (left, right) {
        case (.token(let left), .token(let right)): left == right
        case (.device(let left), .device(let right)), (.user(let left), .user(let right)),
            (.platformID(let left), .platformID(let right)), (.topic(let left), .topic(let right)):
            ExactText(left) == ExactText(right)
        case (.tags(let left), .tags(let right)): left == right
        case (.everyone, .everyone): true
        default: false
        }
    }

    /// Hashes the form and the bytes.
    public func hash(into hasher: inout Hasher) {
        func combine(_ form: UInt8, _ part: some Hashable) {
            hasher.combine(form)
            hasher.combine(part)
        }
        switch self {
        case .token(let token): combine(0, token)
        case .device(let id): combine(1, ExactText(id))
        case .user(let id): combine(2, ExactText(id))
        case .platformID(let id): combine(3, ExactText(id))
        case .topic(let name): combine(4, ExactText(name))
        case .tags(let filter): combine(5, filter)
        case .everyone: hasher.combine(6 as UInt8)
        }
    }

    /// Returns the recipient with a token of this text.
    public static func token(_ value: String, service: TokenService) -> Recipient {
        .token(DeviceToken(value, service: service))
    }

    /// The longest id of a device, in bytes.
    package static let maximumDeviceIDBytes = 128

    /// Whether a text can be the id of a device: 1 to 128 of `A–Z a–z 0–9 . _ : -`.
    package static func isDeviceID(_ text: some StringProtocol) -> Bool {
        (1...maximumDeviceIDBytes).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: ":"),
                    UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    /// The kind of a recipient, for capability checks and error messages.
    @nonexhaustive
    public enum Form: String, Sendable, CaseIterable {
        /// A device token.
        case token
        /// A device of the registry.
        case device
        /// A user of the registry.
        case user
        /// An id of the platform.
        case platformID = "platform_id"
        /// A topic.
        case topic
        /// A tag filter.
        case tags
        /// Every user.
        case everyone
    }

    /// The kind of this recipient.
    public var form: Form {
        switch self {
        case .token: .token
        case .device: .device
        case .user: .user
        case .platformID: .platformID
        case .topic: .topic
        case .tags: .tags
        case .everyone: .everyone
        }
    }

    /// One line of text, for stores, that ``init(storedForm:)`` turns back into the same recipient.
    public var storedForm: String {
        switch self {
        case .token(let token): "\(token.service.rawValue):\(token.value)"
        case .device(let id): "device:\(id)"
        case .user(let id): "user:\(id)"
        case .platformID(let id): "platform_id:\(id)"
        case .topic(let name): "topic:\(name)"
        case .tags(let filter):
            "tags:"
                + JSONValue.object([
                    "all": .array(filter.all.map { .string($0) }), "any": .array(filter.any.map { .string($0) }),
                    "none": .array(filter.none.map { .string($0) }),
                ]).text
        case .everyone: "everyone:"
        }
    }

    /// Reads ``storedForm``; nil for any other text.
    public init?(storedForm text: String) {
        guard let (kind, rest) = text.halves(at: ":") else { return nil }
        switch kind {
        case "device": self = .device(rest)
        case "user": self = .user(rest)
        case "platform_id": self = .platformID(rest)
        case "topic": self = .topic(rest)
        case "everyone": self = .everyone
        case "tags":
            guard let value = try? JSONValue(parsing: Array(rest.utf8)) else { return nil }
            func names(_ member: String) -> [String] { (value[member]?.arrayValue ?? []).compactMap(\.stringValue) }
            self = .tags(TagFilter(all: names("all"), any: names("any"), none: names("none")))
        default: self = .token(DeviceToken(rest, service: TokenService(rawValue: kind)))
        }
    }
}
