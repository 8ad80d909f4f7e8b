public import Foundation
public import PushCore

/// What an OAuth 2 token endpoint hands out: an access token, and what the next one is asked for with.
///
/// The four properties of IDMoya's `OAuthObject` and two of RFC 6749. It prints without its tokens.
public struct OAuthCredential: Sendable, Hashable {
    /// The token that requests carry.
    public var accessToken: Secret
    /// What the next access token is asked for with; nil when none will be.
    public var refreshToken: Secret?
    /// How many seconds the access token is good for, from ``createdAt``; nil when not given.
    ///
    /// At most 0 is expired already.
    public var expiresIn: Int?
    /// When the credential was asked for, by the local clock.
    public var createdAt: Date
    /// The scope that was granted, when the server gave it.
    public var scope: String?

    /// Makes a credential of its parts.
    public init(
        accessToken: Secret,
        refreshToken: Secret?,
        expiresIn: Int?,
        createdAt: Date,
        scope: String? = nil
    ) {
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.expiresIn = expiresIn
        self.createdAt = createdAt
        self.scope = scope
    }

    /// When the access token ends; nil when not given.
    public var expiresAt: Date? { expiresIn.map { createdAt.addingTimeInterval(Double($0)) } }

    /// Whether both carry the same tokens, whenever they were made.
    func hasTokens(of other: OAuthCredential) -> Bool {
        accessToken == other.accessToken && refreshToken == other.refreshToken
    }
}

extension OAuthCredential {
    /// Reads a token endpoint's answer, or a credential that an operator wrote.
    ///
    /// - Parameters:
    ///   - json: `access_token`, `expires_in`, `refresh_token`, `token_type`, `scope`, `created_at`.
    ///   - createdAt: When it was asked for. A `created_at` inside counts only for what is no live answer: give nil
    ///     then.
    ///   - previous: The credential it replaces; its refresh token and its scope stay in force when the answer has none
    ///     (RFC 6749 sections 6 and 5.1).
    /// - Throws: ``OAuth2Error/malformedResponse(key:)`` that names the key, or ``OAuth2Error/unsupportedTokenType``.
    public init(
        json: JSONValue,
        createdAt: Date?,
        replacing previous: OAuthCredential? = nil
    ) throws(OAuth2Error) {
        guard let object = json.objectValue else { throw .malformedResponse(key: "") }
        guard let access = object["access_token"]?.stringValue, !access.allSatisfy(\.isWhitespace),
            Self.isHeaderSafe(access)
        else { throw .malformedResponse(key: "access_token") }
        switch object["token_type"] {
        case nil, .null?: break
        case .string(let type)? where type.lowercased() == "bearer": break
        default: throw .unsupportedTokenType
        }
        let refresh: Secret?
        switch object["refresh_token"] {
        case nil, .null?: refresh = previous?.refreshToken
        case .string(let text)? where !text.isEmpty: refresh = Secret(text)
        default: throw .malformedResponse(key: "refresh_token")
        }
        let created: Date
        if let createdAt { created = createdAt } else { created = try Self.time(object["created_at"]) }
        self.init(
            accessToken: Secret(access),
            refreshToken: refresh,
            expiresIn: try Self.seconds(object["expires_in"]),
            createdAt: created,
            scope: object["scope"]?.stringValue ?? previous?.scope
        )
    }

    /// Reads the JSON text of a credential; without `created_at` it counts as made at `now`.
    public init(json bytes: [UInt8], now: Date) throws(OAuth2Error) {
        guard let value = try? JSONValue(parsing: bytes) else { throw .malformedResponse(key: "") }
        try self.init(json: value, createdAt: value["created_at"] == nil ? now : nil)
    }

    /// Reads a dictionary with the keys of a token endpoint's answer.
    public init(dictionary: [String: JSONValue], now: Date) throws(OAuth2Error) {
        var object = JSONObject()
        for (name, value) in dictionary { object[name] = value }
        try self.init(json: .object(object), createdAt: object["created_at"] == nil ? now : nil)
    }

    /// The original's rule: all three keys there and of their types, `expires_in` a whole number, or nil.
    public init?(original json: JSONValue?, now: Date) {
        guard let access = json?["access_token"]?.stringValue, let refresh = json?["refresh_token"]?.stringValue,
            let seconds = json?["expires_in"]?.integerValue
        else { return nil }
        self.init(
            accessToken: Secret(access),
            refreshToken: Secret(refresh),
            expiresIn: Int(clamping: seconds),
            createdAt: now
        )
    }

    /// A whole number, a double without a fraction, or a number as text; absent is nil.
    private static func seconds(_ value: JSONValue?) throws(OAuth2Error) -> Int? {
        switch value {
        case nil, .null?: return nil
        case .integer(let number)?: return Int(clamping: number)
        case .double(let number)? where number == number.rounded() && abs(number) < 1e15: return Int(clamping: number)
        case .string(let text)?: if let number = Int(text) { return number }
        default: break
        }
        throw .malformedResponse(key: "expires_in")
    }

    private static func time(_ value: JSONValue?) throws(OAuth2Error) -> Date {
        switch value {
        case .integer(let seconds)?: return Date(timeIntervalSince1970: Double(seconds))
        case .double(let seconds)?: return Date(timeIntervalSince1970: seconds)
        case .string(let text)?: if let date = RFC3339.parse(text) { return date }
        default: break
        }
        throw .malformedResponse(key: "created_at")
    }

    /// Whether the text can stand in a header field: a token with a line break in it would end the field.
    private static func isHeaderSafe(_ text: String) -> Bool { text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }
}

extension OAuthCredential: CustomStringConvertible {
    /// Type, time, lifetime and scope: never the tokens.
    public var description: String {
        let lifetime = expiresIn.map { "\($0) s" } ?? "an unknown time"
        return "Bearer credential of \(RFC3339.string(createdAt)), good for \(lifetime)"
            + (scope.map { ", scope \($0)" } ?? "") + (refreshToken == nil ? ", cannot be refreshed" : "")
    }
}

extension OAuthCredential {
    /// How a credential is written to a store.
    @nonexhaustive
    public enum KeyStyle: String, Sendable, CaseIterable {
        /// The keys that IDMoya keeps in the user defaults: `IDAM.UDK.AO.AT` and so on. Both tokens and the lifetime
        /// must be known.
        case original
        /// The keys of a token endpoint's answer, with `created_at`.
        case long
    }

    /// The stored form.
    ///
    /// A credential that the original keys cannot hold is written with the long ones.
    public func stored(_ style: KeyStyle = .long) -> JSONValue {
        let created = JSONValue.double(createdAt.timeIntervalSince1970)
        if style == .original, let refreshToken, let expiresIn {
            return [
                "IDAM.UDK.AO.AT": .string(accessToken.reveal()), "IDAM.UDK.AO.RT": .string(refreshToken.reveal()),
                "IDAM.UDK.AO.EI": .integer(Int64(expiresIn)), "IDAM.UDK.AO.CA": created,
            ]
        }
        var object: JSONObject = ["access_token": .string(accessToken.reveal()), "created_at": created]
        if let refreshToken { object["refresh_token"] = .string(refreshToken.reveal()) }
        if let expiresIn { object["expires_in"] = .integer(Int64(expiresIn)) }
        if let scope { object["scope"] = .string(scope) }
        return .object(object)
    }

    /// Reads either stored form; the error names the key that is missing or of another type.
    public init(stored json: JSONValue) throws(OAuth2Error) {
        let (at, rt, ei, ca) = ("IDAM.UDK.AO.AT", "IDAM.UDK.AO.RT", "IDAM.UDK.AO.EI", "IDAM.UDK.AO.CA")
        guard let object = json.objectValue, [at, rt, ei, ca].contains(where: { object[$0] != nil }) else {
            try self.init(json: json, createdAt: nil)
            return
        }
        guard let access = object[at]?.stringValue else { throw .malformedResponse(key: at) }
        guard let refresh = object[rt]?.stringValue else { throw .malformedResponse(key: rt) }
        guard let seconds = object[ei]?.integerValue else { throw .malformedResponse(key: ei) }
        let created: Double
        switch object[ca] {
        case .double(let number)?: created = number
        case .integer(let number)?: created = Double(number)
        default: throw .malformedResponse(key: ca)
        }
        self.init(
            accessToken: Secret(access),
            refreshToken: Secret(refresh),
            expiresIn: Int(clamping: seconds),
            createdAt: Date(timeIntervalSince1970: created)
        )
    }
}
