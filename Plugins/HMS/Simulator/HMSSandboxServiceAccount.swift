internal import Crypto
internal import CryptoExtras
internal import Foundation
internal import ChaparCore

/// A made-up service account with an RSA key of its own, and the check of the JWTs that it signs.
public struct HMSSandboxServiceAccount: Sendable {
    /// The account's id, the issuer of its tokens.
    public let subAccount: String
    /// The key's id.
    public let keyID: String
    private let ownKey: _RSA.Signing.PrivateKey?

    /// The shared key, made on first use: making an RSA key takes long, and most simulators never see a JWT.
    private static let sharedKey = try? _RSA.Signing.PrivateKey(keySize: .bits2048)

    /// Makes an account.
    ///
    /// - Parameters:
    ///   - subAccount: The account's id.
    ///   - keyID: The key's id.
    ///   - hasOwnKey: Whether it gets a new key, rather than the one that all others of this process have.
    public init(subAccount: String = "118900001", keyID: String = "f47a1c2e5b", hasOwnKey: Bool = false) {
        self.subAccount = subAccount
        self.keyID = keyID
        ownKey = hasOwnKey ? try? _RSA.Signing.PrivateKey(keySize: .bits2048) : nil
    }

    private var key: _RSA.Signing.PrivateKey? { ownKey ?? Self.sharedKey }
    /// The private key, PEM.
    public var keyPEM: String { key?.pemRepresentation ?? "" }

    /// Returns the key file as it is downloaded from AppGallery Connect.
    public func keyFile(projectID: String) -> String {
        let file: JSONValue = [
            "project_id": .string(projectID), "key_id": .string(keyID), "private_key": .string(keyPEM),
            "sub_account": .string(subAccount), "auth_uri": "https://oauth-login.cloud.huawei.com/oauth2/v3/authorize",
            "token_uri": "https://oauth-login.cloud.huawei.com/oauth2/v3/token",
        ]
        return file.text
    }

    /// Returns the code with which a token is refused; nil when it is valid.
    func refusal(of token: String, at now: Date) -> HMSCode? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.json(parts[0]), let claims = Self.json(parts[1]),
            let signature = Self.bytes(parts[2])
        else { return .badToken }
        guard header["alg"] == "PS256", header["kid"]?.stringValue == keyID,
            claims["iss"]?.stringValue == subAccount,
            claims["aud"]?.stringValue == "https://oauth-login.cloud.huawei.com/oauth2/v3/token",
            let issued = claims["iat"]?.integerValue, let ends = claims["exp"]?.integerValue
        else { return .badToken }
        let signed = Data((String(parts[0]) + "." + parts[1]).utf8)
        guard
            key?.publicKey.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature),
                for: SHA256.hash(data: signed),
                padding: .PSS
            ) ?? false
        else { return .badToken }
        if ends.subtracting(clamping: issued) > 86_400 { return .jwtTooLong }
        if Date(timeIntervalSince1970: Double(ends)) <= now { return .jwtExpired }
        // A token from the future is as invalid as an old one.
        if Date(timeIntervalSince1970: Double(issued)) > now.addingTimeInterval(300) { return .jwtExpired }
        return nil
    }

    private static func bytes(_ text: Substring) -> Data? {
        var text = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while text.utf8.count % 4 != 0 { text += "=" }
        return Data(base64Encoded: text)
    }

    private static func json(_ text: Substring) -> JSONValue? {
        bytes(text).flatMap { try? JSONValue(parsing: Array($0)) }
    }
}
