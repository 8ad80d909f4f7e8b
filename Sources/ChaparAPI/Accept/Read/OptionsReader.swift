internal import ChaparDelivery
internal import ChaparCore

/// The reader of `options`: the priority of a notification, its send time and its time to live.
enum OptionsReader {
    /// The longest time to live, 28 days: the longest that any platform keeps a message (FCM).
    static let maximumTimeToLive = 2_419_200
    /// The longest collapse id in bytes, Apple's limit.
    static let maximumCollapseIDBytes = 64

    private enum Field: Int, RequestField {
        case ttl, priority, collapseID, sendAt, silent, dryRun, list, requireRecipients
        static let names = [
            "ttl", "priority", "collapse_id", "send_at", "silent", "dry_run", "list", "require_recipients",
        ]
    }

    /// The options that only audiences have.
    struct AudienceOptions: Sendable {
        /// The list that the message is about.
        var list: String?
        /// Whether a message for no device is refused.
        var requiresRecipients = false
        /// The names of those that are there.
        var names: [String] = []
    }

    /// Reads the next value, an object, without the options of audiences.
    static func read(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        into notification: inout PushNotification
    ) throws(JSONSyntaxError) {
        var ignored = AudienceOptions()
        try read(&scanner, &issues, into: &notification, &ignored)
    }

    /// Reads the next value, an object.
    static func read(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        into notification: inout PushNotification,
        _ audience: inout AudienceOptions
    ) throws(JSONSyntaxError) {
        try scanner.fields(Field.self, &issues, "#/options") { (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .ttl:
                let seconds = try scanner.integer(
                    in: 0...maximumTimeToLive,
                    &issues,
                    "#/options/ttl",
                    unit: " seconds"
                )
                notification.timeToLive = seconds.map { .seconds($0) }
            case .priority:
                guard let value = try scanner.text(&issues, "#/options/priority") else { return }
                if let priority = PushNotification.Priority(rawValue: value) {
                    notification.priority = priority
                } else {
                    issues.add(
                        "#/options/priority",
                        "unknown_word",
                        didYouMean(value, PushNotification.Priority.allCases.map(\.rawValue)) ?? "Write high or normal."
                    )
                }
            case .collapseID:
                notification.collapseID = try scanner.identifier(
                    &issues,
                    "#/options/collapse_id",
                    limit: maximumCollapseIDBytes
                )
            case .sendAt:
                guard let text = try scanner.text(&issues, "#/options/send_at") else { return }
                notification.sendAt = RFC3339.parse(text)
                if notification.sendAt == nil {
                    issues.add(
                        "#/options/send_at",
                        "invalid_time",
                        "Must be an RFC 3339 time with its offset, such as 2027-01-05T09:00:00+03:30."
                    )
                }
            case .silent: notification.isSilent = try scanner.flag(&issues, "#/options/silent") ?? false
            case .list:
                audience.names.append("list")
                audience.list = try scanner.identifier(&issues, "#/options/list", limit: 64)
            case .requireRecipients:
                audience.names.append("require_recipients")
                audience.requiresRecipients = try scanner.flag(&issues, "#/options/require_recipients") ?? false
            case .dryRun: notification.isDryRun = try scanner.flag(&issues, "#/options/dry_run") ?? false
            }
        }
    }
}

/// The reader of `overrides`: settings for one kind of backend each.
enum OverridesReader {
    /// Reads the next value, an object.
    ///
    /// Nil for `kinds` accepts every name and nil for `limits` any size, for overrides that were checked before.
    static func read(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        kinds: [String]?,
        limits: ContentLimits?,
        into notification: inout PushNotification
    ) throws(JSONSyntaxError) {
        guard try scanner.expect(.object, "an object", &issues, "#/overrides") else { return }
        try scanner.object { (scanner, kind) throws(JSONSyntaxError) in
            let pointer = "#/overrides/\(pointerStep(kind))"
            if let kinds, !kinds.contains(kind) {
                issues.add(
                    pointer,
                    "unknown_kind",
                    didYouMean(kind, kinds) ?? "No backend is of this kind. Known: \(kinds.joined(separator: ", "))."
                )
                return try scanner.skip()
            }
            guard notification.overrides[kind] == nil else {
                issues.add(pointer, "repeated_field", "The field stands here twice.")
                return try scanner.skip()
            }
            if let value = try scanner.tree(limits, &issues, pointer) { notification.overrides[kind] = value }
        }
    }
}
