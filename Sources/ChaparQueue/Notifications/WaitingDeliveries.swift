public import Foundation
public import ChaparComposition
public import ChaparCore

/// The part of a backend's queue that a scan covers: due deliveries, in the order of the queue.
public struct WaitingLook: Sendable {
    /// The backend of the queue.
    public var backend: String
    /// The steady time from which deliveries must have come due; nil for all due ones.
    public var since: Date?
    /// The place to continue behind; nil begins.
    public var after: WaitingPlace?
    /// The most deliveries in the scan.
    public var limit: Int

    /// Makes a scan, by default of everything that is due.
    public init(backend: String, since: Date? = nil, after: WaitingPlace? = nil, limit: Int = 1_000) {
        self.backend = backend
        self.since = since
        self.after = after
        self.limit = limit
    }
}

/// A place in a backend's queue, behind which a scan continues.
public struct WaitingPlace: Sendable, Hashable {
    /// The number of a flow of the queue.
    public var flow: Int64
    /// The due time of the last scanned delivery, in milliseconds since 1970.
    public var due: Int64
    /// The number of that delivery.
    public var id: Int64

    /// Makes a place.
    public init(flow: Int64, due: Int64, id: Int64) {
        (self.flow, self.due, self.id) = (flow, due, id)
    }
}

/// A waiting delivery before its content is read.
public struct WaitingDelivery: Sendable {
    /// Its number.
    public var id: Int64
    /// Its recipient.
    public var recipient: Recipient
    /// The backends that it goes through.
    public var plan: DeliveryPlan
    /// The current step of the plan.
    public var step: Int
    /// Whether an attempt may have been delivered.
    public var isReplay: Bool
    /// Whether the process of the last owner died while it held the claim.
    public var isRecovered: Bool
    /// Whether it was cancelled under the claim of an owner whose process died.
    public var isCancelled: Bool

    /// Makes a description.
    public init(
        id: Int64,
        recipient: Recipient,
        plan: DeliveryPlan,
        step: Int,
        isReplay: Bool,
        isRecovered: Bool,
        isCancelled: Bool
    ) {
        self.id = id
        self.recipient = recipient
        self.plan = plan
        self.step = step
        self.isReplay = isReplay
        self.isRecovered = isRecovered
        self.isCancelled = isCancelled
    }
}

/// The result of a scan.
public struct WaitingPage: Sendable {
    /// The deliveries that were wanted.
    ///
    /// They are not claimed: the ``ClaimedDelivery/lease`` of each is the number by which
    /// ``NotificationStore/settle(_:of:event:)`` checks that the delivery has not changed since.
    public var found: [ClaimedDelivery]
    /// The place where the next scan continues; nil when this one reached the end of what is due.
    public var next: WaitingPlace?

    /// Makes a page.
    public init(found: [ClaimedDelivery] = [], next: WaitingPlace? = nil) {
        self.found = found
        self.next = next
    }
}

/// The part of a stalled queue that is scanned next.
///
/// The first round, and one round in each interval, scans every delivery; the rounds between them scan only deliveries
/// that have come due since. So a backlog that does not move costs little.
package struct WaitingRounds: Sendable {
    /// The span before a scan, in seconds, whose due deliveries are scanned again in the next one, since their commit
    /// may have come later.
    private static let overlap: TimeInterval = 2

    /// The time after which everything is scanned again, in seconds.
    private let interval: TimeInterval
    /// The time from which the next round scans everything.
    private var wholeAt = Date.distantPast
    /// The time up to which every due delivery has been scanned.
    private var seen: Date?
    /// The current round: from when it covers due times, and when it began.
    private var round: (since: Date?, began: Date)?
    private var place: WaitingPlace?

    /// Makes rounds, of which one in each interval scans everything.
    package init(interval: Duration) { self.interval = interval.inSeconds }

    /// Returns the next scan.
    package mutating func look(at backend: String, limit: Int, now: Date) -> WaitingLook {
        if round == nil {
            let since = now >= wholeAt ? nil : seen.map { $0.addingTimeInterval(-Self.overlap) }
            if since == nil { wholeAt = now.addingTimeInterval(interval) }
            round = (since, now)
        }
        return WaitingLook(backend: backend, since: round?.since, after: place, limit: limit)
    }

    /// Records where a scan ended; returns true when the round is over.
    package mutating func end(at next: WaitingPlace?) -> Bool {
        place = next
        guard next == nil else { return false }
        seen = round?.began
        round = nil
        return true
    }

    /// Makes the next whole round begin at this time at the latest, since deliveries that were left alone change then.
    package mutating func lookAgain(at time: Date) { wholeAt = min(wholeAt, time) }
}
