internal import Foundation
internal import PushCore
internal import PushQueue

/// What receipts add to attempt logs and to the stream of events: `delivery.delivered`, `delivery.opened`, `delivery.failed`,
/// and `delivery.receipt` for news that changes no state.
extension EventJSON {
    /// A receipt as it stands in the attempt log of a delivery.
    ///
    /// It holds nothing of the moment it arrived, so that it is the same when it comes again.
    static func receipt(_ receipt: DeliveryReceipt, backend: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 160)
        writer.beginObject()
        writer.name("at")
        RFC3339.write(receipt.at, to: &writer)
        writer.name("backend")
        writer.string(backend)
        writer.name("outcome")
        writer.string("receipt")
        writer.name("reason")
        writer.string(receipt.reason)
        if let detail = receipt.detail {
            writer.name("detail")
            writer.string(detail)
        }
        writer.endObject()
        return writer.bytes
    }

    /// A platform reported what became of a delivery.
    static func received(
        _ delivery: ReceivedDelivery,
        changesState: Bool,
        backend: String,
        logEntry: [UInt8],
        at time: Date
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 384)
        writer.beginObject()
        begin(&writer, "delivery." + (changesState ? delivery.state.rawValue : "receipt"), time)
        writer.name("notification")
        writer.string(delivery.notificationID.description)
        writer.name("delivery")
        writer.integer(delivery.id - delivery.notificationID.rawValue)
        writer.name("recipient")
        writer.string(delivery.recipient.storedForm)
        sender(delivery.caller, to: &writer)
        writer.name("backend")
        writer.string(backend)
        writer.name("state")
        writer.string(delivery.state.rawValue)
        writer.name("attempt")
        writer.raw(logEntry)
        writer.endObject()
        return writer.bytes
    }
}
