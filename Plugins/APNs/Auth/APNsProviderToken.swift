import Foundation
import ChaparCore

/// A provider token: the signed statement "this request comes from team X, by key Y", valid for an hour.
///
/// Header and claims hold what Apple asks for and nothing more; the signature is raw, everything is base64url without
/// padding.
struct APNsProviderToken: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    /// The token.
    let jwt: Secret
    /// Its `iat` claim, seconds since 1970.
    let issuedAt: Int64
    /// A number that rises with each token of a source.
    let generation: UInt64
    /// The field that carries it, made once.
    let header: HTTPHeader

    init(jwt: Secret, issuedAt: Int64, generation: UInt64) {
        self.jwt = jwt
        self.issuedAt = issuedAt
        self.generation = generation
        header = HTTPHeader("authorization", "bearer \(jwt.reveal())", .indexed)
    }

    /// The token's number, since the token and its field are secrets.
    var description: String { "provider token \(generation)" }
    var customMirror: Mirror { Mirror(self, children: ["generation": generation]) }

    /// Signs a new token.
    static func mint(
        key: APNsAuthKey,
        keyID: String,
        teamID: String,
        issuedAt: Int64,
        generation: UInt64
    ) throws -> APNsProviderToken {
        let signed = signedPart(keyID: keyID, teamID: teamID, issuedAt: issuedAt)
        let signature = try key.signature(of: Array(signed.utf8))
        return APNsProviderToken(
            jwt: Secret("\(signed).\(Base64URL.encode(signature))"),
            issuedAt: issuedAt,
            generation: generation
        )
    }

    /// Whether the token was made by this key for this key id and team: a stored token of a replaced key was not.
    func isMade(by key: APNsAuthKey, keyID: String, teamID: String) -> Bool {
        let text = jwt.reveal()
        guard let dot = text.lastIndex(of: "."),
            text[..<dot] == Self.signedPart(keyID: keyID, teamID: teamID, issuedAt: issuedAt),
            let signature = Base64URL.decode(text[text.index(after: dot)...])
        else { return false }
        return key.isValid(signature, of: Array(text[..<dot].utf8))
    }

    private static func signedPart(keyID: String, teamID: String, issuedAt: Int64) -> String {
        var header = JSONWriter(capacity: 64)
        header.beginObject()
        header.field("alg", "ES256")
        header.field("kid", keyID)
        header.endObject()
        var claims = JSONWriter(capacity: 64)
        claims.beginObject()
        claims.field("iss", teamID)
        claims.field("iat", issuedAt)
        claims.endObject()
        return "\(Base64URL.encode(header.bytes)).\(Base64URL.encode(claims.bytes))"
    }
}
