internal import Foundation
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// A claimed batch on its way through a backend: the requests that it became, and the deliveries that are still open.
///
/// Made by ``DeliveryWorker`` for each claim. It finds the delivery of each report of the backend, once for each; it
/// decides and writes nothing.
final class WorkerBatch: Sendable {
    /// Its number among the batches of its worker, see ``OpenBatches``.
    let number: Int
    /// The deliveries, in the order they were claimed.
    let claims: [ClaimedDelivery]
    /// Whether the claims go to the platform in one request.
    let isRequest: Bool
    private let decode: @Sendable ([UInt8]) throws -> PushNotification
    private let instance: UInt64
    /// The adder of the ids of receipts; nil where the app sends none.
    private let receipts: ReceiptMarks?
    let addresses: DeviceAddresses
    private let record: @Sendable ([Resolution]) -> Void
    /// The claims that became requests, and whether each has been reported.
    private struct Open {
        /// The claims of all recipients, one request after the other.
        var order: [Int] = []
        /// The index in ``order`` of the first recipient of each request.
        var starts: [Int] = []
        var isReported: [Bool] = []
        /// Whether each claim that became a request has high priority.
        var isUrgent: [Bool] = []
        /// The times, on the steady clock, that notifications were scheduled for; nearly always empty.
        var scheduled: [NotificationID: Date] = [:]
        var tokens: [Int64: DeviceToken] = [:]
        /// The token uses of notifications, where these are not the app's own tokens.
        var uses: [NotificationID: TokenUses] = [:]
        /// The deliveries after which their tokens are of no use.
        var last: Set<Int64> = []
        /// The time when the backend got the batch, on the steady clock.
        var sentAt = Date.distantPast
        /// The time of the backend's last report, or when it got the batch, on the steady clock.
        var lastReport = Date.distantPast

        /// Returns the claim that a report is about; nil for a report without a recipient, which is a plugin's mistake.
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
        receipts: ReceiptMarks? = nil,
        record: @escaping @Sendable ([Resolution]) -> Void
    ) {
        self.claims = claims
        self.number = number
        self.isRequest = isRequest
        self.decode = decode
        self.instance = instance
        self.receipts = receipts
        self.addresses = addresses
        self.record = record
    }

    /// Returns the requests to send: adjacent recipients of one notification share one request, so that its payload is
    /// encoded once.
    ///
    /// Claims are resolved without a request when `withhold` returns a resolution, when they go to a device without a
    /// token for the backend (`skip`), and when they cannot be read.
    func select(
        at now: TimeReading,
        withhold: (ClaimedDelivery, TimeReading) -> Resolution?,
        skip: (ClaimedDelivery, _ reason: String, TimeReading) -> Resolution
    ) -> [PushRequest] {
        var requests: [PushRequest] = []
        requests.reserveCapacity(claims.count)
        var open = Open()
        open.order.reserveCapacity(claims.count)
        open.starts.reserveCapacity(claims.count)
        open.isReported = Array(repeating: false, count: claims.count)
        open.isUrgent = open.isReported
        var isUrgent = false
        var resolved: [Resolution] = []
        var last: NotificationID?
        var read: (id: NotificationID, notification: PushNotification, uses: TokenUses)?
        func record(_ resolution: Resolution, _ index: Int) {
            resolved.append(resolution)
            open.isReported[index] = true
        }
        for (index, claim) in claims.enumerated() {
            if let resolution = withhold(claim, now) {
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
                open.isUrgent[index] = isUrgent
                requests[requests.count - 1].recipients.append(addressee)
                continue
            }
            let known = read?.id == claim.notificationID ? read?.notification : nil
            guard let notification = known ?? claim.notification(decode) else {
                record(Self.unreadable(claim, at: now.wall), index)
                continue
            }
            last = claim.notificationID
            isUrgent = notification.priority == .high && claim.head.record.partOf == nil
            open.isUrgent[index] = isUrgent
            if let sendAt = notification.sendAt { open.scheduled[claim.notificationID] = now.steady(sendAt) }
            open.starts.append(open.order.count)
            open.order.append(index)
            requests.append(
                PushRequest(notification, to: [addressee], expiration: expiration(notification, claim, at: now))
            )
        }
        if let receipts { requests = receipts.mark(requests, of: open.order.map { claims[$0] }, starts: &open.starts) }
        self.open.withLock { [open] in $0 = open }
        if !resolved.isEmpty { self.record(resolved) }
        return requests
    }

    /// The outcome of the claim at an index of ``claims``.
    typealias Outcome = (index: Int, outcome: DeliveryOutcome)

    /// The time of the backend's last report, or when it got the batch, on the steady clock.
    var lastReport: Date { open.withLock { $0.lastReport } }

    /// Records the time when the backend gets the batch.
    func handOver(at now: Date) { open.withLock { ($0.sentAt, $0.lastReport) = (now, now) } }

    /// Records how long the claims waited that are handed over to a backend for the first time.
    func observeWaits(in times: DeliveryTimes, at now: Date) {
        let (order, isUrgent, scheduled) = open.withLock { ($0.order, $0.isUrgent, $0.scheduled) }
        times.observe(.waited, order.filter { claims[$0].attempts == 0 }, isUrgent: isUrgent) {
            age(of: claims[$0], scheduled, at: now)
        }
    }

    /// Records the time from acceptance to the answers that ended claims.
    func observeAnswers(_ indices: [Int], in times: DeliveryTimes, at now: Date) {
        guard !indices.isEmpty else { return }
        let (isUrgent, scheduled) = open.withLock { ($0.isUrgent, $0.scheduled) }
        times.observe(.answered, indices, isUrgent: isUrgent) { age(of: claims[$0], scheduled, at: now) }
    }

    /// The time when the backend got the batch, on the steady clock.
    var sentAt: Date { open.withLock { $0.sentAt } }

    /// Returns the time from which on a claim could first be sent, on the steady clock.
    func begin(of claim: ClaimedDelivery) -> Date {
        let scheduled = open.withLock { $0.scheduled[claim.notificationID] }
        return scheduled.map { max(claim.acceptedAt, $0) } ?? claim.acceptedAt
    }

    /// Returns the seconds since a claim could first be sent, at least 0.
    private func age(of claim: ClaimedDelivery, _ scheduled: [NotificationID: Date], at now: Date) -> Double {
        var begin = claim.acceptedAt
        if !scheduled.isEmpty, let time = scheduled[claim.notificationID] { begin = max(begin, time) }
        return max(0, now.timeIntervalSince(begin))
    }

    /// Returns a delivery of the batch in the gate's form.
    func message(_ claim: ClaimedDelivery) -> FlowGate.State.Message {
        FlowGate.State.Message(delivery: claim.id, sentAt: open.withLock { $0.sentAt })
    }

    /// Returns the claims that reports are about; a second report of the same delivery is dropped.
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

    /// Marks the claims without a report as reported, and returns them as unknown for a reason.
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

    /// Returns the token that a delivery went to; nil when it went to no token.
    func token(of claim: ClaimedDelivery) -> DeviceToken? {
        if case .token(let token) = claim.recipient { return token }
        return open.withLock { $0.tokens[claim.id] }
    }

    /// Returns the service of the token that was found for a device; nil for every other recipient.
    func service(of claim: ClaimedDelivery) -> TokenService? {
        guard claim.recipient.isDevice else { return nil }
        return open.withLock { $0.tokens[claim.id]?.service }
    }

    /// Returns which tokens the notification of a delivery goes to.
    func uses(of claim: ClaimedDelivery) -> TokenUses {
        open.withLock { $0.uses[claim.notificationID] ?? .ordinary }
    }

    /// Returns the kind of token that a delivery's message was for; `use` is the backend's answer.
    ///
    /// For a device the registry has found a token of that kind; a token that the caller named may be of another kind.
    func tokenKind(
        of claim: ClaimedDelivery,
        at backend: String,
        use: (PushNotification) -> TokenUse?
    ) -> TokenKind {
        guard case .token = claim.recipient else { return uses(of: claim)[backend]?.kind ?? .device }
        guard let notification = claim.notification(decode) else { return .device }
        // Only a Live Activity is for no token of a device; the sender has not said which activity it is for.
        return use(notification)?.kind ?? .liveActivityUpdate(activity: "")
    }

    /// Whether some deliveries of the batch end the use of their tokens.
    var hasLast: Bool { open.withLock { !$0.last.isEmpty } }

    /// Returns the token that is of no use once the platform has accepted the delivery; nil for nearly every delivery.
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
