internal import Crypto
internal import Foundation
internal import ChaparCore

/// A hash that is logged in the place of a name: within one store a name always has the same hash.
///
/// HMAC-SHA-256 with a random key that the store creates once and keeps. With the store and a list of names one can
/// find the name of a hash; with the log alone one cannot.
struct KeyedHash: Sendable {
    private static let name = "audit.hash-key"
    private let key: SymmetricKey

    /// Reads the store's key, or creates it.
    ///
    /// - Parameter state: The store that keeps it.
    /// - Throws: When the store fails.
    init(_ state: any StateStore) async throws(StoreError) {
        let kept = try await state.loadState(Self.name, where: { $0.count == 32 }) {
            SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
        }
        key = SymmetricKey(data: kept)
    }

    /// Returns the hash of a name, 64 hexadecimal digits.
    ///
    /// - Parameters:
    ///   - kind: The kind of name, such as `user`: equal names of different kinds have different hashes.
    ///   - value: The name.
    /// - Returns: The digits.
    func callAsFunction(_ kind: String, _ value: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Data("\(kind)\0\(value)".utf8), using: key)
        return code.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
