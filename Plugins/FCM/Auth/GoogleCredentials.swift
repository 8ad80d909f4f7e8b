internal import CryptoExtras
public import Foundation
public import ChaparCore

/// The error for a Google credential that cannot be used: the member of the file, the problem and the fix.
public struct GoogleCredentialMistake: Error, Sendable, Hashable, CustomStringConvertible {
    /// The member of the file, nil when the file as a whole is meant.
    public let field: String?
    /// The problem, as the end of a sentence about the field or the file; never holds the key itself.
    public let problem: String
    /// The fix, in one or more sentences.
    public let fix: String

    init(_ field: String?, _ problem: String, fix: String) {
        self.field = field
        self.problem = problem
        self.fix = fix
    }

    /// A sentence for people.
    public var description: String { (field.map { "\($0) " } ?? "the file ") + "\(problem). \(fix)" }
}

/// Where access tokens are exchanged: the `token_uri` of a credential file.
public struct GoogleTokenURI: Sendable, Hashable, CustomStringConvertible {
    /// The address as it is written, which is the audience of assertions too.
    public let description: String
    /// Where to connect.
    public let endpoint: HTTPEndpoint
    /// The path, with its query.
    public let path: String

    /// Google's own.
    public static let google = GoogleTokenURI(
        description: "https://oauth2.googleapis.com/token",
        endpoint: HTTPEndpoint(host: "oauth2.googleapis.com"),
        path: "/token"
    )

    private init(description: String, endpoint: HTTPEndpoint, path: String) {
        self.description = description
        self.endpoint = endpoint
        self.path = path
    }

    /// Reads an address; nil unless it is `https`, or `http` of this very machine.
    public init?(_ text: String) {
        guard let scheme = text.range(of: "://") else { return nil }
        let slash = text[scheme.upperBound...].firstIndex(of: "/")
        guard let endpoint = HTTPEndpoint(url: String(text[..<(slash ?? text.endIndex)])) else { return nil }
        guard endpoint.scheme == .https || endpoint.isLoopback else { return nil }
        self.init(description: text, endpoint: endpoint, path: slash.map { String(text[$0...]) } ?? "/")
    }
}

/// A Google service account: the JSON key file that the Firebase console gives out, read and checked.
///
/// Source: Google, "Using OAuth 2.0 for server to server applications", read 2026-08.
public struct GoogleServiceAccount: Sendable {
    /// The project the account belongs to.
    public let projectID: String
    /// The id of the key.
    public let keyID: String
    /// The account's name.
    public let email: String
    /// Where access tokens are exchanged.
    public let tokenURI: GoogleTokenURI
    private let privateKey: _RSA.Signing.PrivateKey

    /// Reads a key file.
    public init(json: Secret) throws(GoogleCredentialMistake) {
        let file = try GoogleCredentialFile(json, type: "service_account")
        projectID = try file.text("project_id")
        keyID = try file.text("private_key_id")
        email = try file.text("client_email")
        tokenURI = try file.tokenURI()
        privateKey = try Self.key(try file.text("private_key"))
    }

    /// Returns a signed assertion (RFC 7523) that is exchanged for an access token.
    ///
    /// It is valid for an hour, Google's maximum. It begins a few seconds ago, since Google refuses a time in its
    /// future.
    func assertion(scope: String, now: Date) throws(PushError) -> String {
        let issued = Int64(clamping: now.timeIntervalSince1970 - 5)
        let header: JSONValue = ["alg": "RS256", "typ": "JWT", "kid": .string(keyID)]
        let claims: JSONValue = [
            "iss": .string(email), "scope": .string(scope), "aud": .string(tokenURI.description),
            "iat": .integer(issued), "exp": .integer(issued.adding(clamping: 3600)),
        ]
        do {
            return try JSONWebToken.compact(header: header.bytes, claims: claims.bytes) { text in
                Array(try privateKey.signature(for: Data(text.utf8), padding: .insecurePKCS1v1_5).rawRepresentation)
            }
        } catch {
            throw PushError(.credentialsRefused, "the service account's private key cannot sign")
        }
    }

    private static func key(_ text: String) throws(GoogleCredentialMistake) -> _RSA.Signing.PrivateKey {
        let fix = "Download the key again: Firebase console, Project settings, Service accounts."
        let pem: Secret
        do throws(CredentialMistake) {
            pem = try PEMReader.privateKey(in: Secret(text))
        } catch {
            throw GoogleCredentialMistake("private_key", error.problem, fix: error.fix ?? fix)
        }
        do {
            return try _RSA.Signing.PrivateKey(pemRepresentation: pem.reveal())
        } catch {
            throw GoogleCredentialMistake("private_key", PEMReader.mismatch(ofKey: pem), fix: fix)
        }
    }
}

/// A person's own credential, as `gcloud auth application-default login` writes it, for trials.
public struct GoogleAuthorizedUser: Sendable {
    /// The client's id.
    public let clientID: String
    /// Where access tokens are exchanged.
    public let tokenURI: GoogleTokenURI
    /// The project that is billed, when the file names one.
    public let quotaProjectID: String?
    let clientSecret: Secret
    let refreshToken: Secret

    /// Reads a credential file.
    public init(json: Secret) throws(GoogleCredentialMistake) {
        let file = try GoogleCredentialFile(json, type: "authorized_user")
        clientID = try file.text("client_id")
        clientSecret = Secret(try file.text("client_secret"))
        refreshToken = Secret(try file.text("refresh_token"))
        quotaProjectID = file.object["quota_project_id"]?.stringValue
        tokenURI = try file.tokenURI()
    }
}

/// A credential file as JSON, whose members are read with an error for each that is missing.
private struct GoogleCredentialFile {
    let object: JSONObject
    private let type: String

    init(_ json: Secret, type: String) throws(GoogleCredentialMistake) {
        self.type = type
        do throws(CredentialMistake) {
            object = try CredentialJSON.object(in: json)
        } catch {
            let fix = error.fix ?? "Use the key file as Google gave it out."
            throw GoogleCredentialMistake(nil, error.problem, fix: fix)
        }
        if object["project_info"] != nil {
            throw GoogleCredentialMistake(
                nil,
                "is an app's google-services.json",
                fix: "Use a service account's key: Firebase console, Project settings, Service accounts."
            )
        }
        guard let found = object["type"]?.stringValue else {
            throw GoogleCredentialMistake("type", "is missing", fix: "It must be \(type).")
        }
        guard found == type else {
            let other = found == "authorized_user" || found == "service_account"
            let key = found == "authorized_user" ? "authorized_user_file" : "service_account_file"
            throw GoogleCredentialMistake(
                "type",
                "is \(found), not \(type)",
                fix: other ? "Name this file under \(key)." : "Use a service account's key file."
            )
        }
    }

    func text(_ name: String) throws(GoogleCredentialMistake) -> String {
        guard let value = object[name] else {
            throw GoogleCredentialMistake(name, "is missing", fix: "Use the \(type) file as Google gave it out.")
        }
        guard let text = value.stringValue, !text.allSatisfy(\.isWhitespace) else {
            throw GoogleCredentialMistake(
                name,
                "is empty or no text",
                fix: "Use the \(type) file as Google gave it out."
            )
        }
        return text
    }

    func tokenURI() throws(GoogleCredentialMistake) -> GoogleTokenURI {
        guard object["token_uri"] != nil || type == "service_account" else { return .google }
        guard let uri = GoogleTokenURI(try text("token_uri")) else {
            throw GoogleCredentialMistake(
                "token_uri",
                "is not an https address",
                fix: "Google's is \(GoogleTokenURI.google.description)."
            )
        }
        return uri
    }
}

extension GoogleCredentialMistake: LocalizedError {
    /// The description.
    public var errorDescription: String? { description }
}
