public import Foundation
public import ChaparCore

/// One installation of an app, as the registry stores it: its user, its tokens, its attributes.
///
/// The API and `chapar devices import` write it; a delivery worker reads it to find the token that its backend takes.
/// ``ChaparCore/DeviceRecord`` is the device as it is registered at platforms.
public struct Device: Sendable, Hashable {
    /// The longest id, in bytes.
    public static let maximumIDBytes = Recipient.maximumDeviceIDBytes
    /// The most tags.
    public static let maximumTags = 100
    /// The longest name of a user, a tag or a version, in bytes.
    public static let maximumNameBytes = 256
    /// The most attributes.
    public static let maximumAttributes = 50
    /// The most tokens of other kinds than ``ChaparCore/TokenKind/device``; beyond that the oldest registration is
    /// removed.
    public static let maximumKindTokens = 16
    /// The most bytes of all attributes as JSON.
    public static let maximumAttributeBytes = 4096

    /// The key (``ChaparCore/AppName``): the id that the app or its server chose, 1 to 128 of `A–Z a–z 0–9 . _ : -`,
    /// after the app's name and a slash unless the app is the default one.
    public var id: String
    /// The key (``ChaparCore/AppName``) of the user it belongs to, when known.
    ///
    /// A user may have many devices.
    public var user: String?
    /// `ios`, `android`, `harmony`, `web`, or `x-` and a name of your own; nil when the caller gave none
    /// (``effectivePlatform``).
    public var platform: String?
    /// Its tokens, at most one of each service and kind (``TokenSlot``), in the order of these.
    public var tokens: [RegisteredToken]
    /// Its tags, each once, in order.
    public var tags: [String]
    /// Its language tag, such as `fa-IR`.
    public var locale: String?
    /// The version of the app.
    public var appVersion: String?
    /// Its time zone, such as `Asia/Tehran`.
    public var timeZone: String?
    /// Other attributes that the app reported, such as `os_version`, `model` or `notifications_allowed`: texts, numbers
    /// and Booleans.
    public var attributes: JSONObject
    /// The time of its first registration.
    public var createdAt: Date
    /// The time of its last change.
    public var updatedAt: Date
    /// The time when the app was last seen, as reported by the caller.
    public var lastSeen: Date?

    /// Makes a device; tokens and tags are sorted, and of repeated ones the last counts.
    public init(
        id: String,
        user: String? = nil,
        platform: String? = nil,
        tokens: [RegisteredToken] = [],
        tags: [String] = [],
        locale: String? = nil,
        appVersion: String? = nil,
        timeZone: String? = nil,
        attributes: JSONObject = JSONObject(),
        createdAt: Date,
        updatedAt: Date? = nil,
        lastSeen: Date? = nil
    ) {
        self.id = id
        self.user = user
        self.platform = platform
        self.tokens = []
        self.tags = tags.count < 2 ? tags : Set(tags).sorted()
        self.locale = locale
        self.appVersion = appVersion
        self.timeZone = timeZone
        self.attributes = attributes
        self.createdAt = createdAt
        self.updatedAt = updatedAt ?? createdAt
        self.lastSeen = lastSeen
        for token in tokens { setToken(token) }
    }

    /// The platforms that Chapar knows; others are `x-` and a name.
    package static let platforms = ["ios", "android", "harmony", "web"]

    /// Whether a text can be the id of a device.
    public static func isID(_ text: some StringProtocol) -> Bool { Recipient.isDeviceID(text) }

    /// ``tags`` as stores keep them: one text, a line each; nil without any.
    package var storedTags: String? { tags.isEmpty ? nil : tags.joined(separator: "\n") }

    /// Reads ``storedTags``.
    package static func tags(stored text: String) -> [String] {
        text.utf8.split(separator: UInt8(ascii: "\n")).map { String(Substring($0)) }
    }

    /// The platform it runs: the one that the caller gave, else the one that all its tokens agree on.
    public var effectivePlatform: String? {
        if let platform { return platform }
        var found: String?
        // The platform of a service that is not in `known` is unknown.
        for token in tokens where TokenService.known.contains(token.token.service) {
            let platform = token.token.service.platform
            if let found, found != platform { return nil }
            found = platform
        }
        return found
    }

    /// Returns the token of a service, dead or alive; by default the app's own.
    public func token(of service: TokenService, _ kind: TokenKind = .device) -> RegisteredToken? {
        tokens.first { $0.token.service == service && $0.kind == kind }
    }

    /// Returns the app's own token of a service, unless it is dead.
    public func liveToken(of service: TokenService) -> DeviceToken? {
        token(of: service).flatMap { $0.isAlive ? $0.token : nil }
    }

    /// Returns the token that a backend takes: that of the first service in `priority` for which the device has a
    /// token, else that of any other service.
    ///
    /// Nil when the backend takes none of the device's live tokens of the kind, or has refused all that it takes
    /// (``RegisteredToken/refusals``).
    public func token(
        for audience: BackendAudience,
        of backend: String,
        kind: TokenKind = .device,
        priority: [TokenService] = TokenService.priority
    ) -> RegisteredToken? {
        func fits(_ token: RegisteredToken) -> Bool {
            token.kind == kind && audience.services.contains(token.token.service) && token.isUsable(by: backend)
        }
        for service in priority {
            if let token = token(of: service, kind), fits(token) { return token }
        }
        return tokens.first(where: fits)
    }

    /// Returns the last time at which the app is known to have had a token: when the app was last seen, or when it
    /// registered the token, if that was later.
    ///
    /// Nil when it is unknown when the app was last seen: an old registration alone does not mean that the app is gone.
    public func lastSeen(with token: DeviceToken) -> Date? {
        lastSeen.map { seen in max(seen, tokens.first { $0.token == token }?.registeredAt ?? seen) }
    }

    /// Sets the token of a slot, and removes the token from any other slot.
    public mutating func setToken(_ token: RegisteredToken) {
        let slot = token.slot
        tokens.removeAll { $0.token == token.token && $0.slot != slot }
        let place = tokens.firstIndex { $0.slot >= slot } ?? tokens.endIndex
        if place < tokens.endIndex, tokens[place].slot == slot {
            tokens[place] = token
        } else {
            tokens.insert(token, at: place)
        }
        guard slot.kind != .device, tokens.count(where: { $0.kind != .device }) > Self.maximumKindTokens else { return }
        let others = tokens.indices.filter { tokens[$0].kind != .device && tokens[$0].slot != slot }
        if let oldest = others.min(by: { tokens[$0].registeredAt < tokens[$1].registeredAt }) {
            tokens.remove(at: oldest)
        }
    }

    /// Removes the token of a slot, if there is one.
    public mutating func removeToken(of slot: TokenSlot) { tokens.removeAll { $0.slot == slot } }
    /// Removes the app's own token of a service, if there is one.
    public mutating func removeToken(of service: TokenService) { removeToken(of: TokenSlot(service)) }
}

extension Device {
    /// The app that the device belongs to.
    public var app: AppName { AppName(ofDevice: id) }
    /// Its id within the app.
    public var name: String { app.name(id) }
    /// Its user's name within the app.
    public var userName: String? { user.map(app.name) }
}

extension TokenService {
    /// The default order of preference of a device's tokens, without a configured one (`token_priority`).
    public static let priority: [TokenService] = known
}

/// A refusal of a token that may be true for one backend only, since a wrong environment or app causes the same refusal
/// (`BadDeviceToken`, `SENDER_ID_MISMATCH`).
///
/// This backend gets no more messages for the token; other backends that take the token do.
public struct BackendRefusal: Sendable, Hashable {
    /// The most refusals stored for a token; the oldest are removed first.
    public static let maximum = 16

    /// The backend's name in the configuration.
    public var backend: String
    /// The platform's word.
    public var reason: String
    /// When the refused message was sent, to the millisecond.
    public var asOf: Date

    /// Makes a refusal.
    public init(backend: String, reason: String, asOf: Date) {
        self.backend = backend
        self.reason = reason
        self.asOf = asOf
    }
}

/// A token as a device registered it, with a tombstone when a platform has declared it dead.
public struct RegisteredToken: Sendable, Hashable {
    /// The token.
    public var token: DeviceToken
    /// The purpose of the token.
    public var kind: TokenKind
    /// The environment that the app gave; `unknown` when it gave none, until answers reveal it.
    public var environment: TokenEnvironment
    /// The time when the device registered it, to the millisecond.
    ///
    /// A refusal that is older does not apply to this registration.
    public var registeredAt: Date
    /// The platform's verdict, when there is one.
    public var tombstone: Tombstone?
    /// The backends that have refused it while it is alive for others, each once, the oldest refusal first.
    public var refusals: [BackendRefusal]

    /// Makes a registration.
    public init(
        _ token: DeviceToken,
        kind: TokenKind = .device,
        environment: TokenEnvironment = .unknown,
        registeredAt: Date,
        tombstone: Tombstone? = nil,
        refusals: [BackendRefusal] = []
    ) {
        self.token = token
        self.kind = kind
        self.environment = environment
        self.registeredAt = registeredAt
        self.tombstone = tombstone
        self.refusals = refusals
    }

    /// The slot, of which the device has one token each.
    public var slot: TokenSlot { TokenSlot(token.service, kind) }

    /// Whether messages go to it: it has no tombstone, or a quarantined one.
    public var isAlive: Bool { tombstone?.isQuarantined ?? true }

    /// Whether a backend may use the token: it is alive, and the backend has not refused it.
    ///
    /// While a tombstone is quarantined, no refusal of the token counts, since all are in doubt.
    public func isUsable(by backend: String) -> Bool {
        if let tombstone { return tombstone.isQuarantined }
        return refusals.isEmpty || !refusals.contains { $0.backend == backend }
    }
}

/// A platform's verdict that a token is dead.
///
/// The token is kept, so that the verdict can be undone; it ends when the device registers the token again at a later
/// time than ``asOf``.
public struct Tombstone: Sendable, Hashable {
    /// The time from which the token is dead, by the platform's clock.
    public var asOf: Date
    /// The time when the gateway learned of it.
    public var at: Date
    /// The backend whose platform refused it, by its name in the configuration.
    public var backend: String
    /// The platform's word for it, such as `Unregistered`.
    public var reason: String
    /// Whether it is quarantined by the guard against mass invalidation: then the token counts as alive.
    public var isQuarantined: Bool

    /// Makes a tombstone.
    public init(asOf: Date, at: Date, backend: String, reason: String, isQuarantined: Bool = false) {
        self.asOf = asOf
        self.at = at
        self.backend = backend
        self.reason = reason
        self.isQuarantined = isQuarantined
    }
}
