import Crypto
import CryptoExtras
public import Foundation
public import ChaparCore

/// A service account's key file: the account's ids, and the RSA key that signs its JWTs.
///
/// Each known mistake of an operator has its own message.
public struct HMSServiceAccount: Sendable {
    /// The project it belongs to; nil when the file names none.
    public let projectID: String?
    /// The key's id.
    public let keyID: String
    /// The account's id, which stands as issuer in its tokens.
    public let subAccount: String
    private let key: _RSA.Signing.PrivateKey

    /// The audience of the tokens: Huawei's own address, also where requests go to another one.
    static let audience = "https://oauth-login.cloud.huawei.com/oauth2/v3/token"
    /// The lifetime of a token; Huawei accepts up to a day.
    static let lifetime = Duration.seconds(3600)

    /// The error for a text that is not a usable key file: what it is instead, and what to do.
    public struct Mistake: Error, Sendable, Hashable {
        /// The problem, as the end of a sentence about the file: "is not JSON".
        ///
        /// Never holds key material.
        public let problem: String
        /// The fix, in one or more sentences.
        public let fix: String
    }

    /// Reads a key file.
    public init(json: [UInt8]) throws(Mistake) {
        let fix = "Download it again: AppGallery Connect, Project settings, Service accounts."
        let file: JSONObject
        do throws(CredentialMistake) {
            file = try CredentialJSON.object(in: try CredentialText.text(of: json))
        } catch {
            throw Mistake(problem: error.problem, fix: error.fix ?? fix)
        }
        func text(_ name: String) throws(Mistake) -> String {
            guard let text = file[name]?.stringValue, !text.isEmpty else {
                throw Mistake(problem: "has no \(name)", fix: fix)
            }
            return text
        }
        let projectID = file["project_id"]?.stringValue
        try self.init(
            projectID: projectID,
            keyID: try text("key_id"),
            subAccount: try text("sub_account"),
            keyPEM: Secret(try text("private_key"))
        )
    }

    /// Makes an account from its parts.
    public init(projectID: String?, keyID: String, subAccount: String, keyPEM: Secret) throws(Mistake) {
        self.projectID = projectID
        self.keyID = keyID
        self.subAccount = subAccount
        let fix = "Give the file as it was downloaded, unchanged."
        let pem: Secret
        do throws(CredentialMistake) {
            pem = try PEMReader.privateKey(in: keyPEM)
        } catch {
            throw Mistake(problem: "has a private_key that \(error.problem)", fix: error.fix ?? fix)
        }
        do {
            key = try _RSA.Signing.PrivateKey(pemRepresentation: pem.reveal())
        } catch {
            throw Mistake(problem: "has a private_key that \(PEMReader.mismatch(ofKey: pem))", fix: fix)
        }
    }

    /// Returns a token that is valid from a moment on: a JWT with the algorithm PS256 (RFC 7518, section 3.5), which is
    /// used as the bearer itself.
    func token(at now: Date) throws(PushError) -> AccessToken {
        let issued = Int64(clamping: now.timeIntervalSince1970)
        let header: JSONValue = ["alg": "PS256", "typ": "JWT", "kid": .string(keyID)]
        let claims: JSONValue = [
            "iss": .string(subAccount), "aud": .string(Self.audience), "iat": .integer(issued),
            "exp": .integer(issued.adding(clamping: Self.lifetime.components.seconds)),
        ]
        do {
            let text = try JSONWebToken.compact(header: header.bytes, claims: claims.bytes) { text in
                Array(try key.signature(for: SHA256.hash(data: Data(text.utf8)), padding: .PSS).rawRepresentation)
            }
            return AccessToken(Secret(text), lifetime: Self.lifetime)
        } catch {
            throw PushError(.credentialsRefused, "the service account's key cannot sign")
        }
    }
}

extension HMSServiceAccount.Mistake: LocalizedError, CustomStringConvertible {
    /// A sentence for people.
    public var description: String { "the file \(problem). \(fix)" }

    /// The description.
    public var errorDescription: String? { description }
}
