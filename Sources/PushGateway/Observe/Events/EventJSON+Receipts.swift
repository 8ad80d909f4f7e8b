internal import Foundation
internal import PushCore
internal import PushQueue

/// What receipts add to attempt logs and to the stream of events: `delivery.delivered`, `delivery.opened`,
/// `delivery.failed`, and `delivery.receipt` for news that changes no state.
extension EventJSON {
    /// A receipt as it stands in the attempt log of a delivery.
    ///
    /// It holds nothing of the moment it arrived, so that it is the same when it comes again.
    static func receipt(_ receipt: DeliveryReceipt, backend: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 160)
        writer.beginObject()
        writer.name("at")
        RFC3339.write(receipt.at, to: &writer)
        writer.field("backend", backend)
        writer.field("outcome", "receipt")
        writer.field("reason", receipt.reason)
        writer.field("detail", receipt.detail)
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
        writer.field("notification", delivery.notificationID.description)
        writer.field("delivery", delivery.notificationID.place(of: delivery.id))
        writer.field("recipient", delivery.recipient.storedForm)
        sender(delivery.caller, to: &writer)
        writer.field("backend", backend)
        writer.field("state", delivery.state.rawValue)
        writer.name("attempt")
        writer.raw(logEntry)
        writer.endObject()
        return writer.bytes
    }
}
