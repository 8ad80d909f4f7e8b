internal import Crypto
internal import Foundation
public import ChaparCore

/// A key that credentials in the store are encrypted with: 32 random bytes, written in base64 or as 64 hexadecimal
/// digits.
public struct SealingKey: Sendable {
    /// The id of the key, in messages and in stored values; it reveals nothing of the key.
    public let id: String
    let key: SymmetricKey

    /// Returns why a text is no key; nil when it is one.
    ///
    /// The reason does not quote the text.
    public static func problem(with text: Secret) -> String? {
        bytes(of: text) == nil ? "is not 32 bytes in base64 (or 64 hexadecimal digits)" : nil
    }

    /// Reads a key; nil when the text is none.
    public init?(_ text: Secret) {
        guard let bytes = Self.bytes(of: text) else { return nil }
        key = SymmetricKey(data: bytes)
        let digest = SHA256.hash(data: Data("chapar sealing key id".utf8) + bytes)
        id = digest.prefix(SealedValue.idBytes).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    private static func bytes(of text: Secret) -> Data? {
        let text = text.reveal().trimmingCharacters(in: .whitespacesAndNewlines)
        let digits = Array(text.utf8)
        if digits.count == 64, digits.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }) {
            return Data(
                stride(from: 0, to: 64, by: 2).compactMap {
                    UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
                }
            )
        }
        let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        let padded = standard + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
        guard let bytes = Data(base64Encoded: padded), bytes.count == 32 else { return nil }
        return bytes
    }
}

/// The keys of a gateway: one for new values, and the ones that older values were encrypted with.
public struct SealingKeys: Sendable {
    /// The key for new values; nil stores them unencrypted.
    public let current: SealingKey?
    private let all: [String: SealingKey]

    /// No keys: encrypted values cannot be read, and nothing is encrypted.
    public static let none = SealingKeys(current: nil, old: [])

    /// Makes a ring of the key for new values and keys that only decrypt.
    public init(current: SealingKey?, old: [SealingKey]) {
        self.current = current
        all = Dictionary(([current].compactMap { $0 } + old).map { ($0.id, $0) }) { first, _ in first }
    }

    /// The ids of the keys, the current one first.
    public var ids: [String] {
        let others = all.keys.filter { $0 != current?.id }.sorted()
        return (current.map { [$0.id] } ?? []) + others
    }

    func key(_ id: String) -> SealingKey? { all[id] }
}

/// An encrypted value in its stored form.
///
/// Each value has a key of its own (AES-256-GCM), which is encrypted with a ``SealingKey``. Both are bound to the
/// value's name, so that a value that was moved to another name cannot be read. Layout: version (1 byte), id of the key
/// (8), encrypted key of the value (12 + 32 + 16), encrypted value (12 + n + 16).
struct SealedValue {
    /// The reason why a value cannot be read.
    enum Failure: Error, Hashable {
        /// The key with this id is missing.
        case unknownKey(String)
        /// The value was changed or cut, or belongs to another name.
        case damaged
    }

    static let idBytes = 8
    private static let version: UInt8 = 1
    private static let wrappedBytes = 12 + 32 + 16

    /// The id of the key that it is encrypted with.
    let keyID: String
    private let wrapped: ArraySlice<UInt8>
    private let box: ArraySlice<UInt8>

    init(_ stored: [UInt8]) throws(Failure) {
        let head = 1 + Self.idBytes
        guard stored.first == Self.version, stored.count >= head + Self.wrappedBytes + 28 else { throw .damaged }
        keyID = stored[1..<head].map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        wrapped = stored[head..<head + Self.wrappedBytes]
        box = stored[(head + Self.wrappedBytes)...]
    }

    /// Encrypts a value for a name; returns the stored form.
    static func seal(_ value: [UInt8], name: String, with key: SealingKey) throws(Failure) -> [UInt8] {
        let own = SymmetricKey(size: .bits256)
        do {
            let box = try AES.GCM.seal(value, using: own, authenticating: context("value", name))
            guard let combined = box.combined else { throw Failure.damaged }
            return try head(own, name, key) + combined
        } catch {
            throw .damaged
        }
    }

    /// Decrypts the value for its name.
    func open(name: String, with keys: SealingKeys) throws(Failure) -> [UInt8] {
        let own = try valueKey(name, keys)
        do {
            return try Array(
                AES.GCM.open(.init(combined: box), using: own, authenticating: Self.context("value", name))
            )
        } catch {
            throw .damaged
        }
    }

    /// Returns the value with its own key encrypted by another key; the value itself stays as it is.
    func rewrapped(name: String, keys: SealingKeys, for key: SealingKey) throws(Failure) -> [UInt8] {
        let own = try valueKey(name, keys)
        do {
            return try Self.head(own, name, key) + box
        } catch {
            throw .damaged
        }
    }

    private func valueKey(_ name: String, _ keys: SealingKeys) throws(Failure) -> SymmetricKey {
        guard let key = keys.key(keyID) else { throw .unknownKey(keyID) }
        do {
            return SymmetricKey(
                data: try AES.GCM.open(
                    .init(combined: wrapped),
                    using: key.key,
                    authenticating: Self.context("key", name)
                )
            )
        } catch {
            throw .damaged
        }
    }

    private static func head(_ own: SymmetricKey, _ name: String, _ key: SealingKey) throws -> [UInt8] {
        let bytes = own.withUnsafeBytes { Data($0) }
        guard let wrapped = try AES.GCM.seal(bytes, using: key.key, authenticating: context("key", name)).combined
        else { throw Failure.damaged }
        let id = stride(from: 0, to: key.id.utf8.count, by: 2).compactMap { position in
            UInt8(key.id.dropFirst(position).prefix(2), radix: 16)
        }
        return [version] + id + wrapped
    }

    private static func context(_ part: String, _ name: String) -> Data { Data("chapar \(part)\0\(name)".utf8) }
}
