package import Foundation
package import ChaparCore
package import ChaparQueue

/// Attempt log entries and events about receipts: `delivery.delivered`, `delivery.opened`, `delivery.failed`, and
/// `delivery.receipt` for news that changes no state.
extension EventJSON {
    /// The reporter of a receipt that comes from the app itself, where others have the name of a backend.
    package static let appReporter = "app"

    /// Returns the entry of a receipt in a delivery's attempt log.
    ///
    /// It does not contain the time of arrival, so a repeated receipt gives the same entry.
    package static func receipt(_ receipt: DeliveryReceipt, backend: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 160)
        writer.beginObject()
        writer.name("at")
        RFC3339.write(receipt.at, to: &writer)
        writer.field("backend", backend)
        writer.field("outcome", "receipt")
        writer.field("reason", receipt.reason)
        writer.field("detail", receipt.detail)
        // `AttemptLog.isAccepted` reads this: after it no platform has the delivery, so the next backend may take over.
        if receipt.event == .failed { writer.field("state", DeliveryState.failed.rawValue) }
        writer.endObject()
        return writer.bytes
    }

    /// Returns the event of a platform's report about a delivery.
    package static func received(
        _ delivery: ReceivedDelivery,
        changesState: Bool,
        backend: String,
        logEntry: [UInt8],
        at time: Date
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 384)
        writer.beginObject()
        // A delivery that waits for another report has not changed its state.
        let isEnd = changesState && delivery.state.isFinal
        begin(&writer, "delivery." + (isEnd ? delivery.state.rawValue : "receipt"), time)
        writer.field("notification", delivery.shownID.description)
        writer.field("delivery", delivery.shownPlace)
        writer.field("recipient", delivery.recipient.storedForm)
        sender(delivery.caller, delivery.record, to: &writer)
        writer.field("backend", backend)
        writer.field("state", delivery.state.rawValue)
        writer.name("attempt")
        writer.raw(logEntry)
        writer.endObject()
        return writer.bytes
    }
}
