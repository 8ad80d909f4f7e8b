internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The reader of `to`, the recipients of a notification: exactly one of eight forms, at most ``maximumRecipients`` of
/// them.
///
/// Called by ``NotificationReader``. It checks the form only; whether a backend can address a recipient is
/// ``PlanAssignment``'s check.
enum AudienceReader {
    /// The most recipients that one notification may name.
    static let maximumRecipients = 10_000
    /// The names of the forms, for messages.
    static let fieldNames = Field.names.joined(separator: ", ")

    /// The longest device token, in bytes.
    static let maximumTokenBytes = 4096
    private static let maximumNameBytes = 256
    private static let maximumTags = 100

    private enum Field: Int, RequestField {
        case tokens, devices, users, activity, tags, topic, platformIDs, everyone
        static let names = ["tokens", "devices", "users", "activity", "tags", "topic", "platform_ids", "everyone"]
    }

    private enum TokenField: Int, RequestField {
        case token, service
        static let names = ["token", "service"]
    }

    private enum TagField: Int, RequestField {
        case all, any, none
        static let names = ["all", "any", "none"]
    }

    /// Reads the next value, an object.
    static func read(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        into draft: inout NotificationDraft
    ) throws(JSONSyntaxError) {
        var forms = 0
        let before = issues.count
        let isObject = try scanner.fields(Field.self, &issues, "#/to") {
            (scanner, issues, field) throws(JSONSyntaxError) in
            forms += 1
            guard forms == 1 else { return try scanner.skip() }
            draft.audienceField = Field.names[field.rawValue]
            switch field {
            case .tokens: draft.recipients = try tokens(&scanner, &issues)
            case .devices: draft.recipients = try names(&scanner, &issues, "devices", Recipient.device)
            case .users: draft.recipients = try names(&scanner, &issues, "users", Recipient.user)
            case .platformIDs: draft.recipients = try names(&scanner, &issues, "platform_ids", Recipient.platformID)
            case .activity:
                let name = try scanner.identifier(&issues, "#/to/activity", limit: Device.maximumIDBytes)
                if let name, !Device.isID(name) {
                    issues.add("#/to/activity", "bad_activity", DeviceFieldRules.formOfActivity)
                } else {
                    draft.notification.activity = name
                }
            case .tags: draft.recipients = try tags(&scanner, &issues)
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
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> [Recipient] {
        var recipients: [Recipient] = []
        var count = 0
        let isArray = try scanner.elements(&issues, "#/to/tokens") {
            (scanner, issues, index) throws(JSONSyntaxError) in
            count = index + 1
            guard count <= maximumRecipients else { return try scanner.skip() }
            if let token = try token(&scanner, &issues, index) { recipients.append(.token(token)) }
        }
        guard isArray else { return [] }
        return checked(recipients, count, "#/to/tokens", &issues)
    }

    private static func token(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
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
        return token
    }

    private static let services = TokenService.known.map(\.rawValue).joined(separator: ", ")

    private static func names(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ field: StaticString,
        _ make: (String) -> Recipient
    ) throws(JSONSyntaxError) -> [Recipient] {
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
        guard isArray else { return [] }
        return checked(recipients, count, "#/to/\(field)", &issues)
    }

    /// Checks the number of recipients, and that no recipient is named twice.
    private static func checked(
        _ recipients: [Recipient],
        _ count: Int,
        _ pointer: String,
        _ issues: inout RequestIssues
    ) -> [Recipient] {
        guard count != 1 else { return recipients }
        if count == 0 { issues.add(pointer, "audience_empty", "Name at least one recipient.") }
        if count > maximumRecipients {
            issues.add(
                pointer,
                "too_many_recipients",
                "At most \(maximumRecipients) recipients; there are \(count). Use several notifications of a batch."
            )
        }
        guard recipients.count == min(count, maximumRecipients) else { return recipients }  // Positions would be wrong.
        var seen: Set<Recipient> = []
        seen.reserveCapacity(recipients.count)
        for (position, recipient) in recipients.enumerated() where !seen.insert(recipient).inserted {
            issues.add("\(pointer)/\(position)", "repeated_recipient", "The same recipient stands here twice.")
        }
        return recipients
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
