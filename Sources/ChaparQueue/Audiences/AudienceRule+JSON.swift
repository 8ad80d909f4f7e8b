internal import Foundation
package import ChaparCore

/// A mistake in a rule, with the pointer to it.
package struct AudienceMistake: Error, Sendable, Hashable {
    /// The JSON pointer, such as `#/to/audience/all/0/tag`.
    package var pointer: String
    /// The stable code.
    package var code: String
    /// The sentence, with the fix.
    package var detail: String

    /// Makes a mistake.
    package init(_ pointer: String, _ code: String, _ detail: String) {
        self.pointer = pointer
        self.code = code
        self.detail = detail
    }
}

extension AudienceRule {
    /// The names of the nodes and leaves, for messages.
    package static let nodeNames = [
        "all", "any", "not", "tag", "user_tag", "platform", "service", "locale", "zone", "version", "seen_within",
        "registered_within", "segment", "everyone",
    ]

    private static let maximumNameBytes = Device.maximumNameBytes
    /// The longest span, in seconds: a hundred years.
    private static let maximumSpan: Int64 = 3_155_760_000

    /// The rule as JSON, the form that is stored: reading it gives the same rule.
    package var json: JSONValue {
        switch self {
        case .all(let rules): ["all": .array(rules.map(\.json))]
        case .any(let rules): ["any": .array(rules.map(\.json))]
        case .not(let rule): ["not": rule.json]
        case .tag(let tag): ["tag": .string(tag)]
        case .userTag(let tag): ["user_tag": .string(tag)]
        case .platform(let name): ["platform": .string(name)]
        case .service(let name): ["service": .string(name)]
        case .locale(let name): ["locale": .string(name)]
        case .zone(let name): ["zone": .string(name)]
        case .version(let bounds): ["version": bounds.json]
        case .seenWithin(let seconds): ["seen_within": .string(ISODuration.text(seconds))]
        case .registeredWithin(let seconds): ["registered_within": .string(ISODuration.text(seconds))]
        case .segment(let name): ["segment": .string(name)]
        case .everyone: ["everyone": true]
        }
    }

    /// The bytes of ``json``.
    package var stored: [UInt8] { json.bytes }

    /// Reads ``stored``; nil for other bytes.
    package init?(stored: [UInt8]) {
        guard let json = try? JSONValue(parsing: stored), let rule = Self(json: json) else { return nil }
        self = rule
    }

    /// Reads ``json``; nil for another value.
    ///
    /// The limits of a caller's rule do not apply, since the rule has the rules of segments in the place of their
    /// names.
    package init?(json: JSONValue) {
        var reader = RuleReader(isStored: true)
        guard let rule = reader.read(json, "#", depth: 1), reader.mistakes.isEmpty else { return nil }
        self = rule
    }

    /// Reads a rule, and returns it in its canonical form, or every mistake in it.
    ///
    /// - Parameters:
    ///   - value: The rule as JSON.
    ///   - pointer: The pointer to the rule, with which the pointers of mistakes begin.
    /// - Returns: The rule, or nil with the mistakes; and the segments that it names with the pointers to them.
    package static func reading(
        _ value: JSONValue,
        at pointer: String
    ) -> (rule: AudienceRule?, mistakes: [AudienceMistake], segments: [(name: String, pointer: String)]) {
        var reader = RuleReader()
        let rule = reader.read(value, pointer, depth: 1)
        if reader.leaves > maximumLeaves {
            let detail = "At most \(maximumLeaves) leaves; there are \(reader.leaves). Store parts of it as segments."
            reader.mistakes.append(AudienceMistake(pointer, "too_many_leaves", detail))
        }
        return (reader.mistakes.isEmpty ? rule?.canonical : nil, reader.mistakes, reader.segments)
    }

    /// The rule without nodes that change nothing: `all` and `any` of one rule, repeated rules, `not` of `not`, and
    /// `all` within `all`.
    ///
    /// Its meaning is the same.
    package var canonical: AudienceRule {
        switch self {
        case .all(let rules):
            let parts = Self.unique(
                rules.flatMap { rule -> [AudienceRule] in
                    if case .all(let inner) = rule.canonical { inner } else { [rule.canonical] }
                }
            )
            return parts.count == 1 ? parts[0] : .all(parts)
        case .any(let rules):
            let parts = Self.unique(
                rules.flatMap { rule -> [AudienceRule] in
                    if case .any(let inner) = rule.canonical { inner } else { [rule.canonical] }
                }
            )
            return parts.count == 1 ? parts[0] : .any(parts)
        case .not(.not(let rule)): return rule.canonical
        case .not(let rule): return .not(rule.canonical)
        default: return self
        }
    }

    private static func unique(_ rules: [AudienceRule]) -> [AudienceRule] {
        // Rules compare by Swift's texts, for which two spellings of a letter are one.
        var seen: Set<ExactText> = []
        return rules.filter { seen.insert(ExactText($0.json.text)).inserted }
    }

    private struct RuleReader {
        /// Whether bounds do not apply.
        var isStored = false
        var mistakes: [AudienceMistake] = []
        var leaves = 0
        var segments: [(name: String, pointer: String)] = []

        mutating func read(_ value: JSONValue, _ pointer: String, depth: Int) -> AudienceRule? {
            guard case .object(let object) = value else {
                add(pointer, "wrong_type", "A rule is an object with one member, such as {\"tag\": \"news\"}.")
                return nil
            }
            guard depth <= maximumDepth || isStored && depth <= 4 * maximumDepth else {
                let detail = "Rules may be nested \(maximumDepth) deep. Store the inner part as a segment."
                add(pointer, "too_deep", detail)
                return nil
            }
            guard object.count == 1, let (name, content) = object.members.first else {
                let detail =
                    object.isEmpty
                    ? "The rule is empty. Give one of \(nodeNames.joined(separator: ", ")); for every device everyone."
                    : "A rule has one member; there are \(object.count). Put them under all, one object each."
                add(pointer, object.isEmpty ? "audience_empty" : "audience_ambiguous", detail)
                return nil
            }
            let place = pointer + "/" + name.jsonPointerStep
            switch name {
            case "all": return list(content, place, depth).map(AudienceRule.all)
            case "any": return list(content, place, depth).map(AudienceRule.any)
            case "not": return read(content, place, depth: depth + 1).map(AudienceRule.not)
            default: break
            }
            leaves += 1
            switch name {
            case "tag": return text(content, place).map(AudienceRule.tag)
            case "user_tag": return text(content, place).map(AudienceRule.userTag)
            case "platform": return platform(content, place)
            case "service": return service(content, place)
            case "locale": return text(content, place).map(AudienceRule.locale)
            case "zone": return zone(content, place)
            case "version": return version(content, place)
            case "seen_within": return span(content, place).map(AudienceRule.seenWithin)
            case "registered_within": return span(content, place).map(AudienceRule.registeredWithin)
            case "segment":
                guard let name = text(content, place) else { return nil }
                guard SegmentName.isName(name) else {
                    add(place, "bad_segment", SegmentName.form)
                    return nil
                }
                segments.append((name, place))
                return .segment(name)
            case "everyone":
                if content.boolValue == true { return .everyone }
                add(place, "audience_empty", "Only true means something here.")
                return nil
            default:
                add(place, "unknown_leaf", "No rule has this name. Use one of \(nodeNames.joined(separator: ", ")).")
                return nil
            }
        }

        private mutating func list(_ value: JSONValue, _ pointer: String, _ depth: Int) -> [AudienceRule]? {
            guard case .array(let items) = value else {
                add(pointer, "wrong_type", "Give a list of rules.")
                return nil
            }
            guard !items.isEmpty else {
                add(pointer, "audience_empty", "The list is empty. Name at least one rule; for every device everyone.")
                return nil
            }
            guard items.count <= maximumAlternatives || isStored else {
                let detail =
                    "At most \(maximumAlternatives) rules; there are \(items.count). Divide them into segments."
                add(pointer, "too_many_rules", detail)
                return nil
            }
            var rules: [AudienceRule] = []
            for (index, item) in items.enumerated() {
                if let rule = read(item, "\(pointer)/\(index)", depth: depth + 1) { rules.append(rule) }
            }
            return rules.count == items.count ? rules : nil
        }

        private mutating func text(_ value: JSONValue, _ pointer: String) -> String? {
            guard let text = value.stringValue else {
                add(pointer, "wrong_type", "Give a text.")
                return nil
            }
            guard !text.isEmpty else {
                add(pointer, "empty", "The text is empty. Write a name, or leave the rule out.")
                return nil
            }
            guard text.utf8.count <= maximumNameBytes else {
                add(pointer, "too_long", "At most \(maximumNameBytes) bytes; there are \(text.utf8.count). Shorten it.")
                return nil
            }
            guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7f }) else {
                add(pointer, "control_character", "Control characters are not allowed. Remove them.")
                return nil
            }
            return text
        }

        private mutating func platform(_ value: JSONValue, _ pointer: String) -> AudienceRule? {
            guard let name = text(value, pointer) else { return nil }
            let isOwn = name.hasPrefix("x-") && TokenService.named(name) != nil
            guard isStored || isOwn || Device.platforms.contains(name) else {
                // No device has another one: the rule would match none, without a word.
                let nearest = Suggestion.nearest(to: name, among: Device.platforms)
                let meant = nearest.map { "Did you mean \"\($0)\"? " } ?? ""
                let known = Device.platforms.joined(separator: ", ")
                add(pointer, "unknown_platform", "\(meant)Use one of \(known), or x- and a name.")
                return nil
            }
            return .platform(name)
        }

        private mutating func service(_ value: JSONValue, _ pointer: String) -> AudienceRule? {
            guard let name = text(value, pointer) else { return nil }
            guard isStored || TokenService.named(name) != nil else {
                let known = TokenService.known.map(\.rawValue).joined(separator: ", ")
                add(pointer, "unknown_service", "There is no such service. Use one of \(known), or x- and a name.")
                return nil
            }
            return .service(name)
        }

        private mutating func zone(_ value: JSONValue, _ pointer: String) -> AudienceRule? {
            guard let name = text(value, pointer) else { return nil }
            guard isStored || TimeZone(identifier: name) != nil || TimeZone.knownTimeZoneIdentifiers.isEmpty else {
                add(pointer, "unknown_zone", "There is no such time zone. Write one such as Asia/Tehran or UTC.")
                return nil
            }
            return .zone(name)
        }

        private mutating func span(_ value: JSONValue, _ pointer: String) -> Int64? {
            let seconds = value.stringValue.flatMap(ISODuration.seconds) ?? value.integerValue
            guard let seconds, (1...maximumSpan).contains(seconds) else {
                add(pointer, "bad_duration", "Write a span such as P30D, PT12H or P2W, at most 36525 days.")
                return nil
            }
            return seconds
        }

        private mutating func version(_ value: JSONValue, _ pointer: String) -> AudienceRule? {
            if case .string = value {
                guard let number = versionText(value, pointer) else { return nil }
                return .version(VersionBounds(equal: number))
            }
            guard case .object(let object) = value, !object.isEmpty else {
                let detail = "Give a version such as \"4.2\", or bounds: {\"at_least\": \"4.0\", \"below\": \"4.2\"}."
                add(pointer, "wrong_type", detail)
                return nil
            }
            var bounds = VersionBounds()
            let before = mistakes.count
            for (name, content) in object {
                let place = pointer + "/" + name.jsonPointerStep
                switch name {
                case "below": bounds.below = versionText(content, place)
                case "at_least": bounds.atLeast = versionText(content, place)
                case "equal": bounds.equal = versionText(content, place)
                default: add(place, "unknown_field", "The bounds of a version are below, at_least and equal.")
                }
            }
            return mistakes.count == before ? .version(bounds) : nil
        }

        private mutating func versionText(_ value: JSONValue, _ pointer: String) -> String? {
            guard let text = text(value, pointer) else { return nil }
            guard VersionBounds.parts(text) != nil else {
                add(pointer, "bad_version", "A version begins with a number, such as 4.2.1.")
                return nil
            }
            return text
        }

        private mutating func add(_ pointer: String, _ code: String, _ detail: String) {
            mistakes.append(AudienceMistake(pointer, code, detail))
        }
    }
}

extension AudienceRule.VersionBounds {
    fileprivate var json: JSONValue {
        var object = JSONObject()
        if let below { object["below"] = .string(below) }
        if let atLeast { object["at_least"] = .string(atLeast) }
        if let equal { object["equal"] = .string(equal) }
        return .object(object)
    }
}

extension AudienceRule: Codable {
    /// Reads the JSON form.
    package init(from decoder: any Decoder) throws {
        let value = try JSONValue(from: decoder)
        let (rule, mistakes, _) = Self.reading(value, at: "#")
        guard let rule else { throw mistakes.first ?? AudienceMistake("#", "wrong_type", "This is no rule.") }
        self = rule
    }

    /// Writes the JSON form.
    package func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// The names of segments, within an app.
package enum SegmentName {
    /// The rule that a name follows, for messages.
    package static let form = "A segment's name has 1 to 128 of A-Z a-z 0-9 . _ : -"

    /// Whether a text can be a name.
    package static func isName(_ text: String) -> Bool { Device.isID(text) }
}

/// A span of time as ISO 8601 writes it, in weeks, days, hours, minutes and seconds.
package enum ISODuration {
    /// Reads a text such as `P30D`, `P2W` or `PT1H30M`; nil for any other, and for years and months, which have no
    /// fixed length.
    package static func seconds(_ text: String) -> Int64? {
        var bytes = Substring(text).utf8
        guard bytes.popFirst() == UInt8(ascii: "P"), !bytes.isEmpty else { return nil }
        var units: [(UInt8, Int64)] = [(UInt8(ascii: "W"), 604_800), (UInt8(ascii: "D"), 86_400)]
        var total: Int64 = 0
        var isTime = false
        while let first = bytes.first {
            if first == UInt8(ascii: "T") {
                guard !isTime, bytes.count > 1 else { return nil }
                isTime = true
                units = [(UInt8(ascii: "H"), 3_600), (UInt8(ascii: "M"), 60), (UInt8(ascii: "S"), 1)]
                bytes.removeFirst()
                continue
            }
            let digits = bytes.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            guard !digits.isEmpty, let number = Int64(String(decoding: digits, as: UTF8.self)) else { return nil }
            bytes.removeFirst(digits.count)
            // Units stand in their order, each once.
            guard let unit = bytes.popFirst(), let place = units.firstIndex(where: { $0.0 == unit }) else { return nil }
            let (span, overflows) = number.multipliedReportingOverflow(by: units[place].1)
            let (sum, isAbove) = total.addingReportingOverflow(span)
            guard !overflows, !isAbove else { return nil }
            total = sum
            units.removeSubrange(...place)
        }
        return total
    }

    /// Returns the text of a number of seconds: days where they are whole ones.
    package static func text(_ seconds: Int64) -> String {
        seconds % 86_400 == 0 && seconds > 0 ? "P\(seconds / 86_400)D" : "PT\(seconds)S"
    }
}
