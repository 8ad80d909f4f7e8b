internal import ChaparDelivery
package import ChaparCore

/// The reader of the stored form of a notification's content.
///
/// The stored form is `{"activity":…,"content":…,"options":…,"overrides":…}` with the bytes as received. The dispatcher
/// calls this for deliveries read from disk; those still in memory have their notification with them.
package enum NotificationContent {
    private enum Field: Int, RequestField {
        case activity, content, options, overrides
        static let names = ["activity", "content", "options", "overrides"]
    }

    /// Reads the stored form.
    ///
    /// Skips fields that this version does not know: they were valid when the notification was accepted.
    ///
    /// Throws when the bytes are not JSON, which means that the store is damaged.
    package static func decode(_ stored: [UInt8]) throws(JSONSyntaxError) -> PushNotification {
        try JSONScanner.scan(stored) { (scanner) throws(JSONSyntaxError) in
            var notification = PushNotification()
            var ignored = RequestIssues()
            try scanner.fields(Field.self, &ignored, "#") { (scanner, issues, field) throws(JSONSyntaxError) in
                switch field {
                case .activity: notification.activity = try scanner.text(&issues, "#/activity")
                case .content: try ContentReader.read(&scanner, &issues, limits: nil, into: &notification)
                case .options: try OptionsReader.read(&scanner, &issues, into: &notification)
                case .overrides:
                    try OverridesReader.read(&scanner, &issues, kinds: nil, limits: nil, into: &notification)
                }
            }
            return notification
        }
    }
}
