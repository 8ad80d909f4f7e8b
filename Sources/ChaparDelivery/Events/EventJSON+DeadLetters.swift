internal import ChaparCore
package import ChaparQueue
package import Foundation

extension EventJSON {
    /// Returns the event of a dead letter that a person has acknowledged or brought back: `delivery.acknowledged` or
    /// `delivery.brought_back`.
    ///
    /// In the event `caller` is the sender of the message, whose key may see the event; `by` is the key that was used
    /// for the request.
    package static func handled(
        _ found: FoundDelivery,
        isAcknowledged: Bool,
        by caller: String,
        at time: Date
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        begin(&writer, isAcknowledged ? "delivery.acknowledged" : "delivery.brought_back", time)
        writer.field("notification", found.shownID.description)
        writer.field("delivery", found.shownPlace)
        sender(found.caller, found.record, to: &writer)
        writer.field("backend", found.delivery.backend)
        writer.field("state", found.delivery.state.rawValue)
        if !caller.isEmpty { writer.field("by", caller) }
        writer.endObject()
        return writer.bytes
    }
}
