import Foundation
public import ChaparCore

/// Reads the webhooks that a Chabok panel can be set up to send.
///
/// Their payload is not documented. So ids, times and kinds are read from any of the usual members, and unknown kinds
/// are kept. The credential is a shared secret: the last step of the address, since a panel takes an address only, or
/// the field `x-webhook-secret`, or a bearer.
public struct ChabokReceipts: ReceiptReader {
    /// The most reports that are read in one callback.
    static let limit = 1000

    private let secret: Secret
    private let events: ChabokEventStream

    init(_ secret: Secret, events: ChabokEventStream) {
        self.secret = secret
        self.events = events
    }

    /// The acknowledgement, an empty object.
    public var acknowledgement: [UInt8] { Array("{}".utf8) }

    /// Checks the secret, which is in the head; returns true or throws.
    public func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool {
        try check(callback)
        return true
    }

    private func check(_ callback: ReceiptCallback) throws(ReceiptRefusal) {
        let bearer = callback.header("authorization").flatMap {
            $0.hasPrefix("Bearer ") ? String($0.dropFirst(7)) : nil
        }
        guard let given = callback.pathSecret?.reveal() ?? callback.header("x-webhook-secret") ?? bearer else {
            throw .notAuthentic("there is no secret")
        }
        guard Self.isEqual(Array(given.utf8), Array(secret.reveal().utf8)) else {
            throw .notAuthentic("the secret is wrong")
        }
    }

    /// Returns the receipts of a callback, and sends every report in it to the event stream.
    public func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
        try check(callback)
        guard let body = try? JSONValue(parsing: callback.body) else { throw .malformed("the body is not JSON") }
        let elements = body.arrayValue ?? [body]
        guard elements.count <= Self.limit else { throw .malformed("more than \(Self.limit) reports in one callback") }
        let reports = elements.compactMap { $0.objectValue.map(Self.report) }
        guard reports.count == elements.count else { throw .malformed("a report is not an object") }
        for report in reports {
            events.send(.reported(report))
            guard case .delivered = report.kind else { continue }
            // The gateway gets the receipt of the delivery, so this event is for the reader of the stream only.
            let message = ChabokPayloadParser.parse(report.raw, action: .shown, isTolerant: true)
            events.send(.messageReceived(message), isAnnounced: false)
        }
        return reports.compactMap { $0.receipt(receivedAt: callback.receivedAt) }
    }

    /// Reads one report.
    static func report(_ json: JSONObject) -> ChabokReport {
        func text(_ names: String...) -> String? {
            for name in names { if let text = ChabokAnswer.text(json[name]) { return text } }
            return nil
        }
        func time(_ names: String...) -> Date? {
            for name in names { if let time = ChabokTime.read(json[name]) { return time } }
            return nil
        }
        return ChabokReport(
            ChabokReport.Kind(name: text("event", "type", "name") ?? ""),
            messageID: text("messageId", "id"),
            user: text("userId"),
            installation: text("installationId", "deviceId"),
            at: time("at", "createdAt", "deliveredAt"),
            raw: json
        )
    }

    /// Compares in constant time, so that the duration does not reveal the place of a difference.
    private static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        var difference = left.count ^ right.count
        for place in 0..<max(left.count, right.count) {
            difference |= Int((place < left.count ? left[place] : 0) ^ (place < right.count ? right[place] : 0))
        }
        return difference == 0
    }
}

extension ChabokReport {
    /// Returns the receipt for a delivery; nil when the report names no message.
    func receipt(receivedAt: Date) -> DeliveryReceipt? {
        guard let messageID else { return nil }
        let error = (raw["error"] ?? raw["reason"])?.stringValue
        if let error, let reason = ChabokRejections.deliveryReason(error) {
            return DeliveryReceipt(.failed, platformID: messageID, token: owner, reason: reason, at: at ?? receivedAt)
        }
        let (event, reason): (DeliveryReceipt.Event, String) =
            switch kind {
            case .delivered: (.delivered, "delivered")
            case .shown: (.delivered, "shown")
            case .opened, .seen: (.opened, "opened")
            case .actionTaken: (.opened, "action_taken")
            case .dismissed: (.delivered, "dismissed")  // Only a notification that was shown can be dismissed.
            case .newInstall, .newUser, .appOpened, .uninstalled, .other: (.note, "other")
            }
        return DeliveryReceipt(event, platformID: messageID, token: owner, reason: reason, at: at ?? receivedAt)
    }

    /// The user, as receipts name one: the users of one call share the message's id.
    private var owner: String? { user.map { Recipient.user($0).storedForm } }
}
