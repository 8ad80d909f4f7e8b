internal import Crypto
internal import CryptoExtras
internal import Foundation
public import ChaparCore

/// Signs JWTs for identities with the operator's key, whose public half is registered at the resource.
///
/// Altcraft documents neither algorithms nor further claims. By its guide (2026-08) asymmetric algorithms are safe.
public struct AltcraftSigner: AltcraftTokenSource {
    /// The algorithm of the signature.
    @nonexhaustive
    public enum Algorithm: String, Sendable, CaseIterable {
        /// RSA with SHA-256.
        case rs256 = "RS256"
        /// P-256 with SHA-256.
        case es256 = "ES256"
    }

    /// The database and the mode by which a profile is found.
    public struct Target: Sendable, Hashable {
        /// The database.
        public var databaseID: Int64
        /// The mode, such as `profile_id` or `custom`.
        public var matching: String
        /// The field that holds the identifier, for the mode `custom`.
        public var fieldName: String?

        /// Makes a target.
        public init(databaseID: Int64, matching: String, fieldName: String? = nil) {
            self.databaseID = databaseID
            self.matching = matching
            self.fieldName = fieldName
        }
    }

    /// The error for a text that is not a usable key: what it is instead, and what to do.
    public struct Mistake: Error, Sendable, Hashable {
        /// The problem, as the end of a sentence about the key: "is an encrypted key".
        ///
        /// Never holds key material.
        public let problem: String
        /// The fix, in one or more sentences.
        public let fix: String
    }

    private enum Key: Sendable {
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.Signing.PrivateKey)
    }

    /// How long a JWT is good for.
    public let cacheSpan: Duration
    private let key: Key
    private let keyID: String?
    private let users: Target
    private let anonymous: Target?
    private let time: any TimeSource

    /// Makes a signer.
    ///
    /// - Parameters:
    ///   - algorithm: The algorithm of the signature.
    ///   - keyPEM: The private key.
    ///   - keyID: The key's name in the JWT's header, if it has one.
    ///   - users: The target of users' profiles; the identifier is the user.
    ///   - anonymous: The target of profiles of devices without a user; the identifier is the device. Nil gives them no
    ///     JWT.
    ///   - lifetime: How long a JWT is good for.
    /// - Throws: When the text is no key, or the key is not one for the algorithm.
    public init(
        _ algorithm: Algorithm,
        keyPEM: Secret,
        keyID: String? = nil,
        users: Target,
        anonymous: Target? = nil,
        lifetime: Duration = .seconds(3600)
    ) throws(Mistake) {
        try self.init(
            algorithm,
            keyPEM: keyPEM,
            keyID: keyID,
            users: users,
            anonymous: anonymous,
            lifetime: lifetime,
            time: SystemTime()
        )
    }

    /// Does the same with a clock of its own.
    package init(
        _ algorithm: Algorithm,
        keyPEM: Secret,
        keyID: String? = nil,
        users: Target,
        anonymous: Target? = nil,
        lifetime: Duration = .seconds(3600),
        time: any TimeSource
    ) throws(Mistake) {
        let pem: String
        do throws(CredentialMistake) {
            pem = try PEMReader.privateKey(in: keyPEM).reveal()
        } catch {
            throw Mistake(
                problem: error.problem,
                fix: error.fix ?? "Write a PEM file with a -----BEGIN PRIVATE KEY----- line."
            )
        }
        do {
            switch algorithm {
            case .rs256: key = .rsa(try _RSA.Signing.PrivateKey(pemRepresentation: pem))
            case .es256: key = .p256(try P256.Signing.PrivateKey(pemRepresentation: pem))
            }
        } catch {
            let wanted = algorithm == .rs256 ? "an RSA key of at least 2048 bits" : "a P-256 key"
            throw Mistake(problem: "is not \(wanted)", fix: "alg: \(algorithm.rawValue) signs with \(wanted).")
        }
        self.keyID = keyID
        self.users = users
        self.anonymous = anonymous
        self.time = time
        cacheSpan = lifetime
    }

    /// Returns a JWT that names the user's profile, or the device's when there is no user.
    public func jwt(for identity: AltcraftIdentity) async throws(PushError) -> Secret? {
        let target: Target
        let identifier: String
        if let user = identity.user {
            (target, identifier) = (users, user)
        } else if let anonymous {
            (target, identifier) = (anonymous, identity.device)
        } else {
            return nil
        }
        var matching: JSONObject = ["db_id": .integer(target.databaseID), "matching": .string(target.matching)]
        if target.matching == "custom" {
            matching["field_name"] = .string(target.fieldName ?? "")
            matching["field_value"] = .string(identifier)
        } else {
            matching[Self.member(of: target.matching)] = .string(identifier)
        }
        let now = Int64(clamping: time.now.timeIntervalSince1970)
        let claims: JSONValue = [
            "matching": .string(JSONValue.object(matching).text), "sub": .string(identifier), "iat": .integer(now),
            "exp": .integer(now.adding(clamping: cacheSpan.components.seconds)),
        ]
        return Secret(try sign(claims))
    }

    /// Returns the name of the claim that holds the identifier of a mode.
    static func member(of matching: String) -> String { matching == "email_profile" ? "email" : matching }

    private func sign(_ claims: JSONValue) throws(PushError) -> String {
        let name = if case .rsa = key { Algorithm.rs256 } else { Algorithm.es256 }
        var header: JSONObject = ["alg": .string(name.rawValue), "typ": "JWT"]
        if let keyID { header["kid"] = .string(keyID) }
        do {
            return try JSONWebToken.compact(header: JSONValue.object(header).bytes, claims: claims.bytes) { text in
                let bytes = Data(text.utf8)
                return switch key {
                case .rsa(let key):
                    Array(try key.signature(for: bytes, padding: .insecurePKCS1v1_5).rawRepresentation)
                case .p256(let key): Array(try key.signature(for: bytes).rawRepresentation)
                }
            }
        } catch {
            throw PushError(.unavailable, "the key that signs JWTs cannot sign", reason: "540")
        }
    }
}
