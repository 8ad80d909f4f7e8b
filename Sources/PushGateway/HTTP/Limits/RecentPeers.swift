internal import Foundation
internal import PushCore
internal import Synchronization

/// The addresses from which a credential was good lately: callers there go on using it while a guesser at the same
/// address is refused.
///
/// Bounded, and noted without a lock as long as uses come from one address. In memory only.
final class RecentPeers: Sendable {
    /// The time for which an address is kept after a use: longer than a day, so that a nightly job goes on.
    static let span: TimeInterval = 86_400
    /// The most addresses; beyond it the half with the oldest uses is removed.
    static let capacity = 1_000
    /// A use is noted so often at most.
    private static let step: TimeInterval = 600

    /// The last use that was noted, as ``PeerAddress/stamp(_:)``.
    private let latest = Atomic<UInt64>(0)
    private let uses = Mutex<[PeerAddress: Date]>([:])

    /// Notes that the credential was good; the time is steady.
    func note(_ peer: PeerAddress, at now: Date) {
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

    /// Whether the credential was good from an address lately.
    func contains(_ peer: PeerAddress, at now: Date) -> Bool {
        uses.withLock { $0[peer].map { now.timeIntervalSince($0) < Self.span } ?? false }
    }
}
