public import Foundation
internal import Synchronization

/// Keeps one OAuth credential, with a revision that changes whenever somebody writes it.
///
/// Compare-and-set keeps a slow writer from undoing a newer credential: an operator's, or another process's.
public protocol CredentialStore: Sendable {
    /// The credential and its revision; nil when there is none.
    func load() async throws(OAuth2Error) -> StoredCredential?

    /// Writes the credential if the revision is still `expected`, nil standing for "there is none".
    ///
    /// Returns the new revision, or nil when somebody else wrote in the meantime; then nothing was changed.
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
}

extension CredentialStore {
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
    private let state: any StateStore
    private let name: String

    /// Makes a store that keeps its credential under `name`.
    public init(_ state: any StateStore, name: String) {
        self.state = state
        self.name = "oauth2/\(name)"
    }

    /// Reads the credential; one that cannot be read counts as none.
    public func load() async throws(OAuth2Error) -> StoredCredential? {
        guard let bytes = try await bytes(), let json = try? JSONValue(parsing: bytes),
            let credential = try? OAuthCredential(stored: json)
        else { return nil }
        return StoredCredential(credential, revision: Self.revision(bytes))
    }

    /// Compares and writes; one process writes, so the two steps need no lock of the store.
    public func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision? {
        guard try await load()?.revision == expected else { return nil }
        let bytes = credential.stored().bytes
        try await write(bytes)
        return Self.revision(bytes)
    }

    /// Compares and removes.
    public func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error) {
        guard let current = try await load()?.revision, current == expected else { return }
        try await write(nil)
    }

    private func bytes() async throws(OAuth2Error) -> [UInt8]? {
        do throws(StoreError) { return try await state.loadState(name) } catch { throw .storeFailed("\(error)") }
    }

    private func write(_ bytes: [UInt8]?) async throws(OAuth2Error) {
        do throws(StoreError) { try await state.saveState(name, bytes) } catch { throw .storeFailed("\(error)") }
    }

    private static func revision(_ bytes: [UInt8]) -> CredentialRevision {
        CredentialRevision(String(decoding: bytes, as: UTF8.self))
    }
}

/// Loads from the first store that has a credential, and writes to that one, else to the first.
///
/// A configuration's own tokens stand last: they seed a store that is empty, and a refreshed credential never goes back there.
public struct ChainedCredentialStore: CredentialStore {
    private let first: any CredentialStore
    private let seed: OAuthCredential?

    /// Makes a chain of a store and a credential to begin with while the store is empty.
    public init(_ first: any CredentialStore, seed: OAuthCredential?) {
        self.first = first
        self.seed = seed
    }

    private static let seedRevision = CredentialRevision("seed")

    /// The store's credential, else the seed.
    public func load() async throws(OAuth2Error) -> StoredCredential? {
        if let stored = try await first.load() { return stored }
        return seed.map { StoredCredential($0, revision: Self.seedRevision) }
    }

    /// Writes to the store.
    public func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision? {
        try await first.save(credential, expecting: expected == Self.seedRevision ? nil : expected)
    }

    /// Removes from the store; the seed stays where it is written.
    public func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error) {
        if expected != Self.seedRevision { try await first.remove(expecting: expected) }
    }

    /// As the store.
    public func exclusively<Value: Sendable>(
        _ body: @Sendable () async throws(OAuth2Error) -> Value
    ) async throws(OAuth2Error) -> Value {
        try await first.exclusively(body)
    }
}

extension OAuthCredential {
    /// The credential that `PREFIX_ACCESS_TOKEN`, `PREFIX_REFRESH_TOKEN` and `PREFIX_EXPIRES_IN` hold; nil without the first.
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
