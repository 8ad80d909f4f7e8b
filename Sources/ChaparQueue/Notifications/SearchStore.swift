package import ChaparComposition
public import ChaparCore

/// A store in which deliveries are searched for, newest first.
///
/// A search by key (``SearchKey``) and a search for deliveries that ended badly begin at an index. Any other search
/// reads deliveries one by one, the newest first, and stops after a number of them. In each search the caller decides
/// whether a delivery that was read is wanted.
public protocol SearchStore: StateStore {
    /// Returns the deliveries of a part of the store that are wanted, the highest numbers first.
    ///
    /// It finds deliveries wherever they are: waiting, claimed, ended and archived. It writes nothing, and memory does
    /// not grow with the number of deliveries that it reads. `isWanted` is called on any thread and must be quick.
    func search(
        _ look: SearchLook,
        where isWanted: @escaping @Sendable (FoundDelivery) -> Bool
    ) async throws(StoreError) -> SearchPage

    /// Returns the number of the first delivery from which on the indexes of keys and of bad ends are complete.
    ///
    /// Older ones were accepted or ended before the store had these indexes.
    func indexedFrom() async throws(StoreError) -> Int64

    /// Marks ended deliveries as handled, or no longer as handled, all in one commit.
    ///
    /// A delivery that is unknown or has not ended badly is left out. Marks are removed with their deliveries.
    func mark(_ marks: [DeadMark]) async throws(StoreError)
}

/// The part of a store that one call searches.
public struct SearchLook: Sendable {
    /// The deliveries among which it searches.
    public enum Source: Sendable, Hashable {
        /// Every delivery.
        case all
        /// Those with any of these keys, by the index.
        case keys([SearchKey])
        /// Those that ended as failed, expired or unknown, by the index.
        case dead
    }

    /// The deliveries among which it searches.
    public var source: Source
    /// The lowest number of a delivery: that of a notification, or a time's lowest one, and none within a notification.
    public var from: Int64
    /// The number below which deliveries are searched: the ``SearchPage/next`` of an earlier page.
    public var before: Int64
    /// The most deliveries to return.
    public var limit: Int
    /// About the most deliveries to read.
    public var rows: Int
    /// Whether at most one delivery of each notification is returned.
    public var onePerNotification: Bool

    /// Makes a look, by default at everything in a store.
    public init(
        _ source: Source = .all,
        from: Int64 = 0,
        before: Int64 = .max,
        limit: Int = 100,
        rows: Int = 100_000,
        onePerNotification: Bool = false
    ) {
        self.source = source
        self.from = from
        self.before = before
        self.limit = max(1, limit)
        self.rows = max(1, rows)
        self.onePerNotification = onePerNotification
    }
}

/// A delivery that a search found, with what it shares with others of its notification.
public struct FoundDelivery: Sendable {
    /// The delivery.
    public var delivery: StoredDelivery
    /// Its notification.
    public var notification: NotificationID
    /// The part of the notification that is stored as one value.
    public var record: NotificationRecord
    /// The sender: the API key's name, empty without one.
    public var caller: String
    /// The collapse id of the notification.
    public var collapseID: String?
    /// Whether a person has marked its bad end as handled.
    public var isAcknowledged = false
    /// Whether it was sent again.
    public var isResent = false

    /// Makes a delivery.
    public init(
        _ delivery: StoredDelivery,
        of notification: NotificationID,
        record: NotificationRecord,
        caller: String,
        collapseID: String? = nil
    ) {
        self.delivery = delivery
        self.notification = notification
        self.record = record
        self.caller = caller
        self.collapseID = collapseID
    }

    /// The delivery by its notification and its index there.
    public var place: DeliveryPlace {
        DeliveryPlace(notification: notification, index: Int(clamping: notification.place(of: delivery.id)))
    }

    /// The plan of the delivery: the notification's first plan with the backend that has the delivery, or had it last.
    ///
    /// It is only a guess, since no store keeps the index of the plan after the end.
    package var plan: DeliveryPlan {
        record.plans.first { $0.backends.contains(delivery.backend) } ?? record.plan(at: 0)
    }
}

/// The result of a search.
public struct SearchPage: Sendable {
    /// The deliveries that were wanted, the highest number first.
    public var found: [FoundDelivery]
    /// The number below which the next look continues; nil when this one reached its end.
    public var next: Int64?

    /// Makes a page.
    public init(found: [FoundDelivery] = [], next: Int64? = nil) {
        self.found = found
        self.next = next
    }
}

/// A change of the marks of a delivery that ended badly.
public struct DeadMark: Sendable, Hashable {
    /// The number of the delivery.
    public var delivery: Int64
    /// Whether a person has handled it; nil keeps the mark.
    public var isAcknowledged: Bool?
    /// Whether it was sent again; nil keeps the mark.
    public var isResent: Bool?

    /// Makes a change.
    public init(_ delivery: Int64, isAcknowledged: Bool? = nil, isResent: Bool? = nil) {
        self.delivery = delivery
        self.isAcknowledged = isAcknowledged
        self.isResent = isResent
    }
}

extension DeliveryState {
    /// Whether it is a bad end: failed, expired or unknown.
    package var isDead: Bool {
        switch self {
        case .failed, .expired, .unknown: true
        case .queued, .scheduled, .sending, .retrying, .acceptedByPlatform, .delivered, .opened, .cancelled: false
        }
    }

    /// The numbers of the states in which ``isDead`` is true, as a list of SQL.
    package static let deadCodes = allCases.filter(\.isDead).map { "\($0.code)" }.joined(separator: ", ")
}

/// The small value with the lowest number of a delivery that the indexes of a search have.
///
/// The step that adds the indexes writes it, unless the store is new; a copy takes it over.
package enum SearchStart {
    /// The name of the value.
    package static let name = "search.from"

    /// The stored form of a number.
    package static func stored(_ number: Int64) -> [UInt8] { Array("\(number)".utf8) }

    /// Returns the number; 0 without a value: the indexes have everything.
    package static func number(_ stored: [UInt8]?) -> Int64 {
        stored.flatMap { Int64(String(decoding: $0, as: UTF8.self)) } ?? 0
    }
}
