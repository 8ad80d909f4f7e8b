internal import Foundation
public import Logging
public import ChaparCore
import ChaparOAuth
package import ChaparQueue

/// A store of small values, the credentials of backends, that keeps them encrypted in another store.
///
/// An encrypted value is stored under its name with ``prefix``; a value from before encryption, or without a key, under
/// its plain name. A value whose key is missing is never removed: when a new value replaces it, it is moved to
/// ``asidePrefix``.
public actor SealedState: StateStore, EncryptingState {
    /// The prefix of the names of encrypted values.
    public static let prefix = "sealed/"
    /// The prefix of the names of encrypted values that were replaced while their key was missing.
    public static let asidePrefix = "sealed-unreadable/"

    /// The prefix of the names of the keys of webhooks.
    package static let webhooksPrefix = "webhooks/"
    /// The prefixes of the names of secret values: credentials of backends, keys of webhooks and of receipts.
    ///
    /// Other values are never encrypted.
    static let secrets = [StateCredentialStore.prefix, webhooksPrefix, ReceiptKeys.name]

    private let store: any StateStore
    private let keys: SealingKeys

    /// Makes a store in front of another one.
    public init(_ store: any StateStore, keys: SealingKeys) {
        self.store = store
        self.keys = keys
    }

    /// Makes a sealed state in front of a gateway's store, and encrypts the store's values with the current key; logs
    /// the values that cannot be read.
    ///
    /// - Throws: When the store fails, or has keys to use and no ``StoreAbilities/traces`` to find its values by.
    package static func prepared(
        _ store: any NotificationStore,
        keys: SealingKeys,
        logger: Logger
    ) async throws(StoreError) -> SealedState {
        let sealed = SealedState(store, keys: keys)
        guard let traces = store.abilities.traces else {
            guard keys.ids.isEmpty else {
                throw .failed(
                    "store.encryption needs a store that finds its values: give it StoreAbilities.traces, or leave "
                        + "store.encryption out"
                )
            }
            return sealed
        }
        var names: [String] = []
        for prefix in [Self.prefix] + Self.secrets {
            names += try await traces.stateNames(beginningWith: prefix)
        }
        for problem in try await sealed.prepare(names: names, logger: logger) {
            logger.error("a stored credential cannot be read", metadata: ["problem": "\(problem)"])
        }
        return sealed
    }

    /// Returns the value, decrypted.
    ///
    /// - Throws: `StoreError.sealed` when the value exists but its key is missing.
    public func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        if let value = try await loadSealed(name) { return value }
        if let plain = try await store.loadState(name) { return plain }
        // The value may have been encrypted between the two reads.
        return try await loadSealed(name)
    }

    /// Saves the value encrypted, or plain when there is no key; nil removes it.
    public func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        if let stored = try await store.loadState(Self.prefix + name), keys.failure(of: stored, name: name) != nil {
            // The name is random, so that a second one does not replace it, and ends with the name of the value.
            try await store.saveState("\(Self.asidePrefix)\(MessageID.random())/\(name)", stored)
        }
        guard let value, let key = keys.current else {
            // In this order a value is never lost, and an old encrypted one never returns.
            try await store.saveState(name, value)
            return try await store.saveState(Self.prefix + name, nil)
        }
        let sealed: [UInt8]
        do {
            sealed = try SealedValue.seal(value, name: name, with: key)
        } catch {
            throw .failed("\(name) could not be encrypted, and was not stored")
        }
        try await store.saveState(Self.prefix + name, sealed)
        if try await store.loadState(name) != nil { try await store.saveState(name, nil) }
    }

    /// Runs under the store's lock of that name.
    public nonisolated func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        try await store.exclusively(name, body)
    }

    /// Encrypts values with the current key at the start: plain values themselves, and of encrypted values the key.
    ///
    /// - Parameters:
    ///   - names: Names of stored values; names of values that are no secrets are ignored.
    ///   - logger: Logs the values that were encrypted.
    /// - Returns: For each value that cannot be read, a sentence with its name and the reason.
    /// - Throws: When the store fails.
    public func prepare(names: [String], logger: Logger) async throws(StoreError) -> [String] {
        var sentences: [String] = []
        for stored in names {
            if stored.hasPrefix(Self.prefix) {
                let name = String(stored.dropFirst(Self.prefix.count))
                if let sentence = try await rewrap(name) { sentences.append(sentence) }
            } else if keys.current != nil, Self.isSecret(stored), let value = try await store.loadState(stored) {
                try await saveState(stored, value)
                logger.notice("a stored credential was encrypted", metadata: ["credential": "\(stored)"])
            }
        }
        return sentences
    }

    /// Whether the value of a name is a secret: a mark of a credential, which ends with `/seed`, is none.
    private static func isSecret(_ name: String) -> Bool {
        if name.hasPrefix(StateCredentialStore.prefix) { return !name.hasSuffix("/seed") }
        return secrets.contains { name.hasPrefix($0) }
    }

    /// The change that a stored encrypted value needs at the start.
    private enum Step {
        case nothing
        case save([UInt8])
        case rewrap([UInt8])
    }

    /// Encrypts the key of a value with the current key; returns the reason when the value cannot be read.
    private func rewrap(_ name: String) async throws(StoreError) -> String? {
        guard let stored = try await store.loadState(Self.prefix + name) else { return nil }
        let step: Step
        do throws(SealedValue.Failure) {
            step = try self.step(stored, name)
        } catch {
            return keys.sentence(error, name: name)
        }
        switch step {
        case .nothing: break
        case .save(let value): try await saveState(name, value)
        case .rewrap(let bytes): try await store.saveState(Self.prefix + name, bytes)
        }
        return nil
    }

    private func step(_ stored: [UInt8], _ name: String) throws(SealedValue.Failure) -> Step {
        let value = try SealedValue(stored)
        let plain = try value.open(name: name, with: keys)
        guard let key = keys.current else { return .save(plain) }  // Only old keys: encryption is being given up.
        return value.keyID == key.id ? .nothing : .rewrap(try value.rewrapped(name: name, keys: keys, for: key))
    }

    private func loadSealed(_ name: String) async throws(StoreError) -> [UInt8]? {
        guard let bytes = try await store.loadState(Self.prefix + name) else { return nil }
        do throws(SealedValue.Failure) {
            return try SealedValue(bytes).open(name: name, with: keys)
        } catch {
            throw .sealed(keys.sentence(error, name: name))
        }
    }
}

/// A store that encrypts values when the configuration has a key.
///
/// ``ConfigurationLoader`` refuses `store.encryption` when backends keep their credentials in another kind of store.
package protocol EncryptingState {}

extension SealingKeys {
    /// Returns why a stored value cannot be read, with the fix; nil when it can.
    public func problem(with stored: [UInt8], name: String) -> String? {
        failure(of: stored, name: name).map { sentence($0, name: name) }
    }

    func failure(of stored: [UInt8], name: String) -> SealedValue.Failure? {
        do throws(SealedValue.Failure) {
            _ = try SealedValue(stored).open(name: name, with: self)
            return nil
        } catch {
            return error
        }
    }

    func sentence(_ failure: SealedValue.Failure, name: String) -> String {
        let (owner, again) = Self.owner(of: name)
        switch failure {
        case .unknownKey(let id):
            let have = ids.isEmpty ? "there is none" : "there are \(ids.joined(separator: ", "))"
            return
                "the stored credential of \(owner) is encrypted with the key \(id), and \(have) in store.encryption: "
                + "give that key as key or in old_keys, \(again)"
        case .damaged:
            return "the stored credential of \(owner) is damaged or was changed: restore a backup, \(again)"
        }
    }

    /// Returns the owner of a secret, and how to replace the secret.
    private static func owner(of name: String) -> (owner: String, again: String) {
        func rest(_ prefix: String) -> Substring { name.dropFirst(prefix.count) }
        let kept = "what is stored is kept"
        if name.hasPrefix(SealedState.webhooksPrefix) {
            let webhook = rest(SealedState.webhooksPrefix)
            return ("the webhook \(webhook)", "or make a new one (chapar webhooks rotate \(webhook)); \(kept)")
        }
        if name.hasPrefix(ReceiptKeys.name) {
            return ("receipts from apps", "or make a new one (chapar receipts rotate); \(kept)")
        }
        let backend =
            name.hasPrefix(StateCredentialStore.prefix) ? "the backend \(rest(StateCredentialStore.prefix))" : name
        return (backend, "or give that backend a new credential (its auth section); \(kept)")
    }
}
