public import Foundation
public import PushCore

/// A platform's refusal of a token, at least for one backend, on its way to the registry.
public struct TokenRefusal: Sendable, Hashable {
    /// The token that was refused.
    public var token: DeviceToken
    /// What kind of tokens the message was for: nothing is said of a token that is registered as one of another kind.
    public var kind: TokenKind
    /// The app of the backend that was refused: a device of another one is not meant.
    public var app: AppName
    /// Since when it is dead (``PushCore/Refusal/Invalidation/asOf``): a registration after it stays valid.
    public var asOf: Date
    /// When the gateway learned of it.
    public var at: Date
    /// The backend that was refused.
    public var backend: String
    /// The platform's reason.
    public var reason: String
    /// Whether the platform's answer is proof (``PushCore/Refusal/Invalidation/isCertain``).
    public var isCertain: Bool
    /// Other backends that may take the token all the same; empty when the refusal holds everywhere.
    public var alternatives: [String]
    /// Whether the message that was refused goes to no other backend.
    ///
    /// Then a token that nobody registered counts as dead: nothing else is known of it.
    public var isLast: Bool
    /// Who sent the message that was refused: the API key's name, empty without one or when it is not known.
    public var caller: String

    /// Makes a refusal.
    public init(
        _ token: DeviceToken,
        kind: TokenKind = .device,
        of app: AppName = .default,
        asOf: Date,
        at: Date,
        backend: String,
        reason: String,
        isCertain: Bool = true,
        alternatives: [String] = [],
        isLast: Bool = true,
        caller: String = ""
    ) {
        self.token = token
        self.kind = kind
        self.app = app
        self.asOf = asOf
        self.at = at
        self.backend = backend
        self.reason = reason
        self.isCertain = isCertain
        self.alternatives = alternatives
        self.isLast = isLast
        self.caller = caller
    }
}

/// A token with a tombstone, and whose it is.
public struct InvalidatedToken: Sendable, Hashable {
    /// The device that registered it.
    public var device: String
    /// The device's user, when known.
    public var user: String?
    /// The token.
    public var token: DeviceToken
    /// What it is for.
    public var kind: TokenKind
    /// The verdict.
    public var tombstone: Tombstone

    /// Makes a value.
    public init(
        device: String,
        user: String?,
        token: DeviceToken,
        kind: TokenKind = .device,
        tombstone: Tombstone
    ) {
        self.device = device
        self.user = user
        self.token = token
        self.kind = kind
        self.tombstone = tombstone
    }
}

/// The tombstones of a backend that are quarantined.
public struct QuarantinedTokens: Sendable, Hashable {
    /// The backend.
    public var backend: String
    /// How many tokens have one.
    public var count: Int
    /// How many of each reason.
    public var reasons: [String: Int]
    /// When the gateway learned of the first.
    public var oldest: Date
    /// When the gateway learned of the last.
    public var newest: Date

    /// Makes a summary.
    public init(backend: String, count: Int, reasons: [String: Int], oldest: Date, newest: Date) {
        self.backend = backend
        self.count = count
        self.reasons = reasons
        self.oldest = oldest
        self.newest = newest
    }
}
