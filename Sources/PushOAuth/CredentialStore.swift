public import Foundation
internal import Synchronization
public import PushCore

/// Keeps one OAuth credential, with a revision that changes with each write.
///
/// Compare-and-set keeps a slow writer from undoing a newer credential: an operator's, or another process's.
public protocol CredentialStore: Sendable {
    /// The credential and its revision; nil when there is none.
    func load() async throws(OAuth2Error) -> StoredCredential?

    /// Writes the credential if the revision is still `expected`, nil standing for "there is none".
    ///
    /// Returns the new revision, or nil when another writer wrote in the meantime; then nothing was changed.
    func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision?

    /// Removes the credential if the revision is still `expected`.
    func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error)

    /// Runs `body` while no other process that shares the store does the same; it must end on its own.
    ///
    /// What keeps two processes from spending one refresh token twice.
    func exclusively<Value: Sendable>(
        _ body: @Sendable () async throws(OAuth2Error) -> Value
    ) async throws(OAuth2Error) -> Value

    /// What ``keepUsedSeed(_:)`` was last given; nil when there is nothing, or the store keeps no such thing.
    func usedSeed() async throws(OAuth2Error) -> String?

    /// Keeps the fingerprint of a configured credential that is used up, beside the credential and also when there is
    /// none.
    func keepUsedSeed(_ fingerprint: String) async throws(OAuth2Error)
}

extension CredentialStore {
    /// Nothing is kept: after a restart a used-up credential of the configuration is tried once more.
    public func usedSeed() async throws(OAuth2Error) -> String? { nil }

    /// Nothing is kept.
    public func keepUsedSeed(_ fingerprint: String) async throws(OAuth2Error) {}

    /// Nobody shares the store.
    public func exclusively<Value: Sendable>(
        _ body: @Sendable () async throws(OAuth2Error) -> Value
    ) async throws(OAuth2Error) -> Value {
        try await body()
    }
}

/// Says which writing of a credential is meant; it prints without what is inside.
public struct CredentialRevision: Sendable, Hashable {
    private let value: Secret

    /// Makes a revision of any text that differs with each writing.
    public init(_ text: String) { value = Secret(text) }
}

/// A credential as a store has it.
public struct StoredCredential: Sendable, Hashable {
    /// The credential.
    public let credential: OAuthCredential
    /// Which writing of it this is.
    public let revision: CredentialRevision

    /// Makes a pair.
    public init(_ credential: OAuthCredential, revision: CredentialRevision) {
        self.credential = credential
        self.revision = revision
    }
}

/// Keeps the credential in memory: for tests and short-lived tools.
///
/// It compares revisions as every store does, so that two refreshers never overwrite each other. What it holds is gone
/// with the process; a service uses a file or a store.
public final class MemoryCredentialStore: CredentialStore {
    private let state: Mutex<(credential: OAuthCredential?, count: Int)>

    /// Makes a store, with a credential to begin with.
    public init(_ credential: OAuthCredential? = nil) { state = Mutex((credential, 1)) }

    /// The credential now.
    public var credential: OAuthCredential? { state.withLock { $0.credential } }

    /// Puts a credential in, as an operator does: without asking for a revision.
    public func replace(_ credential: OAuthCredential?) {
        state.withLock { $0 = (credential, $0.count + 1) }
    }

    /// The credential and its revision.
    public func load() async throws(OAuth2Error) -> StoredCredential? {
        state.withLock { state in
            state.credential.map { StoredCredential($0, revision: Self.revision(state.count)) }
        }
    }

    /// Compares and writes.
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

    /// Compares and removes.
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

/// Keeps the credential in the gateway's own store, under a name: what `auth` in a configuration file uses by default.
public actor StateCredentialStore: CredentialStore {
    /// What the names of credentials begin with in a ``PushCore/StateStore``; a backend's name follows.
    public static let prefix = "oauth2/"

    private let state: any StateStore
    private let marks: any StateStore
    private let name: String

    /// Makes a store that keeps its credential under `name`.
    ///
    /// - Parameters:
    ///   - state: Where the credential is kept.
    ///   - marks: Where the fingerprint of a used-up credential is kept, which must be readable without a key; by
    ///     default with the credential.
    ///   - name: The backend's name.
    public init(_ state: any StateStore, marks: (any StateStore)? = nil, name: String) {
        self.state = state
        self.marks = marks ?? state
        self.name = Self.prefix + name
    }

    /// Reads the credential; one that cannot be read counts as none.
    public func load() async throws(OAuth2Error) -> StoredCredential? {
        guard let bytes = try await bytes(), let json = try? JSONValue(parsing: bytes),
            let credential = try? OAuthCredential(stored: json)
        else { return nil }
        return StoredCredential(credential, revision: Self.revision(bytes))
    }

    /// Compares and writes; whoever refreshes does it ``exclusively(_:)``, so the two steps need no lock of their own.
    public func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision? {
        var current: CredentialRevision?
        do throws(OAuth2Error) {
            current = try await load()?.revision
        } catch {
            // What cannot be read is not a newer credential; the store keeps it aside.
            guard case .credentialSealed = error else { throw error }
        }
        guard current == expected else { return nil }
        let bytes = credential.stored().bytes
        try await write(bytes, name, in: state)
        return Self.revision(bytes)
    }

    /// Compares and removes.
    public func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error) {
        guard let current = try await load()?.revision, current == expected else { return }
        try await write(nil, name, in: state)
    }

    /// Runs `body` while no other gateway that shares the state does, by the credential's name.
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

    /// The fingerprint under the credential's name and `/seed`.
    public func usedSeed() async throws(OAuth2Error) -> String? {
        try await read("\(name)/seed", in: marks).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Keeps the fingerprint.
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

/// Loads from a store, and from a credential of the configuration (the seed) while the store is empty.
///
/// A refreshed credential goes into the store, never back into the configuration. A seed whose refresh token has been
/// replaced or refused is used up: it does not come back when the store is emptied, nor after a restart if the store
/// keeps ``CredentialStore/usedSeed()``. Another seed, after a new log-in, is taken up.
public struct ChainedCredentialStore: CredentialStore {
    private let first: any CredentialStore
    private let seed: OAuthCredential?
    private let isUsedUp = Flag()

    /// Makes a chain of a store and a credential to begin with while the store is empty.
    public init(_ first: any CredentialStore, seed: OAuthCredential?) {
        self.first = first
        self.seed = seed
    }

    private static let seedRevision = CredentialRevision("seed")

    /// The store's credential, else the seed unless it is used up; also when the store's cannot be decrypted.
    public func load() async throws(OAuth2Error) -> StoredCredential? {
        var unreadable: OAuth2Error?
        do throws(OAuth2Error) {
            if let stored = try await first.load() { return stored }
        } catch {
            // A credential that cannot be read any more is replaced by one that was configured since.
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

    /// Removes from the store; the seed stays where it is written, and is used up if it is what was refused.
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
        // A store that cannot keep it costs one refused request after a restart.
        try? await first.keepUsedSeed(seed.seedFingerprint)
    }

    /// As the store.
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

    /// Tells one configured credential from the next (a hash of what it is refreshed with).
    ///
    /// Kept in the clear, only of a token that has been replaced or refused.
    fileprivate var seedFingerprint: String {
        String(StableHash.of((refreshToken ?? accessToken).reveal()), radix: 16)
    }
}

extension OAuthCredential {
    /// The credential that `PREFIX_ACCESS_TOKEN`, `PREFIX_REFRESH_TOKEN` and `PREFIX_EXPIRES_IN` hold; nil without the
    /// first.
    ///
    /// A seed for ``ChainedCredentialStore``: an environment cannot be written to.
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
