import ChaparCore

/// Finds a message that is larger than the service takes in one of its languages.
///
/// ``ServiceBackend`` calls it before a notification is accepted; ``ServiceBatch`` refuses a message that is too large
/// when it is sent.
enum ServiceCheck {
    static func examine(_ notification: PushNotification, options: ServiceOptions) -> PayloadCheck {
        var message = ServicePayload(notification, expiration: nil)
        let largest = message.largestSize()
        guard largest > options.maximumMessageBytes else { return PayloadCheck() }
        let detail = "The message has \(largest) bytes; the service takes \(options.maximumMessageBytes)."
        return PayloadCheck(faults: [Finding(pointer: "#/content", code: "message_too_large", detail: detail)])
    }
}
