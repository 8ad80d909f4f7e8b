internal import Foundation
internal import PushCore
internal import Synchronization

/// One claimed batch on its way through a backend: which requests it became, and which deliveries are still open.
final class LaneBatch: Sendable {
    private let claims: [ClaimedDelivery]
    private let decode: @Sendable ([UInt8]) throws -> PushNotification
    private let instance: UInt64
    private let settle: @Sendable ([Resolution]) -> Void
    /// For each request, the claims of its recipients; and which claims have been reported.
    private let open = Mutex((rows: [[Int]](), isReported: [Bool]()))

    init(
        _ claims: [ClaimedDelivery],
        decode: @escaping @Sendable ([UInt8]) throws -> PushNotification,
        instance: UInt64,
        settle: @escaping @Sendable ([Resolution]) -> Void
    ) {
        self.claims = claims
        self.decode = decode
        self.instance = instance
        self.settle = settle
    }

    /// The requests to send: recipients of one notification side by side share one, so that its payload is encoded once.
    ///
    /// Claims that `hold` gives a resolution for are settled at once, as are those whose content cannot be read.
    func select(
        at now: Date,
        hold: (ClaimedDelivery, Date) -> Resolution?,
        mayRepeat: (ClaimedDelivery, PushNotification) -> Bool
    ) -> [PushRequest] {
        var requests: [PushRequest] = []
        requests.reserveCapacity(claims.count)
        var rows: [[Int]] = []
        var settled: [Resolution] = []
        var isReported = Array(repeating: false, count: claims.count)
        var last: NotificationID?
        for (index, claim) in claims.enumerated() {
            if let resolution = hold(claim, now) {
                settled.append(resolution)
                isReported[index] = true
                continue
            }
            if claim.notificationID == last, !claim.isRecovered {
                rows[rows.count - 1].append(index)
                requests[requests.count - 1].recipients.append(addressee(claim))
                continue
            }
            guard let notification = notification(of: claim) else {
                settled.append(Self.end(claim, .failed, "content_unreadable", at: now))
                isReported[index] = true
                continue
            }
            if claim.isRecovered, !mayRepeat(claim, notification) {
                settled.append(Self.end(claim, .unknown, "gateway_restarted", at: now))
                isReported[index] = true
                continue
            }
            last = claim.notificationID
            rows.append([index])
            requests.append(
                PushRequest(notification, to: [addressee(claim)], expiration: expiration(notification, claim))
            )
        }
        open.withLock { $0 = (rows, isReported) }
        if !settled.isEmpty { settle(settled) }
        return requests
    }

    /// The claims that reports speak of; a second report of the same delivery is left out.
    func take(_ reports: [DeliveryReport]) -> [(claim: ClaimedDelivery, outcome: DeliveryOutcome)] {
        open.withLock { open in
            reports.compactMap { report in
                let index = open.rows[report.request][report.recipient]
                guard !open.isReported[index] else { return nil }
                open.isReported[index] = true
                return (claims[index], report.outcome)
            }
        }
    }

    /// What the backend never reported, though it promised: unknown.
    func unreported() -> [(claim: ClaimedDelivery, outcome: DeliveryOutcome)] {
        open.withLock { open in
            claims.indices.filter { !open.isReported[$0] }.map { index in
                open.isReported[index] = true
                return (claims[index], .unknown(UnknownOutcome(reason: "not_reported")))
            }
        }
    }

    private static func end(_ claim: ClaimedDelivery, _ state: DeliveryState, _ reason: String, at now: Date)
        -> Resolution
    {
        let event = EventJSON.delivery(claim, state: state, at: now, reason: reason)
        return Resolution(
            delivery: claim.id,
            transition: .end(state),
            attempt: EventJSON.ending(reason, at: now),
            mayHaveBeenSent: state == .unknown,
            event: event
        )
    }

    private func notification(of claim: ClaimedDelivery) -> PushNotification? {
        switch claim.content {
        case .decoded(let notification): notification
        case .stored(let bytes): try? decode(bytes)
        }
    }

    private func addressee(_ claim: ClaimedDelivery) -> Addressee {
        // A version 8 UUID: the gateway's number and the delivery's, the same after a restart.
        let id = MessageID(high: instance & ~0xF000 | 0x8000, low: UInt64(bitPattern: claim.id) | 1 << 63)
        return Addressee(claim.recipient, messageID: id, isReplay: claim.isReplay)
    }

    private func expiration(_ notification: PushNotification, _ claim: ClaimedDelivery) -> PushRequest.Expiration? {
        guard let timeToLive = notification.timeToLive else { return nil }
        if timeToLive == .zero { return .immediately }
        return .at(Int64(claim.expiresAt.timeIntervalSince1970))
    }
}
