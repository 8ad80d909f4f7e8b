import Foundation
import ChaparCore
import ChaparOAuth
import ChaparTesting
import Testing

@Suite("OAuth 2: the credential and its stores", .timeLimit(.minutes(1)))
struct OAuthCredentialTests {
    static let now = Date(timeIntervalSince1970: 1_767_225_600)
    static let sample = OAuthCredential(
        accessToken: Secret("at-1"),
        refreshToken: Secret("rt-1"),
        expiresIn: 3600,
        createdAt: now
    )

    private func parse(_ text: String, replacing previous: OAuthCredential? = nil) -> Result<
        OAuthCredential, OAuth2Error
    > {
        Result { () throws(OAuth2Error) in
            let json = (try? JSONValue(parsing: Array(text.utf8))) ?? .null
            return try OAuthCredential(json: json, createdAt: Self.now, replacing: previous)
        }
    }

    @Test("The four ways to make a credential agree")
    func initialisers() throws {
        let text = #"{"access_token":"at-1","refresh_token":"rt-1","expires_in":3600}"#
        let json = try JSONValue(parsing: Array(text.utf8))
        #expect(try OAuthCredential(json: json, createdAt: Self.now) == Self.sample)
        #expect(try OAuthCredential(json: Array(text.utf8), now: Self.now) == Self.sample)
        let dictionary: [String: JSONValue] = ["access_token": "at-1", "refresh_token": "rt-1", "expires_in": 3600]
        #expect(try OAuthCredential(dictionary: dictionary, now: Self.now) == Self.sample)
        #expect(OAuthCredential(original: json, now: Self.now) == Self.sample)
        #expect(OAuthCredential(original: nil, now: Self.now) == nil)
    }

    static let originals = [
        #"{"refresh_token":"r","expires_in":1}"#, #"{"access_token":1,"refresh_token":"r","expires_in":1}"#,
        #"{"access_token":"a","expires_in":1}"#, #"{"access_token":"a","refresh_token":"r"}"#,
        #"{"access_token":"a","refresh_token":"r","expires_in":"1"}"#, "[]", "7",
    ]

    @Test("The original's rule takes nothing with a key missing or of another type", arguments: originals)
    func original(_ text: String) throws {
        #expect(OAuthCredential(original: try JSONValue(parsing: Array(text.utf8)), now: Self.now) == nil)
    }

    static let faulty: [(String, OAuth2Error)] = [
        ("[]", .malformedResponse(key: "")), ("{}", .malformedResponse(key: "access_token")),
        (#"{"access_token":""}"#, .malformedResponse(key: "access_token")),
        (#"{"access_token":" "}"#, .malformedResponse(key: "access_token")),
        (#"{"access_token":"a b"}"#, .malformedResponse(key: "access_token")),
        (#"{"access_token":"a\nb"}"#, .malformedResponse(key: "access_token")),
        (#"{"access_token":null}"#, .malformedResponse(key: "access_token")),
        (#"{"access_token":"a","refresh_token":5}"#, .malformedResponse(key: "refresh_token")),
        (#"{"access_token":"a","expires_in":"soon"}"#, .malformedResponse(key: "expires_in")),
        (#"{"access_token":"a","expires_in":1.5}"#, .malformedResponse(key: "expires_in")),
        (#"{"access_token":"a","expires_in":true}"#, .malformedResponse(key: "expires_in")),
        (#"{"access_token":"a","token_type":"mac"}"#, .unsupportedTokenType),
    ]

    @Test("A wrong answer names its key", arguments: faulty)
    func faultyAnswer(text: String, error: OAuth2Error) { #expect(parse(text) == .failure(error)) }

    static let lifetimes: [(String, Int?)] = [
        ("3600", 3600), ("3600.0", 3600), (#""3600""#, 3600), ("0", 0), ("-5", -5), ("null", nil),
    ]

    @Test("A lifetime may be written in several ways", arguments: lifetimes)
    func readsLifetime(text: String, seconds: Int?) throws {
        let credential = try parse(#"{"access_token":"a","token_type":"BEARER","expires_in":\#(text)}"#).get()
        #expect(credential.expiresIn == seconds)
    }

    @Test("An answer without a refresh token keeps the old one")
    func keepsRefreshToken() throws {
        let credential = try parse(#"{"access_token":"at-2"}"#, replacing: Self.sample).get()
        #expect(credential.refreshToken == Secret("rt-1"))
        #expect(try parse(#"{"access_token":"at-2"}"#).get().refreshToken == nil)
    }

    @Test("Printing shows no token")
    func printing() {
        for text in ["\(Self.sample)", String(reflecting: Self.sample), "\(dump(Self.sample))"] {
            #expect(!text.contains("at-1") && !text.contains("rt-1"), "\(text)")
        }
        #expect("\(Self.sample)".contains("3600 s"))
    }

    @Test("Both stored forms are read back", arguments: OAuthCredential.KeyStyle.allCases)
    func stored(_ style: OAuthCredential.KeyStyle) throws {
        #expect(try OAuthCredential(stored: Self.sample.stored(style)) == Self.sample)
        let keys = Set(Self.sample.stored(style).objectValue?.members.map(\.name) ?? [])
        if style == .original {
            #expect(keys == ["IDAM.UDK.AO.AT", "IDAM.UDK.AO.RT", "IDAM.UDK.AO.EI", "IDAM.UDK.AO.CA"])
        }
        var bare = Self.sample
        (bare.expiresIn, bare.refreshToken) = (nil, nil)
        #expect(try OAuthCredential(stored: bare.stored(style)) == bare, "what the original keys cannot hold")
    }

    static let originalKeys = ["IDAM.UDK.AO.AT", "IDAM.UDK.AO.RT", "IDAM.UDK.AO.EI", "IDAM.UDK.AO.CA"]

    @Test("A stored record without one of its keys is none, and says which", arguments: originalKeys)
    func incomplete(key: String) throws {
        var object = try #require(Self.sample.stored(.original).objectValue)
        object[key] = nil
        #expect(throws: OAuth2Error.malformedResponse(key: key)) { try OAuthCredential(stored: .object(object)) }
        object[key] = true
        #expect(throws: OAuth2Error.malformedResponse(key: key)) { try OAuthCredential(stored: .object(object)) }
    }

    // MARK: Stores

    private func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-oauth-\(UUID())")
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(folder.path)
    }

    private func promises(_ store: any CredentialStore) async throws {
        #expect(try await store.load() == nil)
        let first = try #require(try await store.save(Self.sample, expecting: nil))
        #expect(try await store.load()?.credential == Self.sample)
        #expect(try await store.load()?.revision == first)
        #expect(try await store.save(Self.sample, expecting: nil) == nil, "somebody has written already")
        var next = Self.sample
        next.accessToken = Secret("at-2")
        let second = try #require(try await store.save(next, expecting: first))
        #expect(try await store.save(Self.sample, expecting: first) == nil, "the revision is old")
        try await store.remove(expecting: first)
        #expect(try await store.load()?.credential == next, "an old revision removes nothing")
        try await store.remove(expecting: second)
        #expect(try await store.load() == nil)
        #expect(!"\(first)\(String(reflecting: first))".contains("at-1"))
    }

    @Test("Every store compares before it writes or removes")
    func storePromises() async throws {
        try await promises(MemoryCredentialStore())
        try await promises(StateCredentialStore(MemoryState(), name: "crm"))
        try await promises(ChainedCredentialStore(MemoryCredentialStore(), seed: nil))
        try await withFolder { folder in
            try await promises(FileCredentialStore(path: "\(folder)/deep/main.json"))
            try await promises(FileCredentialStore(path: "\(folder)/deep/other.json", style: .original))
        }
    }

    @Test("A credential's file is its owner's alone, and one that is not is refused")
    func permissions() async throws {
        try await withFolder { folder in
            let path = "\(folder)/main.json"
            let store = FileCredentialStore(path: path)
            _ = try await store.save(Self.sample, expecting: nil)
            let files = FileManager.default
            let mode = try files.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(try files.attributesOfItem(atPath: folder)[.posixPermissions] as? Int == 0o700)
            #expect(try files.contentsOfDirectory(atPath: folder) == ["main.json"], "nothing temporary is left")
            try files.setAttributes([.posixPermissions: 0o640], ofItemAtPath: path)
            await #expect(throws: OAuth2Error.self) { try await store.load() }
            let lenient = FileCredentialStore(path: path, allowsInsecurePermissions: true)
            #expect(try await lenient.load()?.credential == Self.sample)
            try Data("{".utf8).write(to: URL(filePath: path))
            try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
            await #expect(throws: OAuth2Error.self) { try await store.load() }
        }
    }

    @Test("Two who share a file take turns")
    func takesTurns() async throws {
        try await withFolder { folder in
            let stores = (0..<2).map { _ in FileCredentialStore(path: "\(folder)/main.json") }
            let inside = Recorder<Int>()
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                for round in 0..<10 {
                    tasks.addTask {
                        try await stores[round % 2].exclusively { () async throws(OAuth2Error) in
                            inside.add(round)
                            await Task.yield()
                            let isAlone = inside.all.last == round
                            if !isAlone { throw .storeFailed("two were inside at once") }
                        }
                    }
                }
                try await tasks.waitForAll()
            }
            #expect(inside.all.count == 10)
        }
    }

    @Test("A seed is used while the store is empty, and never written back")
    func chain() async throws {
        let memory = MemoryCredentialStore()
        let chain = ChainedCredentialStore(memory, seed: Self.sample)
        let seed = try #require(try await chain.load())
        #expect(seed.credential == Self.sample)
        var next = Self.sample
        next.accessToken = Secret("at-2")
        #expect(try await chain.save(next, expecting: seed.revision) != nil)
        #expect(memory.credential == next)
        #expect(try await chain.load()?.credential == next)
    }

    @Test("An environment seeds a credential")
    func environment() {
        let values = ["CRM_ACCESS_TOKEN": "at-1", "CRM_REFRESH_TOKEN": "rt-1", "CRM_EXPIRES_IN": "3600"]
        #expect(OAuthCredential(environment: values, prefix: "CRM", now: Self.now) == Self.sample)
        #expect(OAuthCredential(environment: [:], prefix: "CRM", now: Self.now) == nil)
    }
}
