import ChaparCore
import Foundation
import Testing

/// Keys were made for these tests with OpenSSL 3.0 and protect nothing.
private enum Sample {
    static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgsGVR+RrLIBHe8n69
        6PpgLu7R6BHYj/zR7sb/DEelS5ChRANCAAQRSRRQj0IDvXhPwnjVerC8YBt+UFcc
        QRo2dUQDqw8W0lPj1SsQUVBm7P/hrHSXdpm96yxQiCrCww01D0DD3yWJ
        -----END PRIVATE KEY-----

        """
    static let ecKey = """
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEILBlUfkayyAR3vJ+vej6YC7u0egR2I/80e7G/wxHpUuQoAoGCCqGSM49
        AwEHoUQDQgAEEUkUUI9CA714T8J41XqwvGAbflBXHEEaNnVEA6sPFtJT49UrEFFQ
        Zuz/4ax0l3aZvessUIgqwsMNNQ9Aw98liQ==
        -----END EC PRIVATE KEY-----

        """
    static let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEUkUUI9CA714T8J41XqwvGAbflBX
        HEEaNnVEA6sPFtJT49UrEFFQZuz/4ax0l3aZvessUIgqwsMNNQ9Aw98liQ==
        -----END PUBLIC KEY-----
        """
    static let encrypted = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiIt1sgu2OFUAICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEIxx99O/US61/aG5uf8ZHDIEgZBV
        +OQwEP5IBvZ4L25Mb2pl0TdRnymV3aE0zI169y6l94fqNms5m2EDGJ8boUGRbh90
        pncni87qe9eB9ASnpQlVV6VNHatY2trAHkaf1ps32ZJ4k+QGsQ8nry5oVf+OuEm3
        0vjFiB9/aWZktLPnqK0K4b06aIJfhUmXh+eYpERtIwL5VIVOBzaSIyy4Q02pvTc=
        -----END ENCRYPTED PRIVATE KEY-----
        """
    static let encryptedAsBefore = """
        -----BEGIN EC PRIVATE KEY-----
        Proc-Type: 4,ENCRYPTED
        DEK-Info: AES-128-CBC,5F3CB0E9F8C9EDC880D73F3CE436E319

        ZUINRzaHbD/+HFc3Mfv7nHFadGVvdr7MFABA733Z1jN695ypM9wr6b+pzW/F6o0T
        aCgdn78VurXSAnuwEQK8S61xhF7usBvvNPH1gUyUiOOikAKT/B0ITNgtQrYGMtiM
        2GS1w5nkEw0U0Fyy00NaFLpF11VkhbXdBzLrwQXAlfs=
        -----END EC PRIVATE KEY-----
        """
    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBbTCCAROgAwIBAgIUcKYfpNAvwX2Pm3dioHyu3i6r2b0wCgYIKoZIzj0EAwIw
        DDEKMAgGA1UEAwwBeDAeFw0yNjExMjgyMzEyNDVaFw0zNjExMjUyMzEyNDVaMAwx
        CjAIBgNVBAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQRSRRQj0IDvXhP
        wnjVerC8YBt+UFccQRo2dUQDqw8W0lPj1SsQUVBm7P/hrHSXdpm96yxQiCrCww01
        D0DD3yWJo1MwUTAdBgNVHQ4EFgQULK3OjSbTwRH2Re20D4isJRTq6sAwHwYDVR0j
        BBgwFoAULK3OjSbTwRH2Re20D4isJRTq6sAwDwYDVR0TAQH/BAUwAwEB/zAKBggq
        hkjOPQQDAgNIADBFAiEAg7FZsL0wurvFKOFnQjFC4hqNT6srGwSrbCk60/V3td4C
        IBfqFbYWYx1cZZlPXPtc/Tp8BAk6jkguklLVQqqO+zId
        -----END CERTIFICATE-----

        """
    /// The certificate with OpenSSL's own addition after it.
    static let trusted =
        certificate.replacing("BEGIN CERTIFICATE", with: "BEGIN TRUSTED CERTIFICATE")
        .replacing("END CERTIFICATE", with: "END TRUSTED CERTIFICATE")
        .replacing("QqqO+zId\n", with: "QqqO+zIdMAwwCgYIKwYBBQUHAwE=\n")
    static let request = """
        -----BEGIN CERTIFICATE REQUEST-----
        MIHGMG4CAQAwDDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
        -----END CERTIFICATE REQUEST-----
        """

    static let body = lines(key).joined()
    static let der = Data(base64Encoded: body) ?? Data()

    static func lines(_ pem: String) -> [String] {
        pem.split(separator: "\n").map(String.init).filter { !$0.hasPrefix("-") }
    }

    /// The key with other text in place of its line breaks.
    static func broken(by text: String) -> String { String(key.dropLast()).replacing("\n", with: text) }

    static func swap(_ text: String, _ old: String, _ new: String) -> String { text.replacing(old, with: new) }

    static func base64(_ text: String) -> String { Data(text.utf8).base64EncodedString() }

    /// The text in UTF-16 with its mark; its characters are ASCII.
    static func utf16(_ text: String, isLittle: Bool = true) -> [UInt8] {
        var bytes: [UInt8] = isLittle ? [0xFF, 0xFE] : [0xFE, 0xFF]
        for byte in text.utf8 { bytes += isLittle ? [byte, 0] : [0, byte] }
        return bytes
    }

    /// The key's base64 in lines of 40 characters.
    static var shortLines: String {
        var text = ""
        for (place, letter) in body.enumerated() { text += place % 40 == 39 ? "\(letter)\n" : "\(letter)" }
        return text
    }

    /// The key after a text in Latin-1.
    static var afterLatin: [UInt8] { [0x4D, 0xFC, 0x0A] + Array(key.utf8) }
    /// The key's DER with two more bytes.
    static var longerDER: Data { der + [0, 0] }
    /// The certificate's DER.
    static var certificateDER: [UInt8] { Data(base64Encoded: lines(certificate).joined()).map(Array.init) ?? [] }

    /// The key's base64 between BEGIN and END.
    static func block(_ body: String) -> String {
        "-----BEGIN PRIVATE KEY-----\n\(body)\n-----END PRIVATE KEY-----\n"
    }
}

@Suite("Keys, certificates and key files in every shape", .timeLimit(.minutes(1)))
struct CredentialTests {
    struct Shape: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let file: [UInt8]

        init(_ name: String, _ text: String) { self.init(name, file: Array(text.utf8)) }
        init(_ name: String, file: [UInt8]) { (testDescription, self.file) = (name, file) }
    }

    struct Lost: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let file: [UInt8]
        let words: [String]

        init(_ name: String, _ text: String, _ words: String...) {
            (testDescription, file, self.words) = (name, Array(text.utf8), words)
        }

        init(_ name: String, file: [UInt8], _ words: String...) {
            (testDescription, self.file, self.words) = (name, file, words)
        }
    }

    // MARK: Private keys

    static let keys: [Shape] = [
        Shape("as it is", Sample.key), Shape("a byte order mark", "\u{FEFF}\(Sample.key)"),
        Shape("CRLF", Sample.swap(Sample.key, "\n", "\r\n")), Shape("CR", Sample.swap(Sample.key, "\n", "\r")),
        Shape("one long line", Sample.block(Sample.body)),
        Shape("lines of 40", Sample.block(Sample.shortLines)),
        Shape("indented", "  \(Sample.broken(by: "\n  "))"), Shape("blanks at the ends", Sample.broken(by: " \n")),
        Shape("no-break blanks", Sample.broken(by: "\u{A0}\n")), Shape("empty lines", Sample.broken(by: "\n\n")),
        Shape("marks without width in it", Sample.broken(by: "\u{200B}\n\u{FEFF}")),
        Shape("text around", "Bag Attributes\n    friendlyName: Müller\n\(Sample.key)and after\n"),
        Shape("text that is not UTF-8 around", file: Sample.afterLatin),
        Shape("a certificate before", "\(Sample.certificate)\(Sample.key)"),
        Shape("a certificate after", "\(Sample.key)\(Sample.certificate)"),
        Shape("parameters before", "\(Sample.parameters)\(Sample.key)"),
        Shape("a cut-off block before", "-----BEGIN EC PARAMETERS-----\nBggq\n\(Sample.key)"),
        Shape(#"\n as characters"#, Sample.broken(by: #"\n"#)),
        Shape(#"\r\n as characters"#, Sample.broken(by: #"\r\n"#)),
        Shape(#"\\n as characters"#, Sample.broken(by: #"\\n"#)),
        Shape("backslashes at the ends", Sample.broken(by: "\\\n")),
        Shape("blanks for line breaks", Sample.broken(by: " ")), Shape("tabs for line breaks", Sample.broken(by: "\t")),
        Shape("nothing for line breaks", Sample.broken(by: "")),
        Shape("double quotes", "\"\(Sample.key)\""), Shape("single quotes", "'\(Sample.key)'\n"),
        Shape("a JSON text", "\"\(Sample.broken(by: #"\n"#))\""),
        Shape(#"\/ for /"#, Sample.swap(Sample.key, "/", #"\/"#)),
        Shape(#"\u002B for +"#, Sample.swap(Sample.broken(by: #"\n"#), "+", #"\u002B"#)),
        Shape("base64", Sample.base64(Sample.key)), Shape("base64 in quotes", "\"\(Sample.base64(Sample.key))\""),
        Shape("base64 without padding", String(Sample.base64(Sample.key).prefix { $0 != "=" })),
        Shape("base64url", Sample.swap(Sample.swap(Sample.base64(Sample.key), "+", "-"), "/", "_")),
        Shape("base64 twice", Sample.base64(Sample.base64(Sample.key))),
        Shape("base64 of one in quotes", Sample.base64("'\(Sample.key)'")),
        Shape("the body alone", Sample.lines(Sample.key).joined(separator: "\n")),
        Shape("DER", file: Array(Sample.der)), Shape("base64 of DER", Sample.der.base64EncodedString()),
        Shape("bytes after the value", Sample.block(Sample.longerDER.base64EncodedString())),
        Shape("another kind in its label", Sample.swap(Sample.key, " PRIVATE", " RSA PRIVATE")),
        Shape("a label without its blanks", Sample.swap(Sample.key, "BEGIN PRIVATE KEY", "BEGINPRIVATEKEY")),
        Shape("UTF-16", file: Sample.utf16(Sample.key)),
        Shape("UTF-16, the other way round", file: Sample.utf16(Sample.key, isLittle: false)),
    ]

    @Test("A key is read in each shape", arguments: keys)
    func key(shape: Shape) throws {
        let text = try CredentialText.text(of: shape.file)
        #expect(try PEMReader.privateKey(in: text).reveal() == Sample.key)
        #expect(PEMReader.holdsKey(text))
        #expect(PEMReader.algorithm(ofKey: text) == "a P-256 key")
    }

    @Test("A key of another kind keeps its kind")
    func kinds() throws {
        let text = Secret(Sample.parameters + Sample.ecKey)
        #expect(try PEMReader.privateKey(in: text).reveal() == Sample.ecKey)
        let short = Sample.swap(Sample.ecKey, "iQ==", "iQ")
        #expect(try PEMReader.privateKey(in: Secret(short)).reveal() == Sample.ecKey, "padding may be missing")
    }

    static let lostKeys: [Lost] = [
        Lost("encrypted", Sample.encrypted, "is an encrypted key", "openssl pkcs8"),
        Lost("encrypted in the old form", Sample.encryptedAsBefore, "is an encrypted key", "openssl pkcs8"),
        Lost("a public key", Sample.publicKey, "is a public key; the private key is needed"),
        Lost("a certificate", Sample.certificate, "is a certificate, not a key", "certificate_file"),
        Lost("a request", Sample.request, "is a request for a certificate"),
        Lost("OpenSSH", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----", "ssh-keygen"),
        Lost("OpenSSH's public key", "ssh-ed25519 AAAA x@y", "public key of OpenSSH"),
        Lost("a .p12 file", file: [0x30, 0x82, 0x03, 0xFC, 2, 1, 3, 0x30], ".p12", "openssl pkcs12 -legacy"),
        Lost("a Java key store", file: [0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2], "Java key store", "keytool"),
        Lost("DER of a public key", file: [0x30, 0x81, 0x80, 0x30, 0x13, 6, 7, 0x2A, 0x86], "DER", "openssl pkey"),
        Lost("no last line", "-----BEGIN PRIVATE KEY-----\n\(Sample.body)\n", "cut off", "-----END PRIVATE KEY-----"),
        Lost("half of it", Sample.block(String(Sample.body.prefix(100))), "cut off", "75 of 138 bytes"),
        Lost("a letter less", Sample.block(String(Sample.body.prefix(181))), "cut off", "base64 is missing"),
        Lost("+ turned to blanks", Sample.swap(Sample.key, "+", " "), "cut off"),
        Lost("half of the DER", file: Array(Sample.der.prefix(100)), "cut off", "100 of 138 bytes"),
        Lost("no body", Sample.block(""), "damaged", "no content"),
        Lost("an ellipsis", Sample.block("\(Sample.body.prefix(60))…"), "not base64"),
        Lost("not DER", Sample.block("AAAA"), "is a damaged key: it cannot be decoded"),
        Lost("\\n without its backslash", Sample.broken(by: "n"), "lost the backslash"),
        Lost("dashes of a word processor", Sample.swap(Sample.key, "-----", "—–-"), "five hyphens"),
        Lost("a first line without end", Sample.swap(Sample.key, "KEY-----\nM", "KEY\nM"), "first line is damaged"),
        Lost("a path", "/run/secrets/AuthKey.p8\n", "is the name of a file", "_file"),
        Lost("a variable", "$APNS_KEY", "is the name of a variable", "${NAME}"),
        Lost("nothing", " \n", "is empty"), Lost("something else", "hunter2", "is not a PEM key: it has no"),
        Lost("JSON", #"{"private_key": "x"}"#, "is JSON, not a PEM key", "service_account_file"),
    ]

    @Test("The error names a missing or wrong kind of key without quoting it", arguments: lostKeys)
    func lostKey(lost: Lost) {
        let error = #expect(throws: CredentialMistake.self) {
            try PEMReader.privateKey(in: try CredentialText.text(of: lost.file))
        }
        let text = error?.description ?? ""
        for word in lost.words { #expect(text.contains(word), "\(text)") }
        #expect(!text.contains("MIGH") && !text.contains("hunter2"), "\(text)")
    }

    // MARK: Certificates

    static let certificates: [Shape] = [
        Shape("as it is", Sample.certificate),
        Shape("a byte order mark, CRLF", "\u{FEFF}\(Sample.swap(Sample.certificate, "\n", "\r\n"))"),
        Shape("a key before", "\(Sample.key)\(Sample.certificate)"), Shape("OpenSSL's trusted form", Sample.trusted),
        Shape("the old label", Sample.swap(Sample.certificate, " CERTIFICATE", " X509 CERTIFICATE")),
        Shape("blanks for line breaks", Sample.swap(Sample.certificate, "\n", " ")),
        Shape("base64", Sample.base64(Sample.certificate)),
        Shape("DER", file: Sample.certificateDER),
    ]

    @Test("A certificate is read in each shape", arguments: certificates)
    func certificate(shape: Shape) throws {
        #expect(try PEMReader.certificates(in: try CredentialText.text(of: shape.file)) == Sample.certificate)
    }

    static let lostCertificates: [Lost] = [
        Lost("a key", Sample.key, "is a key, not a certificate", "key_file"),
        Lost("a request", Sample.request, "request for a certificate"),
        Lost("PKCS #7", "-----BEGIN PKCS7-----\nMIIB\n-----END PKCS7-----", "openssl pkcs7 -print_certs"),
        Lost("half of one, after a whole one", "\(Sample.certificate)\(Sample.certificate.prefix(200))", "cut off"),
        Lost("nothing", "", "is empty"), Lost("something else", "hunter2", "is not a PEM certificate"),
    ]

    @Test("The error names the kind of a file that is no certificate", arguments: lostCertificates)
    func lostCertificate(lost: Lost) {
        let error = #expect(throws: CredentialMistake.self) {
            try PEMReader.certificates(in: try CredentialText.text(of: lost.file))
        }
        for word in lost.words { #expect(error?.description.contains(word) == true, "\(error?.description ?? "")") }
    }

    // MARK: JSON

    /// A key file as Google gives it out, but for the order of its members.
    static let account = """
        {
          "type": "service_account",
          "private_key": "\(Sample.swap(Sample.key, "\n", "\\n"))",
          "project_id": "courier-demo"
        }

        """

    static let objects: [Shape] = [
        Shape("as it is", account),
        Shape("a byte order mark, CRLF", "\u{FEFF}\(Sample.swap(account, "\n", "\r\n"))"),
        Shape("one line", Sample.swap(account, "\n", " ")), Shape("single quotes", "'\(account)'"),
        Shape("line breaks in the key", Sample.swap(account, #"\n"#, "\n")),
        Shape("line breaks and CRLF in the key", Sample.swap(account, #"\n"#, "\r\n")),
        Shape("two backslashes in the key", Sample.swap(account, #"\n"#, #"\\n"#)),
        Shape("a JSON text", JSONValue.string(account).text), Shape("base64", Sample.base64(account)),
        Shape("base64 of a JSON text", Sample.base64(JSONValue.string(account).text)),
        Shape("backslashes without quotes around", String(JSONValue.string(account).text.dropFirst().dropLast())),
        Shape(#"\n between the members"#, Sample.swap(account, "\n", #"\n"#)),
        Shape("UTF-16", file: Sample.utf16(account)),
    ]

    @Test("A key file in JSON is read in each shape, and the key in it", arguments: objects)
    func object(shape: Shape) throws {
        let object = try CredentialJSON.object(in: try CredentialText.text(of: shape.file))
        #expect(object["type"] == "service_account" && object["project_id"] == "courier-demo")
        let key = try #require(object["private_key"]?.stringValue)
        #expect(try PEMReader.privateKey(in: Secret(key)).reveal() == Sample.key)
    }

    static let lostObjects: [Lost] = [
        Lost("Python's form", Sample.swap(account, "\"", "'"), "Python and Ansible", "to_json"),
        Lost("Go's form", "map[private_key:MIGH type:service_account]", "Helm", "toJson"),
        Lost("without quotation marks", Sample.swap(account, "\"", ""), "lost its quotation marks"),
        Lost("cut off", String(account.prefix(150)), "is cut off"), Lost("PEM", Sample.key, "is PEM, not JSON"),
        Lost("a path", "./firebase.json", "is the name of a file"), Lost("a variable", "${KEY}", "name of a variable"),
        Lost("a list", "[]", "is not a JSON object"), Lost("something else", "hunter2", "is not JSON"),
        Lost("a comma too many", Sample.swap(account, "demo\"", "demo\","), "is not JSON from byte"),
    ]

    @Test("The error names the fault of a wrong key file without quoting it", arguments: lostObjects)
    func lostObject(lost: Lost) {
        let error = #expect(throws: CredentialMistake.self) {
            try CredentialJSON.object(in: try CredentialText.text(of: lost.file))
        }
        let text = error?.description ?? ""
        for word in lost.words { #expect(text.contains(word), "\(text)") }
        #expect(!text.contains("MIGH") && !text.contains("hunter2"), "\(text)")
    }
}
