internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The reader of `to`, the recipients of a notification: exactly one of ten forms, at most ``maximumRecipients`` of
/// them.
///
/// Called by ``NotificationReader``. It checks the form only; whether a backend can address a recipient is
/// ``PlanAssignment``'s check.
enum AudienceReader {
    /// The most recipients that one notification may name.
    static let maximumRecipients = 10_000
    /// The names of the forms, for messages.
    static let fieldNames = Field.names.dropLast().joined(separator: ", ")

    /// The longest device token, in bytes.
    static let maximumTokenBytes = 4096
    /// The longest name of a device or a user, in bytes.
    static let maximumNameBytes = 256
    private static let maximumTags = 100

    private enum Field: Int, RequestField {
        case tokens, devices, users, activity, tags, topic, platformIDs, everyone, audience, segment
        /// Stands beside one of the others.
        case exclude
        static let names = [
            "tokens", "devices", "users", "activity", "tags", "topic", "platform_ids", "everyone", "audience",
            "segment", "exclude",
        ]
    }

    private enum TokenField: Int, RequestField {
        case token, service
        static let names = ["token", "service"]
    }

    private enum TagField: Int, RequestField {
        case all, any, none
        static let names = ["all", "any", "none"]
    }

    /// Reads the next value, an object; `check` brings tokens to the form of their platform.
    static func read(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ check: TokenCheck,
        into draft: inout NotificationDraft
    ) throws(JSONSyntaxError) {
        var forms = 0
        let before = issues.count
        let isObject = try scanner.fields(Field.self, &issues, "#/to") {
            (scanner, issues, field) throws(JSONSyntaxError) in
            if field == .exclude {
                draft.exclude = try AudienceRequest.rule(&scanner, &issues, "#/to/exclude")
                return
            }
            forms += 1
            guard forms == 1 else { return try scanner.skip() }
            draft.audienceField = Field.names[field.rawValue]
            switch field {
            case .tokens: try tokens(&scanner, &issues, check, into: &draft)
            case .devices: try names(&scanner, &issues, "devices", Recipient.device, into: &draft)
            case .users: try names(&scanner, &issues, "users", Recipient.user, into: &draft)
            case .platformIDs: try names(&scanner, &issues, "platform_ids", Recipient.platformID, into: &draft)
            case .activity:
                let name = try scanner.identifier(&issues, "#/to/activity", limit: Device.maximumIDBytes)
                if let name, !Device.isID(name) {
                    issues.add("#/to/activity", "bad_activity", DeviceFieldRules.formOfActivity)
                } else {
                    draft.notification.activity = name
                }
            case .tags: draft.recipients = try tags(&scanner, &issues)
            case .audience:
                draft.audienceRequest = try AudienceRequest.rule(&scanner, &issues, "#/to/audience").map {
                    AudienceRequest(rule: $0, pointer: "#/to/audience")
                }
            case .segment:
                let name = try scanner.identifier(&issues, "#/to/segment", limit: Device.maximumIDBytes)
                draft.audienceRequest = name.map {
                    AudienceRequest(rule: ["segment": .string($0)], pointer: "#/to/segment", isShorthand: true)
                }
            case .exclude: break
            case .topic:
                let topic = try scanner.identifier(&issues, "#/to/topic", limit: maximumNameBytes)
                draft.recipients = topic.map { [.topic($0)] } ?? []
            case .everyone:
                let isEveryone = try scanner.flag(&issues, "#/to/everyone")
                draft.recipients = isEveryone == true ? [.everyone] : []
                if isEveryone == false {
                    issues.add("#/to/everyone", "audience_empty", "Only true means something here.")
                }
            }
        }
        guard isObject else { return }
        if forms == 0, issues.count == before {
            issues.add("#/to", "audience_missing", "Say who gets it: \(fieldNames).")
        } else if forms > 1 {
            issues.add("#/to", "audience_ambiguous", "Give exactly one of \(fieldNames); there are \(forms).")
        }
    }

    private static func tokens(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ check: TokenCheck,
        into draft: inout NotificationDraft
    ) throws(JSONSyntaxError) {
        var recipients: [Recipient] = []
        var count = 0
        let isArray = try scanner.elements(&issues, "#/to/tokens") {
            (scanner, issues, index) throws(JSONSyntaxError) in
            count = index + 1
            guard count <= maximumRecipients else { return try scanner.skip() }
            if let token = try token(&scanner, &issues, check, index) { recipients.append(.token(token)) }
        }
        if isArray { take(recipients, count, "#/to/tokens", &issues, into: &draft) }
    }

    private static func token(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ check: TokenCheck,
        _ index: Int
    ) throws(JSONSyntaxError) -> DeviceToken? {
        var value: String?
        var service: TokenService?
        var hasValue = false
        var hasService = false
        let isObject = try scanner.fields(TokenField.self, &issues, "#/to/tokens/\(index)") {
            (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .token:
                hasValue = true
                value = try scanner.identifier(&issues, "#/to/tokens/\(index)/token", limit: maximumTokenBytes)
            case .service:
                hasService = true
                guard let name = try scanner.text(&issues, "#/to/tokens/\(index)/service") else { return }
                service = TokenService.named(name)
                if service == nil {
                    issues.add("#/to/tokens/\(index)/service", "unknown_service", DeviceFieldRules.unknownService(name))
                }
            }
        }
        guard isObject else { return nil }
        if !hasValue { issues.add("#/to/tokens/\(index)/token", "missing", "The device token is missing.") }
        if !hasService {
            issues.add("#/to/tokens/\(index)/service", "missing", "Say which service the token is of: \(services).")
        }
        guard let value, let service else { return nil }
        let token = DeviceToken(value, service: service)
        guard !token.isBlank else {
            let detail = "This is no token of \(service.rawValue): it is blank."
            issues.add("#/to/tokens/\(index)/token", "malformed_token", detail)
            return nil
        }
        do throws(InvalidToken) {
            return try check.form(of: token)
        } catch {
            let detail = "This is no token of \(service.rawValue): \(error.problem)."
            issues.add("#/to/tokens/\(index)/token", "malformed_token", detail)
            return nil
        }
    }

    private static let services = TokenService.known.map(\.rawValue).joined(separator: ", ")

    private static func names(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ field: StaticString,
        _ make: (String) -> Recipient,
        into draft: inout NotificationDraft
    ) throws(JSONSyntaxError) {
        var recipients: [Recipient] = []
        var count = 0
        let isArray = try scanner.elements(&issues, "#/to/\(field)") {
            (scanner, issues, index) throws(JSONSyntaxError) in
            count = index + 1
            guard count <= maximumRecipients else { return try scanner.skip() }
            if let name = try scanner.identifier(&issues, "#/to/\(field)/\(index)", limit: maximumNameBytes) {
                recipients.append(make(name))
            }
        }
        if isArray { take(recipients, count, "#/to/\(field)", &issues, into: &draft) }
    }

    /// Checks the number of recipients and gives them to the draft, each once; a warning counts the repeats.
    ///
    /// A list from an export may have repeats; the request must not fail until its owner has found them.
    private static func take(
        _ recipients: [Recipient],
        _ count: Int,
        _ pointer: String,
        _ issues: inout RequestIssues,
        into draft: inout NotificationDraft
    ) {
        draft.recipients = recipients
        guard count != 1 else { return }  // The usual case needs no set.
        if count == 0 { issues.add(pointer, "audience_empty", "Name at least one recipient.") }
        if count > maximumRecipients {
            issues.add(
                pointer,
                "too_many_recipients",
                "At most \(maximumRecipients) recipients; there are \(count). Use several notifications of a batch."
            )
        }
        guard recipients.count == min(count, maximumRecipients) else { return }  // Positions would be wrong.
        var seen: Set<Recipient> = []
        seen.reserveCapacity(recipients.count)
        guard let first = recipients.firstIndex(where: { !seen.insert($0).inserted }) else { return }
        draft.recipients.removeSubrange(first...)
        draft.positions = Array(0..<first)
        for position in recipients.indices[(first + 1)...] where seen.insert(recipients[position]).inserted {
            draft.recipients.append(recipients[position])
            draft.positions.append(position)
        }
        let repeats = recipients.count - draft.recipients.count
        let detail =
            repeats == 1
            ? "This recipient is named before: it gets the notification once."
            : "From here on \(repeats) recipients are named before: each gets the notification once."
        draft.warnings.append(Finding(pointer: "\(pointer)/\(first)", code: "repeated_recipient", detail: detail))
    }

    private static func tags(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> [Recipient] {
        var filter = TagFilter()
        let before = issues.count
        let isObject = try scanner.fields(TagField.self, &issues, "#/to/tags") {
            (scanner, issues, field) throws(JSONSyntaxError) in
            let name = TagField.names[field.rawValue]
            var tags: [String] = []
            var count = 0
            try scanner.elements(&issues, "#/to/tags/\(name)") { (scanner, issues, index) throws(JSONSyntaxError) in
                count = index + 1
                guard count <= maximumTags else { return try scanner.skip() }
                let tag = try scanner.identifier(&issues, "#/to/tags/\(name)/\(index)", limit: maximumNameBytes)
                if let tag { tags.append(tag) }
            }
            if count > maximumTags {
                issues.add("#/to/tags/\(name)", "too_many_tags", "At most \(maximumTags) tags; there are \(count).")
            }
            switch field {
            case .all: filter.all = tags
            case .any: filter.any = tags
            case .none: filter.none = tags
            }
        }
        guard isObject, issues.count == before else { return [] }
        guard !filter.all.isEmpty || !filter.any.isEmpty || !filter.none.isEmpty else {
            issues.add("#/to/tags", "audience_empty", "Give tags under all, any or none; for everybody say everyone.")
            return []
        }
        return [.tags(filter)]
    }
}
