internal import ChaparDelivery
internal import ChaparQueue
package import ChaparCore

/// A reader of notifications from the bytes of a request, in one pass and without a tree.
///
/// Collects every mistake, and throws only for text that is not JSON. Checks that depend on the configuration or the
/// time are made by ``NotificationIntake``.
package struct NotificationReader {
    /// The backend kinds that are valid names in `overrides`.
    let kinds: [String]
    /// The limits of a notification's content.
    let limits: ContentLimits
    /// The backends' forms of tokens.
    let tokens: TokenCheck

    package init(_ snapshot: APISnapshot) {
        kinds = snapshot.kinds
        tokens = snapshot.tokens
        limits = ContentLimits(contentBytes: snapshot.limits.contentBytes)
    }

    private enum Field: Int, RequestField {
        case to, content, options, overrides, route, backend, app, metadata, reference, name, pace, keep, test
        static let names = [
            "to", "content", "options", "overrides", "route", "backend", "app", "metadata", "reference", "name",
            "pace", "keep", "test",
        ]
        static let foreign = [
            "message": "content", "notification": "content", "payload": "content", "recipient": "to",
            "recipients": "to", "target": "to",
        ]
    }

    /// Reads a body that is one notification, into a new draft of the caller's: a draft is large, and a result would be
    /// copied.
    package func read(
        _ body: [UInt8],
        into draft: inout NotificationDraft,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) {
        try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
            try read(&scanner, into: &draft, &issues)
        }
    }

    /// Reads the next value, a notification, into a new draft.
    func read(
        _ scanner: inout JSONScanner,
        into draft: inout NotificationDraft,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) {
        var hasAudience = false
        let isObject = try scanner.fields(Field.self, &issues, "#") {
            (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .to:
                hasAudience = true
                try AudienceReader.read(&scanner, &issues, tokens, into: &draft)
            case .content:
                draft.content = try part(&scanner, &issues, &draft) {
                    (scanner, issues, notification) throws(JSONSyntaxError) in
                    try ContentReader.read(&scanner, &issues, limits: limits, into: &notification)
                }
            case .options:
                var audience = OptionsReader.AudienceOptions()
                draft.options = try part(&scanner, &issues, &draft) {
                    (scanner, issues, notification) throws(JSONSyntaxError) in
                    try OptionsReader.read(&scanner, &issues, into: &notification, &audience)
                }
                draft.audienceOptions = audience
            case .overrides:
                draft.overrides = try part(&scanner, &issues, &draft) {
                    (scanner, issues, notification) throws(JSONSyntaxError) in
                    try OverridesReader.read(&scanner, &issues, kinds: kinds, limits: limits, into: &notification)
                }
            case .route:
                draft.route = try scanner.identifier(&issues, "#/route", limit: 64)
                draft.isChoiceFaulty = draft.isChoiceFaulty || draft.route == nil
            case .backend:
                draft.backend = try scanner.identifier(&issues, "#/backend", limit: 64)
                draft.isChoiceFaulty = draft.isChoiceFaulty || draft.backend == nil
            case .app:
                draft.app = try scanner.identifier(&issues, "#/app", limit: 64).map { AppName(rawValue: $0) }
                draft.isAppFaulty = draft.app == nil
                draft.isChoiceFaulty = draft.isChoiceFaulty || draft.isAppFaulty
            case .metadata: draft.record.metadata = try metadata(&scanner, &issues)
            case .reference:
                let most = NotificationRecord.maximumReferenceBytes
                draft.record.reference = try scanner.identifier(&issues, "#/reference", limit: most)
            case .name:
                draft.campaign.name = try scanner.identifier(&issues, "#/name", limit: CampaignOptions.longestName)
                draft.campaign.field = "name"
            case .pace:
                draft.campaign.pace = try PaceReader.read(&scanner, &issues, "#/pace")
                draft.campaign.field = "pace"
            case .keep:
                draft.campaign.keepsAll = try CampaignOptions.keep(&scanner, &issues)
                draft.campaign.field = "keep"
            case .test:
                draft.campaign.test = try CampaignTest.read(&scanner, &issues)
                draft.campaign.field = "test"
            }
        }
        guard isObject else { return }
        if !hasAudience { issues.add("#/to", "audience_missing", "Say who gets it: \(AudienceReader.fieldNames).") }
        checkWhole(&draft, &issues)
    }

    /// Reads one of the stored parts; keeps its byte range and whether it was valid.
    private func part(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ draft: inout NotificationDraft,
        _ read: (inout JSONScanner, inout RequestIssues, inout PushNotification) throws(JSONSyntaxError) -> Void
    ) throws(JSONSyntaxError) -> Range<Int> {
        let before = issues.count
        scanner.skipSpace()
        let start = scanner.offset
        try read(&scanner, &issues, &draft.notification)
        if issues.count != before { draft.isContentSound = false }
        return start..<scanner.offset
    }

    /// Reads the sender's own object; nil for none, or one that is too large.
    ///
    /// Blanks between its parts are left out, since an event is one line.
    private func metadata(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> [UInt8]? {
        scanner.skipSpace()
        let start = scanner.offset
        guard try scanner.tree(limits, &issues, "#/metadata") != nil else { return nil }
        var isText = false
        var isEscaped = false
        let bytes = scanner.slice(start..<scanner.offset).filter { byte in
            if byte == UInt8(ascii: "\""), !isEscaped { isText.toggle() }
            isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
            return isText || byte > UInt8(ascii: " ")
        }
        let most = NotificationRecord.maximumMetadataBytes
        guard bytes.count <= most else {
            issues.add("#/metadata", "too_large", "At most \(most) bytes of JSON; these are \(bytes.count).")
            return nil
        }
        return bytes
    }

    /// Checks the rules that involve several fields.
    private func checkWhole(_ draft: inout NotificationDraft, _ issues: inout RequestIssues) {
        if draft.route != nil, draft.backend != nil {
            draft.isChoiceFaulty = true
            issues.add("#/backend", "route_and_backend", "Give a route or a backend, not both.")
        }
        draft.chooseAudience(&issues)
        if draft.campaign.test != nil, draft.notification.isDryRun {
            issues.add("#/test", "dry_run_and_test", "Give test or options.dry_run, not both: a dry run sends nothing.")
        }
        let bytes = (draft.content?.count ?? 0) + (draft.options?.count ?? 0) + (draft.overrides?.count ?? 0)
        if bytes > limits.contentBytes, draft.isContentSound {
            draft.isContentSound = false
            issues.add(
                draft.overrides?.count ?? 0 > draft.content?.count ?? 0 ? "#/overrides" : "#/content",
                "too_large",
                "Content, options and overrides have at most \(limits.contentBytes) bytes together; they have \(bytes)."
            )
        }
        let notification = draft.notification
        let showsNothing =
            notification.title == nil && notification.body == nil && notification.data.isEmpty
            && notification.badge == nil && notification.sound == nil && notification.overrides.isEmpty
        if showsNothing, !notification.isSilent, draft.isContentSound {
            draft.isContentSound = false
            issues.add(
                "#/content",
                "content_empty",
                "There is nothing to show: give a title, a body, data, a badge or a sound, or set options.silent."
            )
        }
    }
}
