package import PushCore

/// Turns the stored form of a notification's content back into the notification.
///
/// The stored form is `{"activity":…,"content":…,"options":…,"overrides":…}` of the bytes that were received. The
/// dispatcher calls this for deliveries that come from disk; those that never left memory bring their notification
/// along.
package enum NotificationContent {
    private enum Field: Int, RequestField {
        case activity, content, options, overrides
        static let names = ["activity", "content", "options", "overrides"]
    }

    /// Reads the stored form.
    ///
    /// A field that this version does not know is passed over: it was right when it was accepted.
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
