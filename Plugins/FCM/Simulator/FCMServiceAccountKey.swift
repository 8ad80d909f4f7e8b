internal import CryptoExtras
internal import ChaparCore

/// A service account that exists on this machine only, with the key that signs its assertions.
public struct FCMServiceAccountKey: Sendable {
    /// The name of the key file that the sandbox writes.
    public let fileName = "firebase.json"
    /// The account's name.
    public let email: String
    /// The key's id.
    public let keyID: String
    /// The project it belongs to.
    public let projectID: String
    /// The private key, PKCS#8.
    public let privateKeyPEM: String
    let publicKey: _RSA.Signing.PublicKey

    /// The key that accounts of one process share unless asked otherwise, since making an RSA key takes long.
    private static let shared = try? _RSA.Signing.PrivateKey(keySize: .bits2048)

    /// Makes an account.
    ///
    /// - Parameters:
    ///   - projectID: The project.
    ///   - keyID: The key's id.
    ///   - hasOwnKey: Whether it gets a new key, rather than the one that all others of this process have.
    /// - Throws: When no key can be made.
    public init(projectID: String, keyID: String = "c4a9a7f0sandbox", hasOwnKey: Bool = false) throws {
        let key = try (hasOwnKey ? nil : Self.shared) ?? _RSA.Signing.PrivateKey(keySize: .bits2048)
        self.projectID = projectID
        self.keyID = keyID
        email = "sender@\(projectID).iam.gserviceaccount.com"
        privateKeyPEM = key.pkcs8PEMRepresentation
        publicKey = key.publicKey
    }

    /// Returns the key file, in Google's form.
    public func json(tokenURI: String) -> String {
        let file: JSONValue = [
            "type": "service_account", "project_id": .string(projectID), "private_key_id": .string(keyID),
            "private_key": .string(privateKeyPEM), "client_email": .string(email), "client_id": "100000000000000000001",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth", "token_uri": .string(tokenURI),
            "universe_domain": "googleapis.com",
        ]
        return file.text + "\n"
    }
}
