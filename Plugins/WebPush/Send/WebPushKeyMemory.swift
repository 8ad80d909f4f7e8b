internal import ChaparCore
internal import Synchronization

/// Which VAPID key a subscription was made with, where that is not the first one: learned from push services' answers.
///
/// In memory and bounded: after a restart each such subscription costs one more refusal. It keeps hashes, so no
/// endpoint stays here; two endpoints of one hash cost a refusal as well.
final class WebPushKeyMemory: Sendable {
    /// The most subscriptions that are remembered.
    static let capacity = 100_000

    private let keys = Mutex<[Int: Int]>([:])

    /// Returns the place of the key that a subscription took last; 0 where nothing is known.
    func key(for address: HTTPAddress) -> Int { keys.withLock { $0[address.hashValue] ?? 0 } }

    /// Records the key that a subscription took.
    func remember(_ key: Int, for address: HTTPAddress) {
        keys.withLock { keys in
            guard key != 0 else { return keys[address.hashValue] = nil }
            if keys.count >= Self.capacity, keys[address.hashValue] == nil { keys.remove(at: keys.startIndex) }
            keys[address.hashValue] = key
        }
    }
}
