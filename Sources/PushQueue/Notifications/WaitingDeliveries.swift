public import Foundation
public import PushComposition
public import PushCore

/// Which part of a backend's queue is looked at: deliveries that are due, in the order of the queue.
public struct WaitingLook: Sendable {
    /// The backend whose queue it is.
    public var backend: String
    /// Only what came due at this steady time or later; nil is everything that is due.
    public var since: Date?
    /// Goes on behind this place; nil begins.
    public var after: WaitingPlace?
    /// The most deliveries that are looked at.
    public var limit: Int

    /// Makes a look at everything that is due.
    public init(backend: String, since: Date? = nil, after: WaitingPlace? = nil, limit: Int = 1_000) {
        self.backend = backend
        self.since = since
        self.after = after
        self.limit = limit
    }
}

/// A place in a backend's queue, behind which a look goes on.
public struct WaitingPlace: Sendable, Hashable {
    /// The number of a part of the queue.
    public var flow: Int64
    /// The due time of the last delivery that was looked at, in milliseconds since 1970.
    public var due: Int64
    /// The number of this delivery.
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
    /// The place in the plan it has reached.
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

/// The result of a look.
public struct WaitingPage: Sendable {
    /// The deliveries that were wanted.
    ///
    /// They are not claimed: the ``ClaimedDelivery/lease`` of each is the number by which
    /// ``NotificationStore/settle(_:of:event:)`` checks that the delivery has not changed since.
    public var found: [ClaimedDelivery]
    /// Where the next look goes on; nil when this one came to the end of what is due.
    public var next: WaitingPlace?

    /// Makes a page.
    public init(found: [ClaimedDelivery] = [], next: WaitingPlace? = nil) {
        self.found = found
        self.next = next
    }
}

/// Which part of a queue that stands still is to be looked at next.
///
/// The first round looks at every delivery, and so does one at each interval; the rounds between them look only at
/// deliveries that have come due since. So a standing backlog costs little.
package struct WaitingRounds: Sendable {
    /// Deliveries that came due so long before a look are looked at again in the next one, since their commit may have
    /// come later.
    private static let overlap: TimeInterval = 2

    /// After so long everything is looked at again, in seconds.
    private let interval: TimeInterval
    /// When everything is to be looked at again.
    private var wholeAt = Date.distantPast
    /// Up to when everything that was due has been looked at.
    private var seen: Date?
    /// The round under way: since when, and up to when it will have looked at everything.
    private var round: (since: Date?, began: Date)?
    private var place: WaitingPlace?

    /// Makes rounds of which a whole one comes at this interval.
    package init(interval: Duration) { self.interval = interval.inSeconds }

    /// The next look.
    package mutating func look(at backend: String, limit: Int, now: Date) -> WaitingLook {
        if round == nil {
            let since = now >= wholeAt ? nil : seen.map { $0.addingTimeInterval(-Self.overlap) }
            if since == nil { wholeAt = now.addingTimeInterval(interval) }
            round = (since, now)
        }
        return WaitingLook(backend: backend, since: round?.since, after: place, limit: limit)
    }

    /// Notes where a look ended; true when the round is over.
    package mutating func end(at next: WaitingPlace?) -> Bool {
        place = next
        guard next == nil else { return false }
        seen = round?.began
        round = nil
        return true
    }

    /// Begins a whole round at this time at the latest, because deliveries that were left change then.
    package mutating func lookAgain(at time: Date) { wholeAt = min(wholeAt, time) }
}
