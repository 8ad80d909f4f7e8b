public import Foundation
public import PushCore

/// One installation of an app, as the registry keeps it: whose it is, how it is reached, what is known about it.
///
/// The API and `chapar devices import` write it, a delivery worker reads it to find the token that its backend takes.
/// Its platforms' own records of the device are ``PushCore/DeviceRecord``.
public struct Device: Sendable, Hashable {
    /// The longest id, in bytes.
    public static let maximumIDBytes = Recipient.maximumDeviceIDBytes
    /// The most tags.
    public static let maximumTags = 100
    /// The longest name of a user, a tag or a version, in bytes.
    public static let maximumNameBytes = 256
    /// The most attributes.
    public static let maximumAttributes = 50
    /// The most tokens of other kinds than ``PushCore/TokenKind/device``; beyond, the one that was registered first
    /// goes.
    public static let maximumKindTokens = 16
    /// The most bytes that attributes have as JSON.
    public static let maximumAttributeBytes = 4096

    /// Its key (``PushCore/AppName``): the id that the app or its server chose, 1 to 128 of `A–Z a–z 0–9 . _ : -`, with
    /// the app's name and a slash before it unless it is of the default app.
    public var id: String
    /// The key (``PushCore/AppName``) of the user it belongs to, when known.
    ///
    /// A user may have many devices.
    public var user: String?
    /// `ios`, `android`, `harmony` or `web`, when the caller said so; see ``effectivePlatform``.
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
    /// What else the app reported, such as `os_version`, `model` or `notifications_allowed`: texts, numbers and truth
    /// values.
    public var attributes: JSONObject
    /// When it was registered first.
    public var createdAt: Date
    /// When its record changed last.
    public var updatedAt: Date
    /// When the app was seen last, as far as the caller said.
    public var lastSeen: Date?

    /// Makes a device; tokens and tags are put in order, of a repeated one the last counts.
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

    /// Whether a text can be the id of a device.
    public static func isID(_ text: some StringProtocol) -> Bool { Recipient.isDeviceID(text) }

    /// The platform it runs: what the caller said, else what all its tokens agree on.
    public var effectivePlatform: String? {
        if let platform { return platform }
        // Where the devices of a service without a name of its own run is unknown.
        let platforms = Set(tokens.map(\.token.service).filter { TokenService.known.contains($0) }.map(\.platform))
        return platforms.count == 1 ? platforms.first : nil
    }

    /// The token of a service, dead or alive: the app's own, unless another kind is named.
    public func token(of service: TokenService, _ kind: TokenKind = .device) -> RegisteredToken? {
        tokens.first { $0.token.service == service && $0.kind == kind }
    }

    /// The app's own token of a service, unless it is dead.
    public func liveToken(of service: TokenService) -> DeviceToken? {
        token(of: service).flatMap { $0.isAlive ? $0.token : nil }
    }

    /// The token that a backend takes: of the first service in `priority` that it has one of, then of any other.
    ///
    /// Nil when the backend takes none of its live tokens of the kind, or has refused those it takes
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

    /// When the app was known to hold a token last: when it was seen, or registered the token after that.
    ///
    /// Nil when it is unknown when the app was seen: a registration alone may be old without the app being gone.
    public func lastSeen(with token: DeviceToken) -> Date? {
        lastSeen.map { seen in max(seen, tokens.first { $0.token == token }?.registeredAt ?? seen) }
    }

    /// Puts a token in the place of the one that its slot had, and takes it out of any other.
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

    /// Removes the token of a slot; none is no error.
    public mutating func removeToken(of slot: TokenSlot) { tokens.removeAll { $0.slot == slot } }
    /// Removes the app's own token of a service; none is no error.
    public mutating func removeToken(of service: TokenService) { removeToken(of: TokenSlot(service)) }
}

extension Device {
    /// The app that it is of.
    public var app: AppName { AppName(ofDevice: id) }
    /// Its id within the app.
    public var name: String { app.name(id) }
    /// Its user's name within the app.
    public var userName: String? { user.map(app.name) }
}

extension TokenService {
    /// The order in which a device's tokens are preferred unless the configuration says otherwise (`token_priority`).
    public static let priority: [TokenService] = known
}

/// A refusal that may hold for one backend only, since a wrong environment or app looks like it (`BadDeviceToken`,
/// `SENDER_ID_MISMATCH`).
///
/// The backend gets no more messages for the token; others that take it do.
public struct BackendRefusal: Sendable, Hashable {
    /// The most of a token; the oldest go first.
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
    /// What it is for.
    public var kind: TokenKind
    /// The environment that the app gave; `unknown` when it gave none, then it is learnt from answers.
    public var environment: TokenEnvironment
    /// When the device registered it, to the millisecond.
    ///
    /// A refusal that is older does not touch it.
    public var registeredAt: Date
    /// The platform's verdict, when there is one.
    public var tombstone: Tombstone?
    /// The backends that have refused it without its being dead for others, each once, the oldest refusal first.
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

    /// What the device has one of.
    public var slot: TokenSlot { TokenSlot(token.service, kind) }

    /// Whether messages go to it: it has no tombstone, or one that is held back.
    public var isAlive: Bool { tombstone?.isHeld ?? true }

    /// Whether a backend may be given it: it is alive, and the backend has not refused it.
    ///
    /// While a tombstone is held back all refusals are in doubt, so none of them counts.
    public func isUsable(by backend: String) -> Bool {
        if let tombstone { return tombstone.isHeld }
        return refusals.isEmpty || !refusals.contains { $0.backend == backend }
    }
}

/// A platform's verdict that a token is dead.
///
/// The token is kept, so that the verdict can be taken back; it ends when the device registers the token again at a
/// later time than ``asOf``.
public struct Tombstone: Sendable, Hashable {
    /// Since when the token is dead, by the platform's clock.
    public var asOf: Date
    /// When the gateway learned of it.
    public var at: Date
    /// The backend whose platform refused it, by its name in the configuration.
    public var backend: String
    /// The platform's word for it, such as `Unregistered`.
    public var reason: String
    /// Whether it is held back by the guard against mass invalidation: then the token counts as alive.
    public var isHeld: Bool

    /// Makes a tombstone.
    public init(asOf: Date, at: Date, backend: String, reason: String, isHeld: Bool = false) {
        self.asOf = asOf
        self.at = at
        self.backend = backend
        self.reason = reason
        self.isHeld = isHeld
    }
}
