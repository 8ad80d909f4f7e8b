public import Foundation
internal import Synchronization
public import ChaparCore

/// A store of one OAuth credential, with a revision that changes with each write.
///
/// Compare-and-set prevents a slow writer from undoing a newer credential of an operator or another process.
public protocol CredentialStore: Sendable {
    /// Returns the credential and its revision; nil when there is none.
    func load() async throws(OAuth2Error) -> StoredCredential?

    /// Writes the credential if the revision is still `expected`; nil means that there is none yet.
    ///
    /// Returns the new revision, or nil when another writer was first; then nothing was changed.
    func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision?

    /// Removes the credential if the revision is still `expected`.
    func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error)

    /// Runs `body` while no other process that shares the store does the same; it must end on its own.
    ///
    /// So two processes never use one refresh token twice.
    func exclusively<Value: Sendable>(
        _ body: @Sendable () async throws(OAuth2Error) -> Value
    ) async throws(OAuth2Error) -> Value

    /// Returns the fingerprint last given to ``keepUsedSeed(_:)``; nil when there is none, or the store keeps none.
    func usedSeed() async throws(OAuth2Error) -> String?

    /// Stores the fingerprint of a configured credential that is used up, whether or not there is a stored credential.
    func keepUsedSeed(_ fingerprint: String) async throws(OAuth2Error)
}

extension CredentialStore {
    /// Returns nil: after a restart, a used-up credential of the configuration is tried once more.
    public func usedSeed() async throws(OAuth2Error) -> String? { nil }

    /// Does nothing.
    public func keepUsedSeed(_ fingerprint: String) async throws(OAuth2Error) {}

    /// Runs `body` at once: no other process shares the store.
    public func exclusively<Value: Sendable>(
        _ body: @Sendable () async throws(OAuth2Error) -> Value
    ) async throws(OAuth2Error) -> Value {
        try await body()
    }
}

/// The identity of one write of a credential; it prints without its content.
public struct CredentialRevision: Sendable, Hashable {
    private let value: Secret

    /// Makes a revision from any text that differs with each write.
    public init(_ text: String) { value = Secret(text) }
}

/// A credential with its revision in a store.
public struct StoredCredential: Sendable, Hashable {
    /// The credential.
    public let credential: OAuthCredential
    /// The revision.
    public let revision: CredentialRevision

    /// Makes a pair.
    public init(_ credential: OAuthCredential, revision: CredentialRevision) {
        self.credential = credential
        self.revision = revision
    }
}

/// A store in memory, for tests and short-lived tools.
///
/// It compares revisions as every store does, so that two refreshers never overwrite each other. Its content is lost
/// with the process; a service uses a file or a store.
public final class MemoryCredentialStore: CredentialStore {
    private let state: Mutex<(credential: OAuthCredential?, count: Int)>

    /// Makes a store, with an initial credential if given.
    public init(_ credential: OAuthCredential? = nil) { state = Mutex((credential, 1)) }

    /// The present credential.
    public var credential: OAuthCredential? { state.withLock { $0.credential } }

    /// Replaces the credential without comparing revisions, as an operator does.
    public func replace(_ credential: OAuthCredential?) {
        state.withLock { $0 = (credential, $0.count + 1) }
    }

    /// Returns the credential and its revision.
    public func load() async throws(OAuth2Error) -> StoredCredential? {
        state.withLock { state in
            state.credential.map { StoredCredential($0, revision: Self.revision(state.count)) }
        }
    }

    /// Compares the revision and writes.
    public func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision? {
        state.withLock { state in
            guard Self.current(state) == expected else { return nil }
            state = (credential, state.count + 1)
            return Self.revision(state.count)
        }
    }

    /// Compares the revision and removes.
    public func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error) {
        state.withLock { state in
            if Self.current(state) == expected { state = (nil, state.count + 1) }
        }
    }

    private static func revision(_ count: Int) -> CredentialRevision { CredentialRevision("\(count)") }

    private static func current(_ state: (credential: OAuthCredential?, count: Int)) -> CredentialRevision? {
        state.credential == nil ? nil : revision(state.count)
    }
}

/// A store of the credential in the gateway's own store, under a name; the default of `auth` in a configuration file.
public actor StateCredentialStore: CredentialStore {
    /// The prefix of credentials' names in a ``ChaparCore/StateStore``; a backend's name follows.
    public static let prefix = "oauth2/"

    private let state: any StateStore
    private let marks: any StateStore
    private let name: String

    /// Makes a store that keeps its credential under `name`.
    ///
    /// - Parameters:
    ///   - state: The store of the credential.
    ///   - marks: The store of a used-up credential's fingerprint, which must be readable without a key; by default the
    ///     store of the credential.
    ///   - name: The backend's name.
    public init(_ state: any StateStore, marks: (any StateStore)? = nil, name: String) {
        self.state = state
        self.marks = marks ?? state
        self.name = Self.prefix + name
    }

    /// Reads the credential; a malformed one counts as none.
    public func load() async throws(OAuth2Error) -> StoredCredential? {
        guard let bytes = try await bytes(), let json = try? JSONValue(parsing: bytes),
            let credential = try? OAuthCredential(stored: json)
        else { return nil }
        return StoredCredential(credential, revision: Self.revision(bytes))
    }

    /// Compares the revision and writes; refreshes run in ``exclusively(_:)``, so the two steps need no lock of their
    /// own.
    public func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision? {
        var current: CredentialRevision?
        do throws(OAuth2Error) {
            current = try await load()?.revision
        } catch {
            // An unreadable credential is not a newer one; the store keeps it aside.
            guard case .credentialSealed = error else { throw error }
        }
        guard current == expected else { return nil }
        let bytes = credential.stored().bytes
        try await write(bytes, name, in: state)
        return Self.revision(bytes)
    }

    /// Compares the revision and removes.
    public func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error) {
        guard let current = try await load()?.revision, current == expected else { return }
        try await write(nil, name, in: state)
    }

    /// Runs `body` while no other gateway that shares the state does so for the same name.
    public func exclusively<Value: Sendable>(
        _ body: @Sendable () async throws(OAuth2Error) -> Value
    ) async throws(OAuth2Error) -> Value {
        let result: Result<Value, OAuth2Error>
        do throws(StoreError) {
            result = try await state.exclusively(name) { () async -> Result<Value, OAuth2Error> in
                do throws(OAuth2Error) { return .success(try await body()) } catch { return .failure(error) }
            }
        } catch {
            throw .storeFailed("\(error)")
        }
        return try result.get()
    }

    /// Returns the fingerprint stored under the credential's name and `/seed`.
    public func usedSeed() async throws(OAuth2Error) -> String? {
        try await read("\(name)/seed", in: marks).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Stores the fingerprint.
    public func keepUsedSeed(_ fingerprint: String) async throws(OAuth2Error) {
        try await write(Array(fingerprint.utf8), "\(name)/seed", in: marks)
    }

    private func bytes() async throws(OAuth2Error) -> [UInt8]? { try await read(name, in: state) }

    private func read(_ name: String, in store: any StateStore) async throws(OAuth2Error) -> [UInt8]? {
        do throws(StoreError) {
            return try await store.loadState(name)
        } catch {
            if case .sealed(let reason) = error { throw .credentialSealed(reason) }
            throw .storeFailed("\(error)")
        }
    }

    private func write(_ bytes: [UInt8]?, _ name: String, in store: any StateStore) async throws(OAuth2Error) {
        do throws(StoreError) { try await store.saveState(name, bytes) } catch { throw .storeFailed("\(error)") }
    }

    private static func revision(_ bytes: [UInt8]) -> CredentialRevision {
        CredentialRevision(String(decoding: bytes, as: UTF8.self))
    }
}

/// A store with a credential of the configuration (the seed) as the initial one while the store is empty.
///
/// A refreshed credential goes into the store, never back into the configuration. A seed whose refresh token has been
/// replaced or refused is used up: it is not used again when the store is emptied, nor after a restart if the store
/// keeps ``CredentialStore/usedSeed()``. A different seed, after a new log-in, is used.
public struct ChainedCredentialStore: CredentialStore {
    private let first: any CredentialStore
    private let seed: OAuthCredential?
    private let isUsedUp = Flag()

    /// Makes a chain of a store and a credential that is used while the store is empty.
    public init(_ first: any CredentialStore, seed: OAuthCredential?) {
        self.first = first
        self.seed = seed
    }

    private static let seedRevision = CredentialRevision("seed")

    /// Returns the store's credential, or the seed unless it is used up; the seed also replaces one that cannot be
    /// decrypted.
    public func load() async throws(OAuth2Error) -> StoredCredential? {
        var unreadable: OAuth2Error?
        do throws(OAuth2Error) {
            if let stored = try await first.load() { return stored }
        } catch {
            // A credential that can no longer be read is replaced by one that was configured since.
            guard case .credentialSealed = error else { throw error }
            unreadable = error
        }
        guard let seed, !isUsedUp.isSet, try await first.usedSeed() != seed.seedFingerprint else {
            if let unreadable { throw unreadable }
            return nil
        }
        return StoredCredential(seed, revision: Self.seedRevision)
    }

    /// Writes to the store.
    public func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision? {
        let isFromSeed = expected == Self.seedRevision
        let revision = try await first.save(credential, expecting: isFromSeed ? nil : expected)
        if isFromSeed, revision != nil, !credential.hasRefreshToken(of: seed) { await useUpSeed() }
        return revision
    }

    /// Removes the credential from the store; the seed stays in the configuration, and is used up if it was refused.
    public func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error) {
        if expected == Self.seedRevision { return await useUpSeed() }
        if let stored = try await first.load(), stored.revision == expected, stored.credential.hasRefreshToken(of: seed)
        {
            await useUpSeed()
        }
        try await first.remove(expecting: expected)
    }

    private func useUpSeed() async {
        guard let seed else { return }
        isUsedUp.set()
        // If the store cannot keep it, a restart costs one refused request.
        try? await first.keepUsedSeed(seed.seedFingerprint)
    }

    /// Runs `body` as the store does.
    public func exclusively<Value: Sendable>(
        _ body: @Sendable () async throws(OAuth2Error) -> Value
    ) async throws(OAuth2Error) -> Value {
        try await first.exclusively(body)
    }

    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isSet: Bool { value.load(ordering: .acquiring) }
        func set() { value.store(true, ordering: .releasing) }
    }
}

extension OAuthCredential {
    fileprivate func hasRefreshToken(of other: OAuthCredential?) -> Bool { refreshToken == other?.refreshToken }

    /// A hash of the token that a configured credential is refreshed with, to tell it from the next one.
    ///
    /// It is stored unencrypted, but only for a token that has been replaced or refused.
    fileprivate var seedFingerprint: String {
        String(StableHash.of((refreshToken ?? accessToken).reveal()), radix: 16)
    }
}

extension OAuthCredential {
    /// Makes the credential from `PREFIX_ACCESS_TOKEN`, `PREFIX_REFRESH_TOKEN` and `PREFIX_EXPIRES_IN`; nil without the
    /// first.
    ///
    /// It is a seed for ``ChainedCredentialStore``, since an environment cannot be written to.
    public init?(environment: [String: String], prefix: String, now: Date) {
        guard let access = environment["\(prefix)_ACCESS_TOKEN"], !access.isEmpty else { return nil }
        self.init(
            accessToken: Secret(access),
            refreshToken: environment["\(prefix)_REFRESH_TOKEN"].map { Secret($0) },
            expiresIn: environment["\(prefix)_EXPIRES_IN"].flatMap { Int($0) },
            createdAt: now
        )
    }
}
