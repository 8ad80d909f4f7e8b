public import Foundation
public import ChaparCore

/// A refusal of a token by a platform, which holds for at least one backend, as it is passed to the registry.
public struct TokenRefusal: Sendable, Hashable {
    /// The token that was refused.
    public var token: DeviceToken
    /// The kind of tokens that the message was for; a token registered as one of another kind is not affected.
    public var kind: TokenKind
    /// The app of the backend that was refused; devices of other apps are not affected.
    public var app: AppName
    /// The time from which it is dead (``ChaparCore/Refusal/Invalidation/asOf``): a later registration stays valid.
    public var asOf: Date
    /// The time when the gateway learned of it.
    public var at: Date
    /// The backend that was refused.
    public var backend: String
    /// The platform's reason.
    public var reason: String
    /// Whether the platform's answer is proof (``ChaparCore/Refusal/Invalidation/isCertain``).
    public var isCertain: Bool
    /// Other backends that may still take the token; empty when the refusal holds everywhere.
    public var alternatives: [String]
    /// Whether the refused message cannot go to another backend.
    ///
    /// Then a token that no device has registered counts as dead, since no other backend can show that it is alive.
    public var isLast: Bool
    /// The sender of the refused message: the API key's name, empty without one or when it is unknown.
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

/// A token with a tombstone, and its device and user.
public struct InvalidatedToken: Sendable, Hashable {
    /// The device that registered it.
    public var device: String
    /// The device's user, when known.
    public var user: String?
    /// The token.
    public var token: DeviceToken
    /// The purpose of the token.
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

/// The quarantined tombstones of a backend.
public struct QuarantinedTokens: Sendable, Hashable {
    /// The backend.
    public var backend: String
    /// The number of tokens that have one.
    public var count: Int
    /// The number of tokens by reason.
    public var reasons: [String: Int]
    /// The time when the gateway learned of the first.
    public var oldest: Date
    /// The time when the gateway learned of the last.
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
