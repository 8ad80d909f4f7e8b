public import ChaparCore

/// The address by which a platform's later receipt finds its delivery.
public struct ReceiptAddress: Sendable, Hashable {
    /// The backend that sent it, by its name in the configuration.
    public var backend: String
    /// The platform's id of the message; several recipients of one request may share it.
    public var platformID: String
    /// The device token it went to; nil where the platform's id is enough.
    public var token: String?

    /// The number of the delivery, when the caller knows it; only the backend, unless empty, must then match as well.
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

/// A receipt of a delivery, as a store records it.
public struct ReceiptEntry: Sendable {
    /// The address of the delivery.
    public var address: ReceiptAddress
    /// The new state of the delivery: `delivered`, `opened` or `failed`; nil for a report that decides nothing.
    public var state: DeliveryState?
    /// The entry for the delivery's attempt log, one JSON object, the same when the receipt is repeated.
    public var logEntry: [UInt8]
    /// Whether the receipt may be about this delivery, judged by the delivery's recipient and sender.
    ///
    /// The store calls it within its own work, so it must not wait.
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

/// The delivery of a receipt.
public struct ReceivedDelivery: Sendable, Hashable {
    /// Its number.
    public var id: Int64
    /// Its notification.
    public var notificationID: NotificationID
    /// The recipient.
    public var recipient: Recipient
    /// The sender: the API key's name, empty without one.
    public var caller: String
    /// The state after the receipt.
    public var state: DeliveryState
    /// The part of its notification that is stored as one value; nil when it cannot be read.
    public var record: NotificationRecord?
    /// The backend that has it; empty when the store does not tell.
    public var backend: String

    /// Makes a value.
    public init(
        id: Int64,
        notificationID: NotificationID,
        recipient: Recipient,
        caller: String = "",
        state: DeliveryState,
        record: NotificationRecord? = nil,
        backend: String = ""
    ) {
        self.backend = backend
        self.id = id
        self.notificationID = notificationID
        self.recipient = recipient
        self.caller = caller
        self.state = state
        self.record = record
    }
}

/// The result of recording a receipt.
public enum ReceiptResult: Sendable, Hashable {
    /// No delivery has this address: it belongs to another system, or was purged.
    case unknown
    /// The receipt is too early: a platform may have the delivery and its answer is not written yet, or another backend
    /// takes over now. Nothing was changed: the same receipt has to come again.
    case early
    /// It was recorded before, or came after a receipt that outranks it; nothing changed.
    case repeated(ReceivedDelivery)
    /// It is now in the delivery's attempt log, and the state is set.
    case recorded(ReceivedDelivery)
}
