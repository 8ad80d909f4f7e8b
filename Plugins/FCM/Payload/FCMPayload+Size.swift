internal import ChaparCore

extension FCMPayload {
    /// Returns how many bytes of an encoded message count against FCM's limit.
    ///
    /// The common texts and data count, and of the platforms' own blocks only the largest, since a device gets one of
    /// them. Targets, priorities, lifetimes and headers are routing and do not count.
    static func size(of message: [UInt8]) -> Int {
        guard let object = (try? JSONValue(parsing: message))?.objectValue else { return message.count }
        func bytes(_ value: JSONValue?) -> Int { value.map { $0.bytes.count } ?? 0 }
        let second = object["android_v2"]
        let android =
            bytes(object["android"]?["notification"]) + bytes(object["android"]?["data"])
            + bytes(second?["remote_notification"]?["notification"]) + bytes(second?["data"])
        let apple = bytes(object["apns"]?["payload"])
        let web = bytes(object["webpush"]?["notification"]) + bytes(object["webpush"]?["data"])
        return bytes(object["notification"]) + bytes(object["data"]) + max(android, apple, web)
    }

    /// Returns the fault of a message that is too large for its kind of target; nil when it fits.
    func tooLarge(_ message: [UInt8], for kind: FCMTarget.Class) -> Finding? {
        // Nearly every message is far below, routing included.
        guard message.count > kind.payloadLimit else { return nil }
        let size = Self.size(of: message)
        guard size > kind.payloadLimit else { return nil }
        let what = kind == .topic ? "a topic" : kind == .condition ? "a condition" : "a token"
        return Finding(
            pointer: "#/content",
            code: "payload_too_large",
            detail: "The payload has \(size) bytes after encoding; a message to \(what) takes \(kind.payloadLimit)."
        )
    }

}
