public import Foundation
public import ChaparCore

/// A credential from an OAuth 2 token endpoint: an access token, and the token to request the next one with.
///
/// It has the four properties of IDMoya's `OAuthObject` and two of RFC 6749. It prints without its tokens.
public struct OAuthCredential: Sendable, Hashable {
    /// The token that requests carry.
    public var accessToken: Secret
    /// The token to request the next access token with; nil when the credential cannot be refreshed.
    public var refreshToken: Secret?
    /// The lifetime of the access token in seconds, from ``createdAt``; nil when not given.
    ///
    /// With 0 or less it has already expired.
    public var expiresIn: Int?
    /// The time of the request for the credential, by the local clock.
    public var createdAt: Date
    /// The scope that was granted, when the server gave it.
    public var scope: String?

    /// Makes a credential.
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

    /// The expiry of the access token; nil when not given.
    public var expiresAt: Date? { expiresIn.map { createdAt.addingTimeInterval(Double($0)) } }

    /// Whether both have the same tokens, regardless of their times.
    func hasTokens(of other: OAuthCredential) -> Bool {
        accessToken == other.accessToken && refreshToken == other.refreshToken
    }
}

extension OAuthCredential {
    /// Reads a token endpoint's answer, or a credential that an operator wrote.
    ///
    /// - Parameters:
    ///   - json: `access_token`, `expires_in`, `refresh_token`, `token_type`, `scope`, `created_at`.
    ///   - createdAt: The time of the request. With nil a `created_at` in the JSON counts: give nil only for a stored
    ///     or written credential, not for a live answer.
    ///   - previous: The credential that it replaces; its refresh token and its scope stay valid when the answer has
    ///     none (RFC 6749 sections 6 and 5.1).
    /// - Throws: ``OAuth2Error/malformedResponse(key:)`` with the key, or ``OAuth2Error/unsupportedTokenType``.
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

    /// Reads a credential by the original's rule: all three keys present with the right types, `expires_in` a whole
    /// number; else nil.
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

    /// Reads a whole number, a double without a fraction, or a number as text; nil when absent.
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

    /// Whether the text is safe in a header field: a token with a line break in it would end the field.
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
    /// The form in which a credential is stored.
    @nonexhaustive
    public enum KeyStyle: String, Sendable, CaseIterable {
        /// The keys that IDMoya uses in the user defaults: `IDAM.UDK.AO.AT` and so on.
        ///
        /// Both tokens and the lifetime must be known.
        case original
        /// The keys of a token endpoint's answer, with `created_at`.
        case long
    }

    /// Returns the stored form.
    ///
    /// A credential that does not fit the original keys is written with the long ones.
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

    /// Reads either stored form; the error names the key that is missing or has the wrong type.
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
