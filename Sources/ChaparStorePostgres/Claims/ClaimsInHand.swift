internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The deliveries that this node has claimed.
final class ClaimsInHand: Sendable {
    private struct Hand {
        var lease: Int64
        var hasCollapse: Bool
        /// Makes the event of its end, when it was cancelled on this node while it was claimed.
        var cancellation: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])?
    }

    private let hands = Mutex<[Int64: Hand]>([:])

    func add(_ claims: [DeliveryRow]) {
        hands.withLock { hands in
            for claim in claims { hands[claim.id] = Hand(lease: claim.lease, hasCollapse: claim.collapse != nil) }
        }
    }

    /// Adds deliveries that are claimed as they are accepted.
    func add(_ claims: [Claim]) {
        hands.withLock { hands in
            // A delivery that is already there has the same number: the server will refuse the new one, which must not
            // replace it meanwhile.
            for claim in claims where hands[claim.delivery.id] == nil {
                hands[claim.delivery.id] = Hand(lease: claim.delivery.lease, hasCollapse: claim.collapse != nil)
            }
        }
    }

    /// Forgets claims that no caller was given.
    func forget(_ claims: [DeliveryRow]) {
        hands.withLock { hands in
            for claim in claims where hands[claim.id]?.lease == claim.lease { hands[claim.id] = nil }
        }
    }

    /// Removes claims that were given back, or whose deliveries were not accepted.
    func remove(_ claims: [Claim]) {
        hands.withLock { hands in
            // Another delivery of this number, which was stored before, stays claimed.
            for claim in claims where hands[claim.delivery.id]?.lease == claim.delivery.lease {
                hands[claim.delivery.id] = nil
            }
        }
    }

    /// Returns those of some claims, as leases by delivery, that this node does not have.
    func lacking(_ claims: [Int64: Int64]) -> [Int64: Int64] {
        hands.withLock { hands in claims.filter { hands[$0.key]?.lease != $0.value } }
    }

    /// Whether resolutions only end claims of this node, and touch no other deliveries.
    func areSimple(_ resolutions: [Resolution]) -> Bool {
        hands.withLock { hands in
            resolutions.allSatisfy { resolution in
                guard case .end = resolution.transition, let hand = hands[resolution.delivery] else { return false }
                return !hand.hasCollapse && resolution.lease ?? hand.lease == hand.lease
            }
        }
    }

    /// Returns the lease of each resolution; 0 when this node has no claim on the delivery.
    func leases(of resolutions: [Resolution]) -> [Int64] {
        hands.withLock { hands in resolutions.map { $0.lease ?? hands[$0.delivery]?.lease ?? 0 } }
    }

    func noteCancellation(
        of delivery: Int64,
        _ event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) {
        hands.withLock { $0[delivery]?.cancellation = event }
    }

    func cancellation(of delivery: Int64) -> (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])? {
        hands.withLock { $0[delivery]?.cancellation }
    }

    /// Forgets claims that have ended.
    func remove(_ resolutions: [Resolution]) {
        hands.withLock { hands in
            for resolution in resolutions {
                guard let hand = hands[resolution.delivery], resolution.lease ?? hand.lease == hand.lease else {
                    continue
                }
                hands[resolution.delivery] = nil
            }
        }
    }
}
