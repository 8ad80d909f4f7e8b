import CryptoExtras
import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparFCM

@Suite("Google's credential files", .timeLimit(.minutes(1)))
struct GoogleCredentialTests {
    static let file = try? FCMServiceAccountKey(projectID: "courier-demo").json(
        tokenURI: "https://oauth2.googleapis.com/token"
    )

    static func changed(_ name: String, to value: JSONValue?) throws -> Secret {
        let text = try #require(file)
        var object = try #require(try JSONValue(parsing: Array(text.utf8)).objectValue)
        object[name] = value
        return Secret(JSONValue.object(object).text)
    }

    @Test("An assertion holds what Google asks for, signed with the account's key")
    func assertion() throws {
        let key = try FCMServiceAccountKey(projectID: "courier-demo")
        let account = try GoogleServiceAccount(json: Secret(key.json(tokenURI: "https://oauth2.googleapis.com/token")))
        let now = Date(timeIntervalSince1970: 1_767_225_605)
        let jwt = try account.assertion(scope: FCMAuth.messagingScope, now: now)
        let parts = jwt.split(separator: ".", omittingEmptySubsequences: false)
        #expect(parts.count == 3)
        let isURLSafe = jwt.utf8.allSatisfy { !"+/=".utf8.contains($0) }
        #expect(isURLSafe)
        let texts = try parts.map { part in
            var base64 = part.replacing("-", with: "+").replacing("_", with: "/")
            while base64.count % 4 != 0 { base64 += "=" }
            return try #require(Data(base64Encoded: String(base64)))
        }
        #expect(String(decoding: texts[0], as: UTF8.self) == #"{"alg":"RS256","typ":"JWT","kid":"\#(key.keyID)"}"#)
        #expect(
            String(decoding: texts[1], as: UTF8.self)
                == #"{"iss":"sender@courier-demo.iam.gserviceaccount.com","scope":"https://www.googleapis.com/auth/firebase.messaging","aud":"https://oauth2.googleapis.com/token","iat":1767225600,"exp":1767229200}"#
        )
        let privateKey = try _RSA.Signing.PrivateKey(pemRepresentation: key.privateKeyPEM)
        let isValid = privateKey.publicKey.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: texts[2]),
            for: Data((parts[0] + "." + parts[1]).utf8),
            padding: .insecurePKCS1v1_5
        )
        #expect(isValid)
    }

    static let mistakes: [(String, JSONValue?, String)] = [
        ("type", nil, "type is missing"), ("type", "external_account", "type is external_account"),
        ("type", "authorized_user", "authorized_user_file"), ("project_id", nil, "project_id is missing"),
        ("private_key_id", "", "private_key_id is empty"), ("client_email", 7, "client_email is empty or no text"),
        ("token_uri", nil, "token_uri is missing"), ("token_uri", "ftp://x", "token_uri is not an https address"),
        ("token_uri", "http://example.com/token", "token_uri is not an https address"),
        ("private_key", "hunter2", "private_key is not a PEM key"),
        (
            "private_key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "private_key is a damaged key"
        ),
        ("private_key", #"-----BEGIN PRIVATE KEY-----\nAAAA"#, "private_key is a damaged key, cut off"),
        ("project_info", [:], "google-services.json"),
    ]

    @Test("Each mistake names the member and the way out, and shows no key", arguments: mistakes)
    func mistake(name: String, value: JSONValue?, text: String) throws {
        let file = try Self.changed(name, to: value)
        let error = #expect(throws: GoogleCredentialMistake.self) { try GoogleServiceAccount(json: file) }
        #expect(error?.description.contains(text) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("AAAA") == false)
    }

    @Test("A file that is no JSON says so")
    func noJSON() {
        for (text, problem) in [("{", "is cut off"), ("[]", "is not a JSON object"), ("hunter2", "is not JSON")] {
            let error = #expect(throws: GoogleCredentialMistake.self) { try GoogleServiceAccount(json: Secret(text)) }
            #expect(error?.problem.hasPrefix(problem) == true)
        }
    }

    @Test("A file is read as environment variables and secret managers hold it, and a key of another kind is named")
    func shapes() throws {
        let file = try #require(Self.file)
        let wanted = try GoogleServiceAccount(json: Secret(file)).email
        let shapes = [
            "'\(file)'", Data(file.utf8).base64EncodedString(), JSONValue.string(file).text,
            file.replacing(#"\n"#, with: #"\\n"#), file.replacing(#"\n"#, with: "\n"),
        ]
        for shape in shapes {
            let account = try GoogleServiceAccount(json: Secret(shape))
            #expect(account.email == wanted)
            _ = try account.assertion(scope: FCMAuth.messagingScope, now: Date())
        }
        let other = try Self.changed(
            "private_key",
            to: """
                -----BEGIN PRIVATE KEY-----
                MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgsGVR+RrLIBHe8n69
                6PpgLu7R6BHYj/zR7sb/DEelS5ChRANCAAQRSRRQj0IDvXhPwnjVerC8YBt+UFcc
                QRo2dUQDqw8W0lPj1SsQUVBm7P/hrHSXdpm96yxQiCrCww01D0DD3yWJ
                -----END PRIVATE KEY-----
                """
        )
        let error = #expect(throws: GoogleCredentialMistake.self) { try GoogleServiceAccount(json: other) }
        #expect(error?.problem == "is not an RSA key of at least 2048 bits: it is a P-256 key")
    }

    @Test("The token endpoint may be on this machine in clear, and nowhere else")
    func tokenURI() {
        #expect(GoogleTokenURI("http://127.0.0.1:8080/token")?.path == "/token")
        #expect(GoogleTokenURI("https://proxy.example.com/a/b?c=d")?.path == "/a/b?c=d")
        #expect(GoogleTokenURI("https://proxy.example.com")?.path == "/")
        #expect(GoogleTokenURI("http://proxy.example.com/token") == nil)
        #expect(GoogleTokenURI("token") == nil)
    }
}
