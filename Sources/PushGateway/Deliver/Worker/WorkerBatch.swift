internal import Foundation
internal import PushCore
internal import PushQueue
internal import Synchronization

/// One claimed batch on its way through a backend: which requests it became, and which deliveries are still open.
///
/// Made by ``DeliveryWorker`` for each claim. It matches the backend's reports to deliveries, each once; it decides
/// nothing and writes nothing.
final class WorkerBatch: Sendable {
    /// Its number among the batches of its worker, see ``OpenBatches``.
    let number: Int
    /// The deliveries, in the order they were claimed.
    let claims: [ClaimedDelivery]
    /// Whether they go to the platform in one request.
    let isRequest: Bool
    private let decode: @Sendable ([UInt8]) throws -> PushNotification
    private let instance: UInt64
    let addresses: DeviceAddresses
    private let record: @Sendable ([Resolution]) -> Void
    /// Which claims became requests, and which of them have been reported.
    private struct Open {
        /// The claims of all recipients, one request after the other.
        var order: [Int] = []
        /// Where the recipients of each request begin in ``order``.
        var starts: [Int] = []
        var isReported: [Bool] = []
        var tokens: [Int64: DeviceToken] = [:]
        /// Which tokens the notifications go to, where these are not the app's own.
        var uses: [NotificationID: TokenUses] = [:]
        /// The deliveries after which their tokens are of no use.
        var last: Set<Int64> = []
        /// When the backend got the batch, by the steady clock.
        var sentAt = Date.distantPast
        /// When the backend got the batch or reported last, by the steady clock.
        var lastReport = Date.distantPast

        /// The claim that a report speaks of; nil for a report of nobody, which is a plugin's mistake.
        func claim(_ report: DeliveryReport) -> Int? {
            guard starts.indices.contains(report.request) else { return nil }
            let index = starts[report.request] + report.recipient
            let end = report.request + 1 < starts.count ? starts[report.request + 1] : order.count
            return (starts[report.request]..<end).contains(index) ? order[index] : nil
        }
    }

    private let open = Mutex(Open())

    init(
        _ claims: [ClaimedDelivery],
        number: Int,
        isRequest: Bool = false,
        addresses: DeviceAddresses = .none,
        decode: @escaping @Sendable ([UInt8]) throws -> PushNotification,
        instance: UInt64,
        record: @escaping @Sendable ([Resolution]) -> Void
    ) {
        self.claims = claims
        self.number = number
        self.isRequest = isRequest
        self.decode = decode
        self.instance = instance
        self.addresses = addresses
        self.record = record
    }

    /// The requests to send: recipients of one notification side by side share one, so that its payload is encoded
    /// once.
    ///
    /// Settled at once is what `hold` gives a resolution for, what goes to a device without a token for the backend
    /// (`skip`), and what cannot be read.
    func select(
        at now: TimeReading,
        hold: (ClaimedDelivery, TimeReading) -> Resolution?,
        skip: (ClaimedDelivery, _ reason: String, TimeReading) -> Resolution
    ) -> [PushRequest] {
        var requests: [PushRequest] = []
        requests.reserveCapacity(claims.count)
        var open = Open()
        open.order.reserveCapacity(claims.count)
        open.starts.reserveCapacity(claims.count)
        open.isReported = Array(repeating: false, count: claims.count)
        var resolved: [Resolution] = []
        var last: NotificationID?
        var read: (id: NotificationID, notification: PushNotification, uses: TokenUses)?
        func record(_ resolution: Resolution, _ index: Int) {
            resolved.append(resolution)
            open.isReported[index] = true
        }
        for (index, claim) in claims.enumerated() {
            if let resolution = hold(claim, now) {
                record(resolution, index)
                continue
            }
            if addresses.mustFind(claim), read?.id != claim.notificationID {
                guard let notification = claim.notification(decode) else {
                    record(Self.unreadable(claim, at: now.wall), index)
                    continue
                }
                let uses = addresses.uses(of: notification)
                read = (claim.notificationID, notification, uses)
                if !uses.isOrdinary { open.uses[claim.notificationID] = uses }
            }
            let uses = read?.id == claim.notificationID ? read?.uses ?? .ordinary : .ordinary
            var addressee = addressee(claim)
            switch addresses.address(of: claim, uses) {
            case .asItIs: break
            case .token(let token, let device):
                addressee.recipient = .token(token)
                addressee.language = device.locale
                addressee.lastSeen = device.lastSeen(with: token)
                open.tokens[claim.id] = token
                if uses[addresses.backend]?.isLast == true { open.last.insert(claim.id) }
            case .elsewhere(let reason):
                record(skip(claim, reason, now), index)
                continue
            }
            if claim.notificationID == last {
                open.order.append(index)
                requests[requests.count - 1].recipients.append(addressee)
                continue
            }
            let known = read?.id == claim.notificationID ? read?.notification : nil
            guard let notification = known ?? claim.notification(decode) else {
                record(Self.unreadable(claim, at: now.wall), index)
                continue
            }
            last = claim.notificationID
            open.starts.append(open.order.count)
            open.order.append(index)
            requests.append(
                PushRequest(notification, to: [addressee], expiration: expiration(notification, claim, at: now))
            )
        }
        self.open.withLock { [open] in $0 = open }
        if !resolved.isEmpty { self.record(resolved) }
        return requests
    }

    /// What became of the claim at a place in ``claims``.
    typealias Outcome = (index: Int, outcome: DeliveryOutcome)

    /// When the backend got the batch or reported last, by the steady clock.
    var lastReport: Date { open.withLock { $0.lastReport } }

    /// The backend gets the batch now.
    func handOver(at now: Date) { open.withLock { ($0.sentAt, $0.lastReport) = (now, now) } }

    /// A delivery of the batch as the gate knows it.
    func message(_ claim: ClaimedDelivery) -> FlowGate.State.Message {
        FlowGate.State.Message(delivery: claim.id, sentAt: open.withLock { $0.sentAt })
    }

    /// The claims that reports speak of; a second report of the same delivery is left out.
    func match(_ reports: [DeliveryReport], at now: Date) -> [Outcome] {
        open.withLock { open in
            open.lastReport = now
            var matched: [Outcome] = []
            matched.reserveCapacity(reports.count)
            for report in reports {
                guard let index = open.claim(report), !open.isReported[index] else { continue }
                open.isReported[index] = true
                matched.append((index, report.outcome))
            }
            return matched
        }
    }

    /// What the backend has not reported: unknown from now on, for a reason.
    func unreported(reason: String, isRepeatHarmful: (PushNotification) -> Bool) -> [Outcome] {
        let indices = open.withLock { open in
            let indices = claims.indices.filter { !open.isReported[$0] }
            for index in indices { open.isReported[index] = true }
            return indices
        }
        return indices.map { index in
            let isHarmful = claims[index].notification(decode).map(isRepeatHarmful) ?? true
            return (index, .unknown(UnknownOutcome(reason: reason, isRepeatHarmful: isHarmful)))
        }
    }

    /// The token that a delivery went to; nil when it went to no token.
    func token(of claim: ClaimedDelivery) -> DeviceToken? {
        if case .token(let token) = claim.recipient { return token }
        return open.withLock { $0.tokens[claim.id] }
    }

    /// The service of the token that was found for a device; nil for every other recipient.
    func service(of claim: ClaimedDelivery) -> TokenService? {
        guard claim.recipient.isDevice else { return nil }
        return open.withLock { $0.tokens[claim.id]?.service }
    }

    /// Which tokens the notification of a delivery goes to.
    func uses(of claim: ClaimedDelivery) -> TokenUses {
        open.withLock { $0.uses[claim.notificationID] ?? .ordinary }
    }

    /// For which kind of tokens a delivery's message was, `use` being what the backend says of it.
    ///
    /// The registry has found a token of that kind for a device; a token that the caller named may be of another one.
    func tokenKind(
        of claim: ClaimedDelivery,
        at backend: String,
        use: (PushNotification) -> TokenUse?
    ) -> TokenKind {
        guard case .token = claim.recipient else { return uses(of: claim)[backend]?.kind ?? .device }
        guard let notification = claim.notification(decode) else { return .device }
        // Only a Live Activity is for no token of a device: which one it is for, its sender has not said.
        return use(notification)?.kind ?? .liveActivityUpdate(activity: "")
    }

    /// Whether deliveries of the batch end what their tokens are for.
    var hasLast: Bool { open.withLock { !$0.last.isEmpty } }

    /// The token that is of no use once the platform has taken the delivery; nil for nearly every delivery.
    func endedToken(of claim: ClaimedDelivery) -> DeviceToken? {
        open.withLock { $0.last.contains(claim.id) ? $0.tokens[claim.id] : nil }
    }

    private static func unreadable(_ claim: ClaimedDelivery, at now: Date) -> Resolution {
        Resolution(
            of: claim,
            .end(.failed),
            attempt: EventJSON.ending("content_unreadable", at: now),
            event: EventJSON.delivery(claim, state: .failed, at: now, reason: "content_unreadable")
        )
    }

    private func addressee(_ claim: ClaimedDelivery) -> Addressee {
        let id = MessageID(instance: instance, delivery: claim.id)
        return Addressee(addresses.app.named(claim.recipient), messageID: id, isReplay: claim.isReplay)
    }

    private func expiration(_ notification: PushNotification, _ claim: ClaimedDelivery, at now: TimeReading)
        -> PushRequest
        .Expiration?
    {
        guard let timeToLive = notification.timeToLive else { return nil }
        if timeToLive == .zero { return .immediately }
        return .at(Int64(clamping: now.wall(claim.expiresAt).timeIntervalSince1970))
    }
}
