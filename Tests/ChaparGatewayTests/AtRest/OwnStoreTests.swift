import Foundation
import ChaparCore
import ChaparOAuth
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The section `store` of a file, in a program that opened the store itself.
@Suite("A configuration and a store of the program's own", .timeLimit(.minutes(1)))
struct OwnStoreTests {
    private static let text = """
        store: { encryption: { key: \(Data(repeating: 5, count: 32).base64EncodedString()) } }
        backends: { crm: { kind: keeper } }
        """

    private static func loader() throws -> ConfigurationLoader {
        ConfigurationLoader(registry: try BackendRegistry([KeepingBackend.factory]), environment: [:])
    }

    private static func load(_ text: String, _ context: BackendContext) throws {
        _ = try loader().load(text: Array(text.utf8), name: "test.yaml", folder: "") { _ in context }
    }

    @Test("Encryption that would not be in force is refused")
    func refused() throws {
        let plain = BackendContext(name: "crm", http: NoTransport(), state: MemoryState(), logger: quiet)
        let error = #expect(throws: ConfigurationError.self) { try Self.load(Self.text, plain) }
        #expect(error?.issues.map(\.path) == ["store.encryption"], "\(error as Any)")
        try Self.load("backends: { crm: { kind: keeper } }", plain)
        // A command that only looks keeps nothing.
        try Self.load(Self.text, .sample("crm"))
        let sealed = BackendContext(
            name: "crm",
            http: NoTransport(),
            state: MemoryState(),
            credentials: SealedState(MemoryState(), keys: .none),
            logger: quiet
        )
        try Self.load(Self.text, sealed)
    }

    @Test("Credentials in the store are encrypted with the file's key, those from before as well")
    func encrypted() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-own-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "chapar.yaml")
        try Data(Self.text.utf8).write(to: file)
        let store = try SQLiteStore(SQLiteStoreOptions(path: folder.appending(path: "test.db").path), logger: quiet)
        let (old, new) = (StateCredentialStore.prefix + "old", StateCredentialStore.prefix + "crm")
        let value = Array("refresh-token".utf8)
        try await store.saveState(old, value)

        let loaded = try await Self.loader().load(file.path, store: store, logger: quiet) { name in .sample(name) }
        let backend = try #require(loaded.backends.first?.backend as? KeepingBackend)
        let credentials = try #require(backend.context.credentials)
        try await credentials.saveState(new, value)
        for name in [old, new] {
            #expect(try await credentials.loadState(name) == value)
            #expect(try await store.loadState(name) == nil)
            #expect(try await store.loadState(SealedState.prefix + name) != nil)
        }
        try await backend.context.state?.saveState("mark", [1])
        #expect(try await store.loadState("mark") == [1])
        await store.close()
    }
}

/// Shows what it was built with.
private struct KeepingBackend: PushBackend {
    let kind: BackendKind = "keeper"
    let audience = BackendAudience(services: [.iOSAPNs])
    let context: BackendContext

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}

    static let factory = BackendFactory("keeper", summary: "Shows what it was built with.") { _, context in
        KeepingBackend(context: context)
    }
}
