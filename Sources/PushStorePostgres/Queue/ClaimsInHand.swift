internal import PushCore
internal import PushQueue
internal import Synchronization

/// The deliveries that this node has claimed.
final class ClaimsInHand: Sendable {
    private struct Hand {
        var lease: Int64
        var hasCollapse: Bool
        /// Makes the event of its end, when it was cancelled here while it was claimed.
        var cancellation: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])?
    }

    private let hands = Mutex<[Int64: Hand]>([:])

    func add(_ claims: [DeliveryRow]) {
        hands.withLock { hands in
            for claim in claims { hands[claim.id] = Hand(lease: claim.lease, hasCollapse: claim.collapse != nil) }
        }
    }

    /// Adds deliveries that are given out as they are accepted.
    func add(_ claims: [Claim]) {
        hands.withLock { hands in
            // One that is there has this number already: the server refuses the new one, which must not take its place
            // meanwhile.
            for claim in claims where hands[claim.delivery.id] == nil {
                hands[claim.delivery.id] = Hand(lease: claim.delivery.lease, hasCollapse: claim.collapse != nil)
            }
        }
    }

    /// Forgets claims that were given to nobody.
    func forget(_ claims: [DeliveryRow]) {
        hands.withLock { hands in
            for claim in claims where hands[claim.id]?.lease == claim.lease { hands[claim.id] = nil }
        }
    }

    /// Takes back what was added and not accepted.
    func remove(_ claims: [Claim]) {
        hands.withLock { hands in
            // Another delivery of this number, which was stored before, stays claimed.
            for claim in claims where hands[claim.delivery.id]?.lease == claim.delivery.lease {
                hands[claim.delivery.id] = nil
            }
        }
    }

    /// Those of some claims, as leases by delivery, that this node knows nothing of.
    func lacking(_ claims: [Int64: Int64]) -> [Int64: Int64] {
        hands.withLock { hands in claims.filter { hands[$0.key]?.lease != $0.value } }
    }

    /// Whether a resolution only ends a claim of this node, and touches no other delivery.
    func areSimple(_ resolutions: [Resolution]) -> Bool {
        hands.withLock { hands in
            resolutions.allSatisfy { resolution in
                guard case .end = resolution.transition, let hand = hands[resolution.delivery] else { return false }
                return !hand.hasCollapse && resolution.lease ?? hand.lease == hand.lease
            }
        }
    }

    /// The lease that a resolution is under; 0 when this node has no claim on the delivery.
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
