/// Findings about values of `aps` that Apple accepts and iOS silently drops.
///
/// Apple's push service checks little of a payload, so the sender sees a success and the user sees nothing. FCM and HMS
/// pass `aps` on to Apple unchanged. Source: Apple, "Generating a remote notification", read 2026-08.
package enum APSWarnings {
    /// The keys of `aps` that iOS reads.
    private static let known: Set<String> = [
        "alert", "badge", "sound", "thread-id", "category", "content-available", "mutable-content",
        "target-content-id", "interruption-level", "relevance-score", "filter-criteria", "stale-date", "content-state",
        "timestamp", "event", "dismissal-date", "attributes-type", "attributes", "input-push-token",
        "input-push-channel", "content-changed", "url-args",
    ]
    /// The first moment, in seconds since 1970, that must be milliseconds: 5138-11-16.
    private static let firstInMilliseconds: Int64 = 100_000_000_000

    /// Returns the warnings about an object; `pointer` is the place of `aps` in the notification.
    package static func of(_ aps: JSONValue?, at pointer: String) -> [Finding] {
        guard let aps = aps?.objectValue else { return [] }
        var warnings: [Finding] = []
        for (name, value) in aps {
            func warn(_ code: String, _ detail: String) {
                warnings.append(Finding(pointer: "\(pointer)/\(name.jsonPointerStep)", code: code, detail: detail))
            }
            switch name {
            case "content-available", "mutable-content":
                if value != 1, value != .null { warn("ignored_by_ios", "iOS reads the number 1 only: write 1.") }
            case "alert":
                let detail = "iOS shows nothing for it: leave it out, or give a text."
                if isEmpty(alert: value) { warn("empty_text", detail) }
            case "timestamp", "stale-date", "dismissal-date":
                if let time = value.integerValue, time >= firstInMilliseconds {
                    warn("milliseconds", "These are seconds since 1970: \(time) looks like milliseconds.")
                }
            default:
                let meant = String(name.map { $0 == "_" ? "-" : $0 })
                if meant != name, known.contains(meant) {
                    warn("ignored_by_ios", "iOS knows no \(name): write \(meant).")
                }
            }
        }
        return warnings
    }

    /// Whether an alert is an empty text, or has empty texts alone and no keys of localized ones.
    private static func isEmpty(alert: JSONValue) -> Bool {
        if let text = alert.stringValue { return text.isEmpty }
        guard let members = alert.objectValue, !members.isEmpty else { return false }
        return !members.contains { !["title", "subtitle", "body"].contains($0.name) || $0.value != "" }
    }
}
