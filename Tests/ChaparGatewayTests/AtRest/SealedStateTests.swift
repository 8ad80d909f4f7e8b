import Foundation
import ChaparCore
import ChaparOAuth
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Credentials at rest", .timeLimit(.minutes(1)))
struct SealedStateTests {
    private static func key(_ number: UInt8) throws -> SealingKey {
        try #require(SealingKey(Secret(Data(repeating: number, count: 32).base64EncodedString())))
    }

    private static func keys(_ current: UInt8?, old: [UInt8] = []) throws -> SealingKeys {
        SealingKeys(current: try current.map(key), old: try old.map(key))
    }

    private static let name = StateCredentialStore.prefix + "crm"
    private static let value = Array("refresh-token-of-crm".utf8)

    @Test("A value is encrypted under its name, and given back under that name only")
    func sealed() async throws {
        let memory = MemoryState()
        let state = SealedState(memory, keys: try Self.keys(1))
        #expect(try await state.loadState(Self.name) == nil)
        try await state.saveState(Self.name, Self.value)
        let stored = memory.values
        #expect(stored.keys.sorted() == [SealedState.prefix + Self.name])
        #expect(!stored.values.contains { $0.count < Self.value.count || $0.firstRange(of: Self.value) != nil })
        #expect(try await state.loadState(Self.name) == Self.value)
        try await state.saveState(Self.name, Self.value)
        #expect(memory.values != stored, "the same value never looks the same")

        memory.values = [SealedState.prefix + "oauth2/other": stored[SealedState.prefix + Self.name] ?? []]
        await #expect(throws: StoreError.self) { try await state.loadState("oauth2/other") }
        try await state.saveState("oauth2/new", [])
        #expect(try await state.loadState("oauth2/new") == [])
        try await state.saveState("oauth2/new", nil)
        #expect(try await state.loadState("oauth2/new") == nil)
    }

    @Test("A change of any byte is noticed, and never gives another value")
    func tampered() async throws {
        let memory = MemoryState()
        let state = SealedState(memory, keys: try Self.keys(1))
        try await state.saveState(Self.name, Self.value)
        let stored = try #require(memory.values[SealedState.prefix + Self.name])
        for place in stored.indices {
            var changed = stored
            changed[place] ^= 0x40
            memory.values = [SealedState.prefix + Self.name: changed]
            await #expect(throws: StoreError.self, "byte \(place)") { try await state.loadState(Self.name) }
        }
        for length in [0, 1, 9, 68, 69, stored.count - 1] {
            memory.values = [SealedState.prefix + Self.name: Array(stored.prefix(length))]
            await #expect(throws: StoreError.self, "\(length) bytes") { try await state.loadState(Self.name) }
        }
    }

    @Test("A value sealed with an old key stays readable, and is sealed with the new one at the start")
    func rotation() async throws {
        let memory = MemoryState()
        try await SealedState(memory, keys: try Self.keys(1)).saveState(Self.name, Self.value)
        let both = SealedState(memory, keys: try Self.keys(2, old: [1]))
        #expect(try await both.loadState(Self.name) == Self.value)
        #expect(try await both.prepare(names: Array(memory.values.keys), logger: quiet) == [])
        let alone = SealedState(memory, keys: try Self.keys(2))
        #expect(try await alone.loadState(Self.name) == Self.value)
        #expect(try await alone.prepare(names: Array(memory.values.keys), logger: quiet) == [])
    }

    @Test(
        "Credentials stored before encryption are readable, and encrypted at the start; other values are not changed"
    )
    func before() async throws {
        let memory = MemoryState()
        memory.values = [Self.name: Self.value, Self.name + "/seed": [7], "chabok/device": [8]]
        let state = SealedState(memory, keys: try Self.keys(1))
        #expect(try await state.loadState(Self.name) == Self.value)
        #expect(try await state.prepare(names: Array(memory.values.keys), logger: quiet) == [])
        #expect(memory.values.keys.sorted() == ["chabok/device", Self.name + "/seed", SealedState.prefix + Self.name])
        #expect(try await state.loadState(Self.name) == Self.value)
        // With the key among the old ones only, encryption is given up again.
        let plain = SealedState(memory, keys: try Self.keys(nil, old: [1]))
        #expect(try await plain.prepare(names: Array(memory.values.keys), logger: quiet) == [])
        #expect(memory.values[Self.name] == Self.value)
        #expect(memory.values[SealedState.prefix + Self.name] == nil)
    }

    @Test("The keys of webhooks and receipts from before encryption are encrypted at the start too")
    func keysFromBefore() async throws {
        let memory = MemoryState()
        let names = [WebhookSecrets.stateName("shop"), ReceiptKeys.name, ReceiptKeys.listName]
        for name in names { memory.values[name] = Array("secret of \(name)".utf8) }
        let state = SealedState(memory, keys: try Self.keys(1))
        #expect(SealedState.secrets.allSatisfy { prefix in (names + [Self.name]).contains { $0.hasPrefix(prefix) } })
        #expect(try await state.prepare(names: Array(memory.values.keys), logger: quiet) == [])
        #expect(memory.values.keys.sorted() == names.map { SealedState.prefix + $0 }.sorted())
        for name in names { #expect(try await state.loadState(name) == Array("secret of \(name)".utf8)) }
    }

    @Test("The sentence about a secret that cannot be read says what it belongs to, and how to replace it")
    func owners() async throws {
        let memory = MemoryState()
        let state = SealedState(memory, keys: try Self.keys(1))
        let table = [
            (Self.name, "the backend crm", "its auth section"),
            (WebhookSecrets.stateName("shop"), "the webhook shop", "webhooks rotate shop"),
            (ReceiptKeys.name, "receipts from apps", "receipts rotate"),
        ]
        for (name, _, _) in table { try await state.saveState(name, Self.value) }
        for (name, owner, again) in table {
            let stored = try #require(memory.values[SealedState.prefix + name])
            let sentence = try #require(try Self.keys(2).problem(with: stored, name: name))
            #expect(sentence.contains(owner) && sentence.contains(again), "\(sentence)")
        }
    }

    @Test(
        "Without its key a value is named, never read as another one, and never removed",
        arguments: [nil, 2] as [UInt8?]
    )
    func lost(other: UInt8?) async throws {
        let memory = MemoryState()
        try await SealedState(memory, keys: try Self.keys(1)).saveState(Self.name, Self.value)
        let stored = try #require(memory.values[SealedState.prefix + Self.name])
        let state = SealedState(memory, keys: try Self.keys(other))
        let sentences = try await state.prepare(names: Array(memory.values.keys), logger: quiet)
        #expect(sentences.count == 1)
        let sentence = try #require(sentences.first)
        let id = try Self.key(1).id
        #expect(sentence.contains("backend crm") && sentence.contains(id))
        let error = await #expect(throws: StoreError.self) { try await state.loadState(Self.name) }
        #expect(error == .sealed(sentence))
        #expect(memory.values == [SealedState.prefix + Self.name: stored])

        try await state.saveState(Self.name, [1, 2])
        #expect(try await state.loadState(Self.name) == [1, 2])
        #expect(memory.values.contains { $0.key.hasPrefix(SealedState.asidePrefix) && $0.value == stored })
        #expect(memory.values.count == 2)
    }

    @Test(
        "A credential that cannot be read any more is replaced by a new one of the configuration, never by the used one"
    )
    func newLogIn() async throws {
        let memory = MemoryState()
        func credential(_ token: String) -> OAuthCredential {
            OAuthCredential(
                accessToken: Secret("at"),
                refreshToken: Secret(token),
                expiresIn: 60,
                createdAt: Date(timeIntervalSince1970: 1_800_000_000)
            )
        }
        func chain(_ key: UInt8?, seed: String) throws -> ChainedCredentialStore {
            let sealed = SealedState(memory, keys: try Self.keys(key))
            return ChainedCredentialStore(
                StateCredentialStore(sealed, marks: memory, name: "crm"),
                seed: credential(seed)
            )
        }
        let first = try chain(1, seed: "rt-1")
        let seed = try #require(try await first.load())
        #expect(try await first.save(credential("rt-2"), expecting: seed.revision) != nil)
        for key in [nil, 2] as [UInt8?] {
            let error = await #expect(throws: OAuth2Error.self) { try await chain(key, seed: "rt-1").load() }
            #expect(error?.code == "credential_sealed" && error?.isRetryable == false)
            #expect(error?.description.contains("rt-") == false)
        }
        #expect(try await chain(1, seed: "rt-1").load()?.credential == credential("rt-2"))
        let again = try chain(2, seed: "rt-3")
        let fresh = try #require(try await again.load())
        #expect(fresh.credential == credential("rt-3"))
        #expect(try await again.save(credential("rt-4"), expecting: fresh.revision) != nil)
        #expect(try await chain(2, seed: "rt-3").load()?.credential == credential("rt-4"))
    }

    @Test("A key is 32 bytes and nothing else, and shows itself nowhere")
    func keyForms() throws {
        let hex = String(repeating: "0f", count: 32)
        let base64 = Data(repeating: 0x0F, count: 32).base64EncodedString()
        let texts = [hex, hex.uppercased(), base64, base64 + "\n", String(base64.dropLast())]
        #expect(Set(texts.compactMap { SealingKey(Secret($0))?.id }).count == 1)
        for text in ["", "password", String(hex.dropLast(2)), base64 + base64, String(repeating: "é", count: 32)] {
            #expect(SealingKey(Secret(text)) == nil)
            #expect(SealingKey.problem(with: Secret(text))?.contains("password") == false)
        }
        var dumped = ""
        dump(try Self.keys(0x0F), to: &dumped)
        #expect(!dumped.contains(hex) && !dumped.contains(base64))
    }

    @Test("A hash for logs is the same for the same name in one store, and another one elsewhere")
    func keyedHash() async throws {
        let (one, other) = (MemoryState(), MemoryState())
        let hash = try await KeyedHash(one)("user", "zoe")  // No name that hexadecimal digits could spell.
        #expect(hash.count == 64 && !hash.contains("zoe"))
        #expect(try await KeyedHash(one)("user", "zoe") == hash)
        #expect(try await KeyedHash(one)("user", "eve") != hash)
        #expect(try await KeyedHash(one)("device", "zoe") != hash)
        #expect(try await KeyedHash(other)("user", "zoe") != hash)
    }
}
