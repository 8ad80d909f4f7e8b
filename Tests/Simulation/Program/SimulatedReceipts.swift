import ChaparCore

/// Reads what a simulated platform reports of messages that it has accepted.
///
/// All events of a message are told in the same words and with the time of its acceptance, as platforms with coarse
/// clocks do it.
struct SimulatedReceipts: ReceiptReader {
    func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool { true }

    func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
        guard let json = try? JSONValue(parsing: callback.body), let id = json["id"]?.stringValue,
            let event = json["event"]?.stringValue.flatMap(DeliveryReceipt.Event.init),
            let at = json["at"]?.stringValue.flatMap({ RFC3339.parse($0) })
        else { throw .malformed("no event of a message") }
        return [DeliveryReceipt(event, platformID: id, reason: "reported", at: at)]
    }

    var acknowledgement: [UInt8] { Array("{}".utf8) }
}
