internal import Foundation
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The reader of a device request's body, in one pass, which collects every mistake with its place.
///
/// Called by ``DevicesAPI`` and ``DeviceBatchAPI``; makes a ``DeviceChange``. It never reads the registry.
struct DeviceChangeReader {
    /// The check of tokens with the backends that accept them.
    let tokens: TokenCheck
    /// The moment of the request.
    let now: Date

    /// The most tokens that are read, more than a device can have; it limits the work.
    private static let maximumTokens = 64

    private enum Field: Int, RequestField {
        case id, app, user, platform, tokens, tags, locale, appVersion, timeZone, lastSeen, createdAt, updatedAt
        case attributes
        static let names = [
            "id", "app", "user", "platform", "tokens", "tags", "locale", "app_version", "time_zone", "last_seen",
            "created_at", "updated_at", "attributes",
        ]
    }

    private enum TokenField: Int, RequestField {
        case token, kind, activity, attributesType, environment, registeredAt, tombstone, refusedBy, alive
        static let names = [
            "token", "kind", "activity", "attributes_type", "environment", "registered_at", "tombstone", "refused_by",
            "alive",
        ]
    }

    private enum RefusalField: Int, RequestField {
        case reason, asOf
        static let names = ["reason", "as_of"]
    }

    private enum TombstoneField: Int, RequestField {
        case asOf, at, backend, reason, quarantined, formerQuarantined
        static let names = [
            "as_of", "at", "backend", "reason", "quarantined", FormerName.quarantined.former.description,
        ]
        static let renamed = [FormerName.quarantined]
    }

    /// Reads a body that is one device.
    func read(_ body: [UInt8]) throws(JSONSyntaxError) -> (DeviceChange, RequestIssues) {
        var change = DeviceChange()
        var issues = RequestIssues()
        try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in change = try read(&scanner, &issues) }
        return (change, issues)
    }

    /// Reads the next value, a device.
    func read(_ scanner: inout JSONScanner, _ issues: inout RequestIssues) throws(JSONSyntaxError)
        -> DeviceChange
    {
        var change = DeviceChange()
        try scanner.fields(Field.self, &issues, "#") { (scanner, issues, field) throws(JSONSyntaxError) in
            let pointer = "#/\(Field.names[field.rawValue])"
            switch field {
            case .id: change.id = try id(&scanner, &issues)
            case .app: change.app = try scanner.identifier(&issues, pointer, limit: 64)
            case .user: change.user = try name(&scanner, &issues, pointer)
            case .appVersion: change.appVersion = try name(&scanner, &issues, pointer)
            case .platform:
                change.platform = try name(&scanner, &issues, pointer) { text in
                    DeviceFieldRules.isPlatform(text) ? nil : DeviceFieldRules.unknownPlatform(text)
                }
            case .locale: change.locale = try name(&scanner, &issues, pointer, check: DeviceFieldRules.faultOfLocale)
            case .timeZone:
                change.timeZone = try name(&scanner, &issues, pointer, check: DeviceFieldRules.faultOfTimeZone)
            case .tags: change.tags = try tags(&scanner, &issues)
            case .tokens: change.tokens = try tokens(&scanner, &issues)
            case .attributes: change.attributes = try attributes(&scanner, &issues)
            case .lastSeen: change.lastSeen = try nullableTime(&scanner, &issues, pointer)
            case .createdAt: change.createdAt = try nullableTime(&scanner, &issues, pointer).value
            case .updatedAt: try scanner.skip()  // The gateway sets it, so a device that it returned may be sent back.
            }
        }
        return change
    }

    /// Reads a member that may be null.
    private func member<Value: Sendable>(
        _ scanner: inout JSONScanner,
        _ read: (inout JSONScanner) throws(JSONSyntaxError) -> Value?
    ) throws(JSONSyntaxError) -> DeviceChange.Member<Value> {
        guard try scanner.peek() != .null else {
            try scanner.null()
            return .removed
        }
        return try read(&scanner).map { .set($0) } ?? .untouched
    }

    private func id(_ scanner: inout JSONScanner, _ issues: inout RequestIssues) throws(JSONSyntaxError) -> String? {
        guard let text = try scanner.text(&issues, "#/id") else { return nil }
        guard Device.isID(text) else {
            issues.add("#/id", "bad_id", DeviceFieldRules.formOfID)
            return nil
        }
        return text
    }

    /// Reads a text; `check` returns a sentence for an invalid one.
    private func name(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String,
        check: (String) -> String? = { _ in nil }
    ) throws(JSONSyntaxError) -> DeviceChange.Member<String> {
        try member(&scanner) { (scanner) throws(JSONSyntaxError) in
            guard let text = try scanner.identifier(&issues, pointer, limit: Device.maximumNameBytes) else {
                return nil
            }
            guard let fault = check(text) else { return text }
            issues.add(pointer, "unknown_\(pointer.dropFirst(2))", fault)
            return nil
        }
    }

    private func tags(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> DeviceChange.Member<[String]> {
        try member(&scanner) { (scanner) throws(JSONSyntaxError) in
            var tags: Set<String> = []
            var count = 0
            let isArray = try scanner.elements(&issues, "#/tags") { (scanner, issues, index) throws(JSONSyntaxError) in
                count = index + 1
                guard count <= Device.maximumTags else { return try scanner.skip() }
                let tag = try scanner.identifier(&issues, "#/tags/\(index)", limit: Device.maximumNameBytes)
                if let tag { tags.insert(tag) }
            }
            if count > Device.maximumTags {
                issues.add("#/tags", "too_many_tags", "At most \(Device.maximumTags) tags; there are \(count).")
            }
            return isArray ? tags.sorted() : nil
        }
    }

    /// Reads attributes: an object of texts, numbers and Booleans; null removes an attribute.
    private func attributes(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> DeviceChange.Member<JSONObject> {
        try member(&scanner) { (scanner) throws(JSONSyntaxError) in
            guard try scanner.expect(.object, "an object", &issues, "#/attributes") else { return nil }
            var attributes = JSONObject()
            try scanner.object { (scanner, name) throws(JSONSyntaxError) in
                let value = try scanner.value()
                let pointer = "#/attributes/\(pointerStep(name))"
                switch value {
                case .array, .object:
                    issues.add(pointer, "wrong_type", "Must be a text, a number, true, false, or null to remove it.")
                case .double(let number) where abs(number) >= 0x1p63:
                    let detail = "A number beyond 64 bits would be rounded: send it as a text."
                    issues.add(pointer, "number_rounded", detail)
                default: break
                }
                if name.isEmpty || name.utf8.count > Device.maximumNameBytes {
                    issues.add(pointer, "bad_name", "A name has 1 to \(Device.maximumNameBytes) bytes.")
                }
                // Beyond the limit nothing is kept, so that the check for repeated names stays fast.
                if attributes.count <= Device.maximumAttributes { attributes[name] = value }
            }
            Self.checkSize(of: attributes, &issues)
            return attributes
        }
    }

    /// Reports when a device would have more attributes than it may.
    static func checkSize(of attributes: JSONObject, _ issues: inout RequestIssues) {
        if attributes.count > Device.maximumAttributes {
            issues.add("#/attributes", "too_many_attributes", "At most \(Device.maximumAttributes) attributes.")
        }
        let bytes = JSONValue.object(attributes).bytes.count
        if bytes > Device.maximumAttributeBytes {
            issues.add(
                "#/attributes",
                "too_large",
                "At most \(Device.maximumAttributeBytes) bytes as JSON; there are \(bytes)."
            )
        }
    }

    private func nullableTime(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> DeviceChange.Member<Date> {
        try member(&scanner) { (scanner) throws(JSONSyntaxError) in try time(&scanner, &issues, pointer) }
    }

    private func time(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> Date? {
        try scanner.pastTime(&issues, pointer, now: now).map { min($0, now) }
    }

    // MARK: Tokens

    private typealias Token = DeviceChange.Token

    private func tokens(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> DeviceChange.Member<[(slot: TokenSlot, token: DeviceChange.Member<Token>)]> {
        try member(&scanner) { (scanner) throws(JSONSyntaxError) in
            var list: [(slot: TokenSlot, token: DeviceChange.Member<Token>)] = []
            var count = 0
            guard try scanner.expect(.object, "an object of services", &issues, "#/tokens") else { return nil }
            try scanner.object { (scanner, name) throws(JSONSyntaxError) in
                let pointer = "#/tokens/\(pointerStep(name))"
                count += 1
                guard count <= Self.maximumTokens, var slot = Self.slot(name, &issues, pointer) else {
                    return try scanner.skip()
                }
                let token = try self.member(&scanner) { (scanner) throws(JSONSyntaxError) in
                    try self.token(&scanner, &issues, slot, pointer)
                }
                if let kind = token.value?.kind { slot.kind = kind }
                guard !list.contains(where: { $0.slot == slot }) else {
                    return issues.add(
                        pointer,
                        "repeated_field",
                        "The token of this service and kind stands here twice."
                    )
                }
                list.append((slot, token))
            }
            if count > Self.maximumTokens {
                issues.add("#/tokens", "too_many_tokens", "At most \(Self.maximumTokens) tokens; there are \(count).")
            }
            return list
        }
    }

    /// Returns the slot for a member of `tokens`: a service, or a service and a kind.
    private static func slot(_ name: String, _ issues: inout RequestIssues, _ pointer: String) -> TokenSlot? {
        let service = String(name.prefix { $0 != "/" })
        guard TokenService.named(service) != nil else {
            issues.add(pointer, "unknown_service", DeviceFieldRules.unknownService(service))
            return nil
        }
        guard let slot = TokenSlot(name) else {
            issues.add(pointer, "unknown_kind", DeviceFieldRules.formOfSlot)
            return nil
        }
        return slot
    }

    /// Reads a token: a text, or an object with more about it.
    ///
    /// The token's kind is returned when the slot is for the app's own tokens and the object names a kind.
    private func token(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ slot: TokenSlot,
        _ pointer: String
    ) throws(JSONSyntaxError) -> Token? {
        let service = slot.service
        if try scanner.peek() == .string {
            let text = try self.text(&scanner, &issues, service, pointer)
            return text.map { Token(value: $0) }
        }
        var text: String?
        var hasText = false
        var kindName: String?
        var activity: String?
        var attributesType: String?
        var environment = TokenEnvironment.unknown
        var registeredAt: Date?
        var tombstone: Tombstone?
        var refusals: [BackendRefusal] = []
        let isObject = try scanner.fields(TokenField.self, &issues, pointer) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .token:
                hasText = true
                text = try self.text(&scanner, &issues, service, pointer + "/token")
            case .kind: kindName = try scanner.text(&issues, pointer + "/kind")
            case .activity: activity = try scanner.text(&issues, pointer + "/activity")
            case .attributesType: attributesType = try scanner.text(&issues, pointer + "/attributes_type")
            case .registeredAt: registeredAt = try time(&scanner, &issues, pointer + "/registered_at")
            case .tombstone:
                let found = try member(&scanner) { (scanner) throws(JSONSyntaxError) in
                    try self.tombstone(&scanner, &issues, pointer + "/tombstone")
                }
                tombstone = found.value
            case .environment: environment = try self.environment(&scanner, &issues, pointer + "/environment")
            case .refusedBy: refusals = try self.refusals(&scanner, &issues, pointer + "/refused_by")
            case .alive: try scanner.skip()  // It follows from the tombstone.
            }
        }
        guard isObject else { return nil }
        if !hasText { issues.add(pointer + "/token", "missing", "The device token is missing.") }
        if tombstone != nil, registeredAt == nil {
            issues.add(
                pointer + "/registered_at",
                "missing",
                "A tombstone needs the time the token was registered at; leave the tombstone out to register anew."
            )
        }
        let kind = kind(kindName, activity: activity, attributesType: attributesType, in: slot, &issues, pointer)
        return text.map {
            Token(
                value: $0,
                kind: kind,
                environment: environment,
                registeredAt: registeredAt,
                tombstone: tombstone,
                refusals: refusals
            )
        }
    }

    /// Returns the kind that the members of a token name; nil when they name none.
    private func kind(
        _ kindName: String?,
        activity: String?,
        attributesType: String?,
        in slot: TokenSlot,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) -> TokenKind? {
        guard kindName != nil || activity != nil || attributesType != nil else { return nil }
        let known = kindName ?? slot.kind.typeName
        let name =
            switch (activity, attributesType) {
            case (let name?, nil) where known == TokenKind.liveActivityUpdate(activity: "").typeName: name
            case (nil, let name?) where known == TokenKind.liveActivityStart(attributesType: "").typeName: name
            case (nil, nil): slot.kind.typeName == known ? slot.kind.name : nil
            default: ""
            }
        guard let kind = TokenKind(typeName: known, name: name) else {
            issues.add(pointer + "/kind", "unknown_kind", DeviceFieldRules.formOfSlot)
            return nil
        }
        guard slot.kind == .device || slot.kind == kind else {
            issues.add(pointer + "/kind", "other_kind", "The name of the member says \(slot.description).")
            return nil
        }
        return kind
    }

    private func environment(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> TokenEnvironment {
        guard let text = try scanner.text(&issues, pointer) else { return .unknown }
        if let environment = TokenEnvironment(rawValue: text) { return environment }
        let names = TokenEnvironment.allCases.map(\.rawValue)
        let hint = didYouMean(text, names) ?? "The environments are \(names.joined(separator: ", "))."
        issues.add(pointer, "unknown_environment", hint)
        return .unknown
    }

    /// Reads the names of the backends that have refused a token.
    private func refusals(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> [BackendRefusal] {
        var list: [BackendRefusal] = []
        guard try scanner.expect(.object, "an object of backends", &issues, pointer) else { return [] }
        try scanner.object { (scanner, name) throws(JSONSyntaxError) in
            let entryPointer = pointer + "/\(pointerStep(name))"
            var reason: String?
            var asOf: Date?
            let isObject = try scanner.fields(RefusalField.self, &issues, entryPointer) {
                (scanner, issues, field) throws(JSONSyntaxError) in
                switch field {
                case .reason:
                    reason = try scanner.identifier(&issues, entryPointer + "/reason", limit: Device.maximumNameBytes)
                case .asOf: asOf = try time(&scanner, &issues, entryPointer + "/as_of")
                }
            }
            guard isObject, let reason, let asOf else {
                return issues.add(entryPointer, "incomplete", "A refusal has reason and as_of.")
            }
            guard list.count < BackendRefusal.maximum, !list.contains(where: { $0.backend == name }) else {
                return issues.add(entryPointer, "too_many", "At most \(BackendRefusal.maximum) backends, each once.")
            }
            list.append(BackendRefusal(backend: name, reason: reason, asOf: asOf))
        }
        return list
    }

    private func text(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ service: TokenService,
        _ pointer: String
    ) throws(JSONSyntaxError) -> String? {
        guard let text = try scanner.identifier(&issues, pointer, limit: AudienceReader.maximumTokenBytes) else {
            return nil
        }
        switch tokens.check(DeviceToken(text, service: service)) {
        case .success(let token): return token.value
        case .failure(let fault):
            issues.add(pointer, "malformed_token", "This is no token of \(service.rawValue): \(fault.problem).")
            return nil
        }
    }

    private func tombstone(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> Tombstone? {
        var asOf: Date?
        var at: Date?
        var backend: String?
        var reason: String?
        var isQuarantined: Bool?
        var formerIsQuarantined: Bool?
        let former = FormerName.quarantined.former.description
        let before = issues.count
        let isObject = try scanner.fields(TombstoneField.self, &issues, pointer) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .asOf: asOf = try time(&scanner, &issues, pointer + "/as_of")
            case .at: at = try time(&scanner, &issues, pointer + "/at")
            case .backend: backend = try scanner.identifier(&issues, pointer + "/backend", limit: 64)
            case .reason: reason = try scanner.identifier(&issues, pointer + "/reason", limit: Device.maximumNameBytes)
            case .quarantined: isQuarantined = try scanner.flag(&issues, pointer + "/quarantined")
            case .formerQuarantined: formerIsQuarantined = try scanner.flag(&issues, pointer + "/" + former)
            }
        }
        // Answers have both names with one value, so what was read from one may be sent back.
        if let isQuarantined, let formerIsQuarantined, isQuarantined != formerIsQuarantined {
            issues.add(
                pointer + "/" + former,
                "contradiction",
                "\"\(former)\" is the old name of \"quarantined\", which says something else: leave \"\(former)\" out."
            )
        }
        guard isObject, issues.count == before else { return nil }
        guard let asOf, let backend, let reason else {
            issues.add(pointer, "incomplete", "A tombstone has as_of, backend and reason.")
            return nil
        }
        return Tombstone(
            asOf: asOf,
            at: at ?? asOf,
            backend: backend,
            reason: reason,
            isQuarantined: isQuarantined ?? formerIsQuarantined ?? false
        )
    }
}
