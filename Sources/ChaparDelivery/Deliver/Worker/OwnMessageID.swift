internal import Foundation
package import ChaparCore
package import ChaparQueue

extension MessageID {
    /// Makes the id of a gateway's delivery, the same after a restart: a UUID of version 8 with the gateway's number
    /// and the delivery's.
    init(instance: UInt64, delivery: Int64) {
        self.init(high: instance & ~0xF000 | 0x8000, low: UInt64(bitPattern: delivery) | 1 << 63)
    }

    /// Returns the delivery for which ``init(instance:delivery:)`` made the id.
    ///
    /// Nil for an id that this gateway did not make, and for a number that no delivery has: an app knows the first half
    /// of the id and may add any second half.
    package func delivery(instance: UInt64) -> Int64? {
        let number = Int64(bitPattern: low & ~(1 << 63))
        guard number <= NotificationID.highest else { return nil }
        return self == MessageID(instance: instance, delivery: number) ? number : nil
    }

    /// Reads an id in the form of a UUID.
    package init?(_ text: String) {
        guard let id = UUID(uuidString: text)?.uuid else { return nil }
        let bytes = [
            id.0, id.1, id.2, id.3, id.4, id.5, id.6, id.7, id.8, id.9, id.10, id.11, id.12, id.13, id.14, id.15,
        ]
        let half = { (part: ArraySlice<UInt8>) in part.reduce(0) { $0 << 8 | UInt64(truncatingIfNeeded: $1) } }
        self.init(high: half(bytes[..<8]), low: half(bytes[8...]))
    }
}

extension NotificationStore {
    /// Reads the number that marks the message ids of all gateways on this store; nil before one of them has started.
    package func instance() async throws(StoreError) -> UInt64? {
        try await loadState(Self.instanceKey).flatMap(Self.instance)
    }

    /// Returns the gateway's number, and makes it if there is none.
    ///
    /// A message must have the same id whichever gateway delivers it.
    func makeInstance() async throws(StoreError) -> UInt64 {
        let stored = try await loadState(Self.instanceKey, where: { Self.instance($0) != nil }) {
            Array(String(UInt64.random(in: 1 ... .max)).utf8)
        }
        guard let number = Self.instance(stored) else { throw .failed("\(Self.instanceKey) is no number") }
        return number
    }

    private static func instance(_ stored: [UInt8]) -> UInt64? { UInt64(String(decoding: stored, as: UTF8.self)) }

    private static var instanceKey: String { "gateway.instance" }
}
