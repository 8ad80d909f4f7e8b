package import Foundation
package import ChaparDelivery
internal import ChaparCore
internal import Synchronization

/// The addresses from which a credential was used successfully lately: callers there can go on using it while a guesser
/// at the same address is refused.
///
/// Bounded, in memory only, and without a lock as long as uses come from one address.
package final class RecentPeers: Sendable {
    /// The time for which an address is kept after a use, in seconds: a day.
    static let span: TimeInterval = 86_400
    /// The most addresses; beyond it the half with the oldest uses is removed.
    static let capacity = 1_000
    /// The length of the time slots, in seconds: repeated uses from one address are recorded once in each.
    private static let step: TimeInterval = 600

    /// The last recorded use, as ``PeerAddress/stamp(_:)``.
    private let latest = Atomic<UInt64>(0)
    private let uses = Mutex<[PeerAddress: Date]>([:])

    /// Records a successful use; the time is steady.
    package func note(_ peer: PeerAddress, at now: Date) {
        let stamp = peer.stamp(Int64(clamping: now.timeIntervalSince1970 / Self.step))
        guard latest.load(ordering: .relaxed) != stamp else { return }
        uses.withLock { uses in
            if uses.count >= Self.capacity, uses[peer] == nil {
                let kept = uses.sorted { $0.value > $1.value }.prefix(Self.capacity / 2)
                uses = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
            }
            uses[peer] = now
        }
        latest.store(stamp, ordering: .relaxed)
    }

    /// Whether the credential was used successfully from an address lately.
    func contains(_ peer: PeerAddress, at now: Date) -> Bool {
        uses.withLock { $0[peer].map { now.timeIntervalSince($0) < Self.span } ?? false }
    }
}
