internal import ChaparCore
internal import Synchronization

/// The VAPID keys of subscriptions that were not made with the first one, learned from push services' answers.
///
/// In memory and bounded: after a restart each such subscription costs one more refusal. It stores hashes instead of
/// endpoints; two endpoints with one hash cost a refusal as well.
final class WebPushKeyMemory: Sendable {
    /// The most subscriptions that are remembered.
    static let capacity = 100_000

    private let keys = Mutex<[Int: Int]>([:])

    /// Returns the index of the key that a subscription accepted last; 0 where none is known.
    func key(for address: HTTPAddress) -> Int { keys.withLock { $0[address.hashValue] ?? 0 } }

    /// Records the key that a subscription accepted.
    func remember(_ key: Int, for address: HTTPAddress) {
        keys.withLock { keys in
            guard key != 0 else { return keys[address.hashValue] = nil }
            if keys.count >= Self.capacity, keys[address.hashValue] == nil { keys.remove(at: keys.startIndex) }
            keys[address.hashValue] = key
        }
    }
}
