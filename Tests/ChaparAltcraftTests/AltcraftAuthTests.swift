import Crypto
import CryptoExtras
import Foundation
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAltcraft

/// Role tokens and JWTs, without a platform.
@Suite("Altcraft: credentials", .timeLimit(.minutes(1)))
struct AltcraftAuthTests {
    static let vector =
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJtYXRjaGluZyI6IntcImRiX2lkXCI6MTIsXCJtYXRjaGluZ1wiOlwiZW1haWxcIixcImVtYWlsXCI"
        + "6XCJhZGFAZXhhbXBsZS5jb21cIn0iLCJpYXQiOjE3NjAwMDAwMDAsImV4cCI6MTc2MDAwMzYwMH0.c2ln"
    static let ada = AltcraftIdentity(user: "ada", device: "d-1")

    static func jwt(_ claims: JSONValue) -> String {
        "e30." + Base64URL.encode(claims.bytes) + ".c2ln"
    }

    @Test("The specification's JWT is read, and its tag is the one given there")
    func vectors() throws {
        let matching = try AltcraftMatching(jwt: Secret(Self.vector))
        #expect(matching.databaseID == "12" && matching.mode == "email" && matching.identifier == "ada@example.com")
        #expect(matching.expiry == Date(timeIntervalSince1970: 1_760_003_600))
        #expect(matching.tag == "fd443f88017572b866f24147d78f7495527dbfc50a9c9bfc22916c9b412d85de")
        let object = Self.jwt([
            "matching": ["db_id": "12", "matching": "custom", "field_name": "crm_id", "field_value": 40017]
        ])
        let custom = try AltcraftMatching(jwt: Secret(object))
        #expect(custom.identifier == "crm_id/40017")
        #expect(custom.tag == "86bf52487cf658f8647f1cbaa94d164611e23be9e61e122eb33f592903e242db")
    }

    static let bad: [(String, Int, String)] = [
        ("abc", 541, "payload"), ("a.b.c", 541, "payload"), (jwt(["a": 1]), 541, "no claim matching"),
        (jwt(["matching": "no"]), 541, "no JSON object"), (jwt(["matching": 7]), 541, "no claim matching"),
        (jwt(["matching": .object([:])]), 542, "db_id, matching, matching_identifier"),
        (jwt(["matching": ["db_id": 1, "matching": " ", "email": "a"]]), 542, "contain: matching"),
        (jwt(["matching": ["db_id": 1, "matching": "email"]]), 542, "contain: matching_identifier"),
        (jwt(["matching": ["db_id": "x", "matching": "email", "email": "a"]]), 542, "contain: db_id"),
        (jwt(["x": .string(String(repeating: "y", count: 17_000))]), 541, "payload"),
    ]

    @Test("A JWT that cannot be used has its code and says what is missing, never the JWT", arguments: bad)
    func refusesJWT(text: String, code: Int, words: String) async throws {
        let auth = AltcraftAuth(source: AltcraftClosureTokens { _ in text })
        let error = await failure { () async throws(PushError) in _ = try await auth.session(for: Self.ada) }
        #expect(error?.reason == "\(code)" && error?.code == .unavailable)
        #expect(error?.message.contains(words) == true && error?.message.contains(text) == false)
    }

    @Test("A JWT with another sub is the user's all the same, unless it is said otherwise (542)")
    func subject() async throws {
        let jwt = Self.jwt(["sub": "bob", "matching": ["db_id": 1, "matching": "email", "email": "ada@example.com"]])
        let source = AltcraftClosureTokens { _ in jwt }
        #expect(try await AltcraftAuth(source: source).session(for: Self.ada).matchingMode == "email")
        let strict = AltcraftAuth(source: source, checksSubject: true)
        let error = await failure { () async throws(PushError) in _ = try await strict.session(for: Self.ada) }
        #expect(error?.reason == "542" && error?.message.contains("another user's") == true)
        let bob = AltcraftIdentity(user: "bob", device: "d-1")
        #expect(try await strict.session(for: bob).matchingMode == "email")
    }

    @Test(
        "A JWT may end at any time that a number can name",
        arguments: [1e21, -1e21, 1e308, -1e308, 9.3e18, 0, 1_760_003_600] as [Double]
    )
    func expiries(exp: Double) async throws {
        let matching: JSONValue = ["db_id": 1, "matching": "email", "email": "a"]
        let auth = AltcraftAuth(
            source: AltcraftClosureTokens(cacheSpan: .seconds(300)) { _ in
                Self.jwt(["exp": .double(exp), "matching": matching])
            },
            time: InstantTime(Date(timeIntervalSince1970: 1_760_000_000))
        )
        #expect(try await auth.session(for: Self.ada).matchingMode == "email")
    }

    @Test("A role token goes before JWTs, and never stands in the mode or the tag")
    func roleToken() async throws {
        let asked = Recorder<AltcraftIdentity>()
        let source = AltcraftClosureTokens { identity in
            asked.add(identity)
            return Self.vector
        }
        let session = try await AltcraftAuth(rToken: Secret("role-1"), source: source).session(for: Self.ada)
        #expect(session.authorization.reveal() == "Bearer rtoken@role-1" && session.matchingMode == "push_sub")
        #expect(session.tag.count == 64 && asked.all.isEmpty)
        let jwt = try await AltcraftAuth(rToken: Secret(" "), source: source).session(for: Self.ada)
        #expect(jwt.authorization.reveal() == "Bearer " + Self.vector && jwt.matchingMode == "email")
        #expect(asked.all == [Self.ada])
    }

    static let nothing: [(AltcraftClosureTokens?, String)] = [
        (nil, "543"), (AltcraftClosureTokens { _ in nil }, "540"), (AltcraftClosureTokens { _ in " \n" }, "540"),
        (AltcraftClosureTokens { _ in throw CancellationError() }, "540"),
        (
            AltcraftClosureTokens(deadline: .milliseconds(5)) { _ in
                try await ManualTime().sleep(for: .seconds(60)); return "x"
            }, "540"
        ),
    ]

    @Test("Without a credential there is none, and the code says why", arguments: nothing.indices)
    func none(index: Int) async {
        let (source, code) = Self.nothing[index]
        let auth = AltcraftAuth(source: source)
        let error = await failure { () async throws(PushError) in _ = try await auth.session(for: Self.ada) }
        #expect(error?.reason == code)
    }

    @Test("A JWT is fetched once for each identity, however many ask, and again after a refusal")
    func caching() async throws {
        let count = Mutex(0)
        let source = AltcraftClosureTokens(cacheSpan: .seconds(300)) { identity in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return Self.jwt([
                "matching": ["db_id": 1, "matching": "profile_id", "profile_id": .string(identity.user ?? "-")],
                "n": .integer(Int64(number)),
            ])
        }
        let auth = AltcraftAuth(source: source)
        let sessions = try await withThrowingTaskGroup(of: AltcraftSession.self) { tasks in
            for _ in 0..<50 { tasks.addTask { try await auth.session(for: Self.ada) } }
            var all: Set<AltcraftSession> = []
            for try await session in tasks { all.insert(session) }
            return all
        }
        #expect(sessions.count == 1 && count.withLock { $0 } == 1)
        let bob = try await auth.session(for: AltcraftIdentity(user: "bob", device: "d-1"))
        #expect(!sessions.contains(bob) && sessions.allSatisfy { $0.tag != bob.tag })
        let strategy = auth.strategy(for: Self.ada, at: HTTPEndpoint(host: "x.test"))
        let credential = try await strategy.credential(for: HTTPEndpoint(host: "x.test"))
        #expect(await strategy.refused(credential, status: 401, reason: nil) == .retry)
        #expect(count.withLock { $0 } == 3)
        auth.forget(device: "d-1")
        _ = try await auth.session(for: Self.ada)
        #expect(count.withLock { $0 } == 4)
    }

    @Test("The same JWT again, and a role token, are not worth another try")
    func givesUp() async throws {
        for auth in [
            AltcraftAuth(source: AltcraftClosureTokens { _ in Self.vector }), AltcraftAuth(rToken: Secret("r")),
        ] {
            let strategy = auth.strategy(for: Self.ada, at: HTTPEndpoint(host: "x.test"))
            let credential = try await strategy.credential(for: HTTPEndpoint(host: "x.test"))
            guard case .giveUp = await strategy.refused(credential, status: 401, reason: nil) else {
                Issue.record("it must give up")
                continue
            }
        }
    }

    @Test("The signer names the user's profile, or the device's, in a JWT whose signature holds")
    func signs() async throws {
        let key = P256.Signing.PrivateKey()
        let signer = try AltcraftSigner(
            .es256,
            keyPEM: Secret(key.pemRepresentation),
            keyID: "k1",
            users: .init(databaseID: 12, matching: "custom", fieldName: "crm_id"),
            anonymous: .init(databaseID: 11, matching: "profile_id")
        )
        let jwt = try #require(try await signer.jwt(for: Self.ada))
        let parts = jwt.reveal().split(separator: ".").map(String.init)
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: try #require(Base64URL.decode(parts[2])))
        #expect(key.publicKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
        let matching = try AltcraftMatching(jwt: jwt)
        #expect(matching.databaseID == "12" && matching.identifier == "crm_id/ada" && matching.subject == "ada")
        let anonymous = try #require(try await signer.jwt(for: AltcraftIdentity(user: "", device: "d-1")))
        #expect(try AltcraftMatching(jwt: anonymous).identifier == "d-1")

        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let other = try AltcraftSigner(
            .rs256,
            keyPEM: Secret(Data(rsa.pemRepresentation.utf8).base64EncodedString()),  // As a secret manager holds it.
            users: .init(databaseID: 12, matching: "email")
        )
        let second = try #require(try await other.jwt(for: Self.ada)).reveal().split(separator: ".").map(String.init)
        let made = _RSA.Signing.RSASignature(rawRepresentation: try #require(Base64URL.decode(second[2])))
        let text = Data("\(second[0]).\(second[1])".utf8)
        #expect(rsa.publicKey.isValidSignature(made, for: text, padding: .insecurePKCS1v1_5))
        #expect(try await other.jwt(for: AltcraftIdentity(user: nil, device: "d-1")) == nil)
        for (algorithm, pem) in [(AltcraftSigner.Algorithm.rs256, key.pemRepresentation), (.es256, "no key")] {
            #expect(throws: AltcraftSigner.Mistake.self) {
                try AltcraftSigner(algorithm, keyPEM: Secret(pem), users: .init(databaseID: 1, matching: "email"))
            }
        }
    }

    @Test("A program gets of the gateway's environment what it needs and what it is given")
    func environment() async throws {
        setenv("CHAPAR_TEST_CREDENTIAL", "planted", 1)
        defer { unsetenv("CHAPAR_TEST_CREDENTIAL") }
        func environment(_ variables: [String]) async throws -> String {
            // The whole environment as one line, since of several only the text is a JWT.
            let source = AltcraftCommandTokens(program: "/usr/bin/env", arguments: ["-0"], variables: variables)
            return try await source.jwt(for: Self.ada)?.reveal() ?? ""
        }
        let usual = try await environment([])
        #expect(usual.contains("PATH=") && !usual.contains("planted"))
        let names = usual.split(separator: "\0").compactMap { $0.split(separator: "=").first.map(String.init) }
        #expect(Set(names).isSubset(of: AltcraftCommandTokens.environment))
        #expect(try await environment(["CHAPAR_TEST_CREDENTIAL"]).contains("planted"))
    }

    @Test("Files and programs give JWTs, and a user's name leads nowhere else")
    func outside() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try Data((Self.vector + "\n").utf8).write(to: folder.appendingPathComponent("ada.jwt"))
        try Data("x".utf8).write(to: folder.appendingPathComponent("secret"))
        let files = AltcraftFileTokens(path: folder.path + "/{user}.jwt")
        #expect(try await AltcraftAuth(source: files).session(for: Self.ada).matchingMode == "email")
        for user in ["bob", "..", "../" + folder.lastPathComponent + "/ada", nil] {
            #expect(try await files.jwt(for: AltcraftIdentity(user: user, device: "d")) == nil)
        }
        let nested = AltcraftFileTokens(path: folder.path + "/{user}/secret")
        #expect(try await nested.jwt(for: AltcraftIdentity(user: ".", device: "d")) == nil)

        let echo = AltcraftCommandTokens(program: "/bin/echo", arguments: ["{user}; ls", "{device}"])
        #expect(try await echo.jwt(for: Self.ada)?.reveal() == "ada; ls d-1")
        let dash = AltcraftIdentity(user: "-n", device: "--help")
        for arguments in [["{user}"], ["{device}"], ["{user}={device}"]] {
            let source = AltcraftCommandTokens(program: "/bin/echo", arguments: arguments)
            #expect(try await source.jwt(for: dash) == nil, "an option, to the program")
        }
        let joined = AltcraftCommandTokens(program: "/bin/echo", arguments: ["-e", "--user={user}", "u:{device}"])
        #expect(try await joined.jwt(for: dash)?.reveal() == "--user=-n u:--help")
        let none = AltcraftCommandTokens(program: "/bin/true", arguments: [])
        #expect(try await none.jwt(for: Self.ada) == nil)
        let broken: [AltcraftCommandTokens] = [
            .init(program: "/bin/false", arguments: []), .init(program: "/no/such", arguments: []),
            .init(program: "/bin/sleep", arguments: ["60"], deadline: .milliseconds(50)),
        ]
        for command in broken {
            let error = await failure { () async throws(PushError) in _ = try await command.jwt(for: Self.ada) }
            #expect(error?.reason == "540")
        }
    }
}
