import Crypto
import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparAPNs

@Suite("The apns section of a configuration file", .timeLimit(.minutes(1)))
struct APNsOptionsTests {
    static let good: [(String, String)] = [
        ("team_id", "TEAM1D2345"), ("key_id", "K3YID12345"), ("key_file", "AuthKey_K3YID12345.p8"), ("topic", bundleID),
    ]

    static func read(
        _ changes: [(String, String)] = [],
        without: [String] = [],
        files: [String: String] = [:]
    ) -> (options: APNsOptions?, issues: [String]) {
        var values = good.filter { pair in !without.contains(pair.0) && !changes.contains { $0.0 == pair.0 } }
        values += changes
        let all = ["AuthKey_K3YID12345.p8": sampleKey.pem].merging(files) { $1 }
        return SampleConfiguration(values: values, files: all).read()
    }

    @Test("Four lines are enough, and mean production on 443")
    func minimal() throws {
        let (options, issues) = Self.read()
        #expect(issues.isEmpty)
        let read = try #require(options)
        #expect(read.endpoint.description == "https://api.push.apple.com")
        #expect(read.managementEndpoint?.description == "https://api-manage-broadcast.push.apple.com:2196")
        #expect(read.topic == bundleID)
        #expect(read.hasProviderToken)
    }

    @Test("The key can come as a secret; sandbox means development; a simulator replaces every host")
    func variants() throws {
        let secret = Self.read([("key", sampleKey.pem)], without: ["key_file"])
        #expect(secret.issues.isEmpty)
        let (pem, base64) = (sampleKey.pem, Data(sampleKey.pem.utf8).base64EncodedString())
        for shape in [pem.replacing("\n", with: "\\n"), pem.replacing("\n", with: " "), "\"\(pem)\"", base64] {
            #expect(Self.read([("key", shape)], without: ["key_file"]).issues.isEmpty, "as a variable holds it")
            let file = ["AuthKey_K3YID12345.p8": "\u{FEFF}\(shape)\r\n"]
            #expect(Self.read(files: file).issues.isEmpty, "as a file holds it")
        }
        for word in ["sandbox", "development"] {
            let options = try #require(Self.read([("environment", word), ("port", "2197")]).options)
            #expect(options.environment == .development)
            #expect(options.endpoint.description == "https://api.sandbox.push.apple.com:2197")
        }
        let simulator = try #require(Self.read([("base_url", "https://127.0.0.1:9443")]).options)
        #expect(simulator.endpoint.description == "https://127.0.0.1:9443")
        #expect(simulator.managementEndpoint == nil, "channels must not be made at Apple by accident")
        let both = Self.read([("base_url", "https://127.0.0.1:1"), ("manage_url", "https://127.0.0.1:2")]).options
        #expect(both?.managementEndpoint?.port == 2)
    }

    struct Mistake: Sendable, CustomTestStringConvertible {
        var name: String
        var changes: [(String, String)] = []
        var without: [String] = []
        var files: [String: String] = [:]
        var key: String
        var words: [String]
        var testDescription: String { name }
    }

    /// Made for these tests; it protects nothing.
    static let rsaKey = """
        -----BEGIN RSA PRIVATE KEY-----
        MIICXgIBAAKBgQDORotOPUeUvAlkyanTgNMwbW1SaqESeWtI165iOm3XbrAl679P
        5y0HUvOohOTOOXpJkoJNlO25uegdgeHL5NtU/9a5GfLMIlkfEPblgbdYnMIi+CVD
        i4THxch5Z74le1j+SIVYJm9R8XcBXcdp/rvlOm8d0PY7RyEQEYE9MQgM7wIDAQAB
        AoGBAMoa7FrYR84+/qU1waNtUX7deIOL3g2P0cIpML8lqIGv/f7poSTUyJWofPvc
        WaKFRn/XgLwq81FKCVb/7xArR4mZGgAWx4DcBjShhq6Dr+rzqqjRH1oJ85JZbVYa
        NslaORIrCnI2is3jLYZ5otnUhYi3EAb4fLfS85Bl8rVY12zBAkEA99NoWlS7OqeH
        w1DG1XoOhQ+x0QE8Rt+4u+XUrlToc+dX8j5mawyL2RhzmnoN0tZ/i04apRKDUob3
        IK6sNC1UqQJBANUUS18G648D5Ewe50+Lc7NNmyibcbXY6vI4kZbl2fH8Pr5kzu5p
        qUlkr9RUF4V5UXoFm2awINNOgqoZsY27O9cCQQCandMlSGfnmE4jlWn4Fkaozbnq
        5BJvRXVEBYhDm8XLSjKceEH9174InDDD2BJ30EuS5g/JnVtBSeM1CMV3aDDBAkAv
        QDnaj8lKxJ0quCupOw5kM5B1t8rGfZzUK/E1GjFzdPFg/S/aNLoimV5YYnF42sdT
        nMyyP9p3oVBeciYqfNuvAkEAozCEKcRSmIG6MscWAWEKriUB1UvqWcIi3GcN/8BN
        iyBKWU7mtlq6xmlqRPyUv5aDJXd8no94q1Ae59DSedItdQ==
        -----END RSA PRIVATE KEY-----
        """
    static let ed25519 = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
        -----END PRIVATE KEY-----
        """

    private static func file(_ name: String, _ text: String, _ words: String...) -> Mistake {
        Mistake(name: name, files: ["AuthKey_K3YID12345.p8": text], key: "key_file", words: words)
    }

    static let mistakes: [Mistake] = [
        file("a P-384 key", P384.Signing.PrivateKey().pemRepresentation, "P-384", "P-256 keys only", "AuthKey_"),
        file("a P-521 key", P521.Signing.PrivateKey().pemRepresentation, "P-521"),
        file("an Ed25519 key", ed25519, "Ed25519"),
        file("an RSA key", rsaKey, "RSA"),
        file("an encrypted key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n", "encrypted", "openssl pkcs8"),
        file("a certificate", "-----BEGIN CERTIFICATE-----\nMIIB\n", "is a certificate, not a key", "certificate_file"),
        file("a public key", sampleKey.publicKeyPEM, "public key"),
        file("no PEM at all", "AuthKey", "is not a PEM key"),
        file("a damaged key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "damaged"),
        Mistake(
            name: "a file that is not there",
            changes: [("key_file", "no.p8")],
            key: "key_file",
            words: ["no such file"]
        ),
        Mistake(name: "no key", without: ["key_file"], key: "key_file", words: ["is missing", "AuthKey_"]),
        Mistake(name: "two keys", changes: [("key", sampleKey.pem)], key: "key", words: ["beside key_file"]),
        Mistake(
            name: "a short team id",
            changes: [("team_id", "TEAM")],
            key: "team_id",
            words: ["4 characters, not 10"]
        ),
        Mistake(name: "a long key id", changes: [("key_id", "K3YID123456")], key: "key_id", words: ["11 characters"]),
        Mistake(name: "a lower-case id", changes: [("key_id", "k3yid12345")], key: "key_id", words: ["capital"]),
        Mistake(
            name: "no team id",
            without: ["team_id"],
            key: "team_id",
            words: ["is missing", "developer.apple.com"]
        ),
        Mistake(name: "no topic", without: ["topic"], key: "topic", words: ["is missing", "bundle id"]),
        Mistake(name: "no bundle id", changes: [("topic", "courier")], key: "topic", words: ["not a bundle id"]),
        Mistake(
            name: "a topic with a suffix",
            changes: [("topic", "com.example.app.voip")],
            key: "topic",
            words: ["ends with .voip", "bundle id alone"]
        ),
        Mistake(
            name: "a misspelt environment",
            changes: [("environment", "prodution")],
            key: "environment",
            words: ["Did you mean \"production\"?"]
        ),
        Mistake(name: "another port", changes: [("port", "8443")], key: "port", words: ["443 and 2197", "base_url"]),
        Mistake(
            name: "cleartext",
            changes: [("base_url", "http://127.0.0.1:80")],
            key: "base_url",
            words: ["TLS only"]
        ),
        Mistake(name: "a misspelt key", changes: [("tpoic", "x")], key: "tpoic", words: ["unknown key", "\"topic\"?"]),
        Mistake(
            name: "key and certificate",
            changes: [("certificate_file", "c.pem")],
            files: ["c.pem": "-----BEGIN CERTIFICATE-----"],
            key: "certificate_file",
            words: ["together with key_file", "keep one"]
        ),
    ]

    @Test("A mistake is named with its place and its fix", arguments: mistakes)
    func mistake(mistake: Mistake) {
        let (options, issues) = Self.read(mistake.changes, without: mistake.without, files: mistake.files)
        #expect(options == nil || mistake.key == "tpoic", "unknown keys are found by the registry's finish()")
        #expect(issues.count == 1, "\(issues)")
        let issue = issues.first { $0.hasPrefix("\(mistake.key):") } ?? ""
        for word in mistake.words { #expect(issue.contains(word), "\(issues)") }
    }

    @Test("All mistakes are found at once")
    func allAtOnce() {
        let (options, issues) = Self.read(
            [("team_id", "x"), ("environment", "prod"), ("timeout", "soon"), ("tpoic", "x"), ("base_url", "host")],
            without: ["key_file", "topic"]
        )
        #expect(options == nil)
        let keys = Set(issues.map { String($0.prefix { $0 != ":" }) })
        #expect(keys == ["team_id", "key_file", "environment", "timeout", "tpoic", "base_url", "topic"])
    }

    @Test("A mistake in the key is found although an id is wrong as well")
    func keyAndID() {
        let issues = Self.read([("key_id", "x")], files: ["AuthKey_K3YID12345.p8": "nothing"]).issues
        #expect(issues.count == 2)
    }

    @Test("No issue shows key material")
    func secrecy() {
        let body = sampleKey.pem.split(separator: "\n")[1]
        let issues = Self.read([("key", "-----BEGIN PRIVATE KEY-----\n\(body)")], without: ["key_file"]).issues
        #expect(issues.count == 1)
        #expect(!issues.joined().contains(body))
    }

    // MARK: Certificates

    static func identity(
        topics: [String] = [bundleID, "\(bundleID).voip"],
        environments: Set<APNsEnvironment> = [.development, .production],
        now: Date = Date()
    ) throws -> SandboxCertificateAuthority.Identity {
        try SandboxCertificateAuthority(now: now).providerIdentity(
            APNsProviderCertificate(topics: topics, environments: environments),
            now: now
        )
    }

    static func read(
        _ identity: SandboxCertificateAuthority.Identity,
        _ changes: [(String, String)] = [],
        files: [String: String] = [:]
    ) -> (options: APNsOptions?, issues: [String]) {
        var values = [("certificate_file", "c.pem"), ("certificate_key_file", "k.pem"), ("topic", bundleID)]
        values.removeAll { pair in changes.contains { $0.0 == pair.0 } }
        let all = ["c.pem": identity.certificatePEM, "k.pem": identity.privateKeyPEM].merging(files) { $1 }
        let kept = (values + changes).filter { !$0.1.isEmpty }
        return SampleConfiguration(values: kept, files: all).read()
    }

    @Test("A certificate brings its topics, dates and environments along")
    func certificate() throws {
        let (options, issues) = Self.read(try Self.identity())
        #expect(issues.isEmpty)
        guard case .certificate(let certificate)? = options?.credential else {
            Issue.record("no certificate was read")
            return
        }
        #expect(certificate.topics == [bundleID, "\(bundleID).voip"])
        #expect(certificate.isForProduction && certificate.isForDevelopment)
        #expect(certificate.notAfter > Date())
        #expect(options?.hasProviderToken == false)
        let only = Self.read(try Self.identity(topics: [bundleID]), [("topic", "")])
        #expect(only.issues.isEmpty)
        #expect(only.options?.topic == bundleID, "the only topic of the certificate")
    }

    @Test("The error of a wrong certificate names the fault")
    func certificateMistakes() throws {
        let identity = try Self.identity()
        let other = try Self.identity()
        func issue(_ result: (options: APNsOptions?, issues: [String])) -> String {
            #expect(result.options == nil)
            #expect(result.issues.count == 1, "\(result.issues)")
            return result.issues.first ?? ""
        }
        let foreign = issue(Self.read(identity, [("topic", "com.example.currier")]))
        #expect(foreign.contains("not in the certificate") && foreign.contains("Did you mean \"\(bundleID)\"?"))
        let mismatch = issue(Self.read(identity, files: ["k.pem": other.privateKeyPEM]))
        #expect(mismatch.hasPrefix("certificate_key_file: does not belong"))
        let swapped = issue(Self.read(identity, files: ["c.pem": sampleKey.pem]))
        #expect(swapped.contains("is a key, not a certificate") && swapped.contains("key_file"))
        let encrypted = issue(Self.read(identity, files: ["k.pem": "-----BEGIN ENCRYPTED PRIVATE KEY-----"]))
        #expect(encrypted.contains("encrypted"))
        let missing = issue(Self.read(identity, [("certificate_key_file", "")]))
        #expect(missing.hasPrefix("certificate_key_file: is missing"))
        let alone = issue(Self.read(identity, [("certificate_file", "")]))
        #expect(alone.hasPrefix("certificate_file: is missing"))
        let development = try Self.identity(environments: [.development])
        #expect(issue(Self.read(development)).contains("not good for production"))
        #expect(Self.read(development, [("environment", "sandbox")]).issues.isEmpty)
        let damaged = issue(
            Self.read(identity, files: ["c.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
        )
        #expect(damaged.contains("damaged"))
    }

    @Test("Dates are no mistake of the file: they stop the sending, with a sentence that names the fix")
    func dates() async throws {
        let options = try #require(Self.read(try Self.identity()).options)
        for (years, reason, fix) in [
            (20.0, "certificate_expired", "Renew"), (-20.0, "certificate_not_yet_valid", "clock"),
        ] {
            let transport = ScriptedTransport()
            let time = ManualTime(Date(timeIntervalSinceNow: years * 365 * 86400))
            let backend = try APNsBackend.scripted(transport, options: options, time: time)
            let problem = try #require(backend.credentialProblem(at: time.now))
            #expect(problem.reason == reason && problem.advice == .parkBackend)
            #expect(problem.detail?.contains(fix) == true)
            #expect(await backend.send(PushNotification(title: "x"), to: [recipient()]) == [.refused(problem)])
            #expect(transport.calls.isEmpty, "nothing leaves")
            #expect(backend.health.status == .down)
            #expect(await backend.diagnose().contains { $0.check == "certificate" && $0.verdict == .failure })
        }
        let now = try APNsBackend.scripted(ScriptedTransport(), options: options, time: ManualTime(Date()))
        #expect(now.credentialProblem(at: Date()) == nil)
        #expect(await now.send(PushNotification(title: "x"), to: [recipient()])[0].acceptance != nil)
    }

    @Test("A certificate and its key are read as secret managers hold them; a .p12 file gets the command")
    func certificateShapes() throws {
        let identity = try Self.identity()
        let shapes: [(String) -> String] = [
            { $0.replacing("\n", with: "\r\n") }, { "'\($0)'" }, { Data($0.utf8).base64EncodedString() },
            { $0.replacing("\n", with: " ") },
        ]
        for shape in shapes {
            let files = ["c.pem": shape(identity.certificatePEM), "k.pem": shape(identity.privateKeyPEM)]
            #expect(Self.read(identity, files: files).issues.isEmpty)
        }
        let issues = Self.read(identity, files: ["c.pem": "0\u{10}\u{2}\u{1}\u{3}0\u{B}abcdefghijk"]).issues
        #expect(issues.count == 1 && issues.first?.contains("openssl pkcs12 -legacy") == true, "\(issues)")
    }

    @Test("One file may hold certificate and key")
    func combined() throws {
        let identity = try Self.identity()
        let both = identity.certificatePEM + "\n" + identity.privateKeyPEM
        #expect(Self.read(identity, [("certificate_key_file", "")], files: ["c.pem": both]).issues.isEmpty)
    }

    @Test("Types that need a provider token are refused in the check")
    func certificateTypes() throws {
        let options = try #require(Self.read(try Self.identity()).options)
        let backend = try APNsBackend.scripted(.init(), options: options)
        for type in ["location", "liveactivity"] {
            let faults = backend.check(APNsHeadersTests.typed(type), for: .token).faults
            #expect(faults.contains { $0.code == "needs_provider_token" })
        }
        #expect(!backend.audience.contains(.platformID("x")))
        #expect(backend.channels == nil)
        #expect(backend.health.credentialExpiries["client_certificate"] != nil)
    }

    @Test("Health warns 30 days before a certificate ends")
    func expiry() async throws {
        let options = try #require(Self.read(try Self.identity()).options)
        guard case .certificate(let certificate) = options.credential else { return }
        for (days, status) in [(31.0, BackendHealth.Status.ok), (20, .degraded), (-1, .down)] {
            let time = ManualTimeAt(now: certificate.notAfter.addingTimeInterval(-days * 86400 - 60))
            let backend = try APNsBackend.scripted(.init(), options: options, time: time)
            #expect(backend.health.status == status)
            let finding = await backend.diagnose().first { $0.check == "certificate" }
            #expect((finding?.verdict == .ok) == (status == .ok))
        }
    }

    /// A clock that stands still.
    struct ManualTimeAt: TimeSource {
        var now: Date
        func sleep(for duration: Duration) async throws {}
    }
}
