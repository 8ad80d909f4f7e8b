internal import Crypto
internal import Foundation
internal import HTTPTypes
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The `Idempotency-Key` of a request: a repeated key gets the first answer and sends nothing.
///
/// ``AcceptingAPI`` makes it from the head. The store keeps it with the hash of the request and the answer; the same
/// key with another request is refused.
package struct IdempotencyKey: Sendable, Hashable {
    /// The longest key.
    static let maximumCharacters = 255

    /// The key, as the caller chose it.
    let value: String
    /// The bytes that a repetition repeats, where they are not the body that was accepted.
    var request: [UInt8]?

    /// Reads the field, which may occur once; nil without one.
    ///
    /// The IETF draft puts the key in quotes, most clients do not. Both forms give the same key.
    package init?(_ values: [String]) throws(Problem) {
        guard let field = values.first else { return nil }
        var key = field[...]
        if key.count >= 2, key.first == "\"", key.last == "\"" { key = key.dropFirst().dropLast() }
        guard values.count == 1, (1...Self.maximumCharacters).contains(key.utf8.count),
            key.utf8.allSatisfy({ (0x20...0x7E).contains($0) })
        else {
            throw .keyInvalid(longest: Self.maximumCharacters)
        }
        value = String(key)
    }

    /// Makes the store's entry: the key, the hash of the request, and the answer to a repetition.
    func entry(caller: String, path: String, body: [UInt8], answer: [UInt8], keepUntil: Date)
        -> IdempotencyEntry
    {
        var hash = SHA256()
        hash.update(data: Array(path.utf8))
        hash.update(data: [UInt8(ascii: "\n")])
        hash.update(data: request ?? body)
        return IdempotencyEntry(
            caller: caller,
            key: value,
            fingerprint: Array(hash.finalize()),
            answer: answer,
            keepUntil: keepUntil
        )
    }
}
