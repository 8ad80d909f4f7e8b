public import PushCore

/// By what a platform's later receipt finds its delivery.
public struct ReceiptAddress: Sendable, Hashable {
    /// The backend that sent it, by its name in the configuration.
    public var backend: String
    /// The platform's id of the message; several recipients of one request may share it.
    public var platformID: String
    /// The device token it went to; nil where the platform's id says it all.
    public var token: String?

    /// The number of the delivery, when the caller knows it; then nothing else decides, but for the backend unless
    /// empty.
    public var delivery: Int64?

    /// Makes the address of a delivery whose number is known.
    public init(delivery: Int64, backend: String = "") {
        self.init(backend: backend, platformID: "", token: nil)
        self.delivery = delivery
    }

    /// Makes an address.
    public init(backend: String, platformID: String, token: String?) {
        self.backend = backend
        self.platformID = platformID
        self.token = token
    }
}

/// What a receipt says about a delivery, as a store records it.
public struct ReceiptEntry: Sendable {
    /// Which delivery it is about.
    public var address: ReceiptAddress
    /// Where the delivery stands now: `delivered`, `opened` or `failed`; nil for news that decides nothing.
    public var state: DeliveryState?
    /// The entry for the delivery's attempt log, one JSON object, the same when the receipt comes again.
    public var logEntry: [UInt8]
    /// Whether it may be about this delivery, by its recipient and its sender.
    ///
    /// The store asks within its own work, so that it must not wait.
    public var isFor: @Sendable (ReceivedDelivery) -> Bool
    /// Makes its event.
    public var event: @Sendable (ReceivedDelivery) -> [UInt8]

    /// Makes an entry.
    public init(
        _ address: ReceiptAddress,
        state: DeliveryState?,
        logEntry: [UInt8],
        isFor: @escaping @Sendable (ReceivedDelivery) -> Bool = { _ in true },
        event: @escaping @Sendable (ReceivedDelivery) -> [UInt8]
    ) {
        self.address = address
        self.state = state
        self.logEntry = logEntry
        self.isFor = isFor
        self.event = event
    }
}

/// The delivery that a receipt was about.
public struct ReceivedDelivery: Sendable, Hashable {
    /// Its number.
    public var id: Int64
    /// Its notification.
    public var notificationID: NotificationID
    /// Who got it.
    public var recipient: Recipient
    /// Who sent it: the API key's name, empty without one.
    public var caller: String
    /// Where it stands after the receipt.
    public var state: DeliveryState

    /// Makes a value.
    public init(
        id: Int64,
        notificationID: NotificationID,
        recipient: Recipient,
        caller: String = "",
        state: DeliveryState
    ) {
        self.id = id
        self.notificationID = notificationID
        self.recipient = recipient
        self.caller = caller
        self.state = state
    }
}

/// What a store did with a receipt.
public enum ReceiptResult: Sendable, Hashable {
    /// No delivery waits for it: it is another system's, or was purged, or its acceptance is not written yet.
    case unknown
    /// It was here before, or came after news that outranks it; nothing changed.
    case repeated(ReceivedDelivery)
    /// It is in the delivery's attempt log now, with its state.
    case recorded(ReceivedDelivery)
}
