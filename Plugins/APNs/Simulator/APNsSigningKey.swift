public import Foundation
internal import Crypto
internal import ChaparCore

/// A `.p8` key in Apple's form, made up for tests and demonstrations, with the simulator's data about it.
///
/// It can also sign provider tokens, so that a test can send those of a broken client.
public struct APNsSigningKey: Sendable {
    /// The team that owns the key, 10 characters.
    public let teamID: String
    /// The key's id, 10 characters.
    public let keyID: String
    /// The environments in which it is valid: both for an older team-scoped key.
    public let environments: Set<APNsEnvironment>
    /// The topics it may push to.
    public let topics: APNsTopics
    /// The id of the one key that may be used on the same connection; nil when there is none.
    public let relatedKeyID: String?
    let privateKey: P256.Signing.PrivateKey

    /// Makes a new key pair.
    public init(
        teamID: String = "CHAPARTEAM",
        keyID: String = "CHAPARKEY1",
        environments: Set<APNsEnvironment> = [.development, .production],
        topics: APNsTopics = .all,
        relatedKeyID: String? = nil
    ) {
        self.teamID = teamID
        self.keyID = keyID
        self.environments = environments
        self.topics = topics
        self.relatedKeyID = relatedKeyID
        privateKey = P256.Signing.PrivateKey()
    }

    /// The private key as the content of a `.p8` file: PKCS#8 in PEM.
    public var pem: String { privateKey.pemRepresentation }

    /// The public key in PEM, to register the key with another simulator.
    public var publicKeyPEM: String { privateKey.publicKey.pemRepresentation }

    /// The file name that Apple gives such a key.
    public var fileName: String { "AuthKey_\(keyID).p8" }

    /// The key's registration with the simulator.
    public var registration: APNsKeyRegistration {
        APNsKeyRegistration(
            teamID: teamID,
            keyID: keyID,
            publicKey: privateKey.publicKey,
            environments: environments,
            topics: topics,
            relatedKeyID: relatedKeyID
        )
    }

    /// Signs a provider token in the strict form: `alg`, `kid`, `iss`, `iat`, raw signature, no padding.
    public func providerToken(issuedAt: Date) throws -> String {
        try providerToken(
            header: #"{"alg":"ES256","kid":"\#(keyID)"}"#,
            claims: #"{"iss":"\#(teamID)","iat":\#(Int64(clamping: issuedAt.timeIntervalSince1970))}"#
        )
    }

    /// Signs any header and claims, for tokens that must be refused.
    public func providerToken(header: String, claims: String) throws -> String {
        let content = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        let signature = try privateKey.signature(for: Data(content.utf8))
        return content + "." + Base64URL.encode(Array(signature.rawRepresentation))
    }
}

/// The simulator's data about a key: everything but the private half.
public struct APNsKeyRegistration: Sendable {
    /// The team that owns the key.
    public let teamID: String
    /// The key's id.
    public let keyID: String
    /// The environments in which it is valid.
    public let environments: Set<APNsEnvironment>
    /// The topics it may push to.
    public let topics: APNsTopics
    /// The id of the one key that may be used on the same connection.
    public let relatedKeyID: String?
    let publicKey: P256.Signing.PublicKey

    init(
        teamID: String,
        keyID: String,
        publicKey: P256.Signing.PublicKey,
        environments: Set<APNsEnvironment>,
        topics: APNsTopics,
        relatedKeyID: String?
    ) {
        self.teamID = teamID
        self.keyID = keyID
        self.publicKey = publicKey
        self.environments = environments
        self.topics = topics
        self.relatedKeyID = relatedKeyID
    }

    /// Makes a registration from a public key in PEM (`BEGIN PUBLIC KEY`); throws when it is no P-256 key.
    public init(
        teamID: String,
        keyID: String,
        publicKeyPEM: String,
        environments: Set<APNsEnvironment> = [.development, .production],
        topics: APNsTopics = .all,
        relatedKeyID: String? = nil
    ) throws {
        self.init(
            teamID: teamID,
            keyID: keyID,
            publicKey: try P256.Signing.PublicKey(pemRepresentation: publicKeyPEM),
            environments: environments,
            topics: topics,
            relatedKeyID: relatedKeyID
        )
    }
}

extension Base64URL {
    /// Decodes Base64; with `isStrict` it rejects padding and the standard alphabet.
    static func decode(_ text: Substring, isStrict: Bool) -> [UInt8]? {
        if isStrict, text.utf8.contains(where: { $0 == 61 || $0 == 43 || $0 == 47 }) { return nil }
        return decode(text)
    }
}
