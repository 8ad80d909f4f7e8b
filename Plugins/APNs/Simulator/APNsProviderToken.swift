internal import Crypto
internal import Foundation
internal import ChaparCore

/// The provider token of a request, with a checked signature.
struct APNsProviderToken: Sendable {
    let keyID: String
    let teamID: String
    /// Seconds since 1970.
    let issuedAt: Int64

    /// Reads the value of an `authorization` field and checks form and signature; nil for a value that APNs would call
    /// invalid.
    ///
    /// The caller checks its age and its environment.
    ///
    /// The strict form is the one that Apple documents; `typ` in the header is accepted, since every JWT library writes
    /// it. The lenient form adds what the real service has been seen to accept: `Bearer` in any case, padded or
    /// standard base64, a DER signature, `kid` among the claims.
    init?(authorization: String, keys: [String: APNsKeyRegistration], isStrict: Bool) {
        guard let token = Self.token(in: authorization, isStrict: isStrict) else { return nil }
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Self.json(parts[0], isStrict: isStrict), let claims = Self.json(parts[1], isStrict: isStrict),
            header["alg"]?.stringValue == "ES256",
            let keyID = header["kid"]?.stringValue ?? (isStrict ? nil : claims["kid"]?.stringValue),
            let teamID = claims["iss"]?.stringValue, let issuedAt = claims["iat"]?.integerValue,
            let key = keys[keyID], key.teamID == teamID,
            let bytes = Base64URL.decode(parts[2], isStrict: isStrict),
            let signature = Self.signature(bytes, isStrict: isStrict)
        else { return nil }
        if isStrict {
            guard header.allSatisfy({ ["alg", "kid", "typ"].contains($0.name) }), claims.count == 2 else { return nil }
        }
        let content = Data(token.utf8.prefix(parts[0].utf8.count + 1 + parts[1].utf8.count))
        guard key.publicKey.isValidSignature(signature, for: content) else { return nil }
        self.keyID = keyID
        self.teamID = teamID
        self.issuedAt = issuedAt
    }

    private static func token(in authorization: String, isStrict: Bool) -> Substring? {
        guard let space = authorization.firstIndex(of: " ") else { return nil }
        let scheme = authorization[..<space]
        guard scheme == "bearer" || (!isStrict && scheme.lowercased() == "bearer") else { return nil }
        return authorization[authorization.index(after: space)...]
    }

    private static func json(_ part: Substring, isStrict: Bool) -> JSONObject? {
        guard let bytes = Base64URL.decode(part, isStrict: isStrict), let value = try? JSONValue(parsing: bytes) else {
            return nil
        }
        return value.objectValue
    }

    private static func signature(_ bytes: [UInt8], isStrict: Bool) -> P256.Signing.ECDSASignature? {
        if bytes.count == 64, let raw = try? P256.Signing.ECDSASignature(rawRepresentation: bytes) { return raw }
        return isStrict ? nil : try? P256.Signing.ECDSASignature(derRepresentation: bytes)
    }
}
