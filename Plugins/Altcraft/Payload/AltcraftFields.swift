public import ChaparCore

/// One change of a profile field, which Altcraft calls a functional field.
///
/// Built with ``AltcraftFields/actionField(key:)``; several are merged into one object, where a later key overwrites.
/// Source: Altcraft's guide on functional fields, read 2026-08.
public struct ActionField: Sendable, Hashable {
    /// The field's name.
    public let key: String

    /// Assigns a value of the field's type.
    public func set(_ value: JSONValue) -> JSONObject { action("set", value) }
    /// Removes the field; any but `email`.
    public func unset(_ value: JSONValue = .null) -> JSONObject { action("unset", value) }
    /// Adds a number, which may be negative.
    public func incr(_ value: JSONValue) -> JSONObject { action("incr", value) }
    /// Adds elements to a list.
    public func add(_ value: JSONValue, submatch: String? = nil) -> JSONObject { action("add", value, submatch) }
    /// Removes elements from a list.
    public func delete(_ value: JSONValue, submatch: String? = nil) -> JSONObject { action("delete", value, submatch) }
    /// Writes the property that `submatch` names, of an object or of the objects in a list.
    public func upsert(_ value: JSONValue, submatch: String? = nil) -> JSONObject { action("upsert", value, submatch) }

    private func action(_ name: String, _ value: JSONValue, _ submatch: String? = nil) -> JSONObject {
        var change: JSONObject = ["action": .string(name), "value": value]
        if let submatch { change["submatch"] = .string(submatch) }
        var object = JSONObject()
        object[key] = .object(change)
        return object
    }
}

/// The rules for fields of profiles and subscriptions, and the problems of a caller's fields.
public enum AltcraftFields {
    /// The most fields of one kind in one request.
    public static let maximumCount = 200
    /// The longest request of fields, in bytes of JSON.
    public static let maximumBytes = 65_536
    /// The six changes.
    static let actions = ["set", "unset", "incr", "add", "delete", "upsert"]
    private static let words = PlatformWords(["action": actions])

    /// Begins a change of a profile field.
    public static func actionField(key: String) -> ActionField { ActionField(key: key) }

    /// Merges several changes into one object; of a repeated key the last counts.
    public static func mergeFields(_ fields: JSONObject...) -> JSONObject {
        var merged = JSONObject()
        for object in fields { for (name, value) in object { merged[name] = value } }
        return merged
    }

    /// Returns profile fields with the changes as Altcraft writes them.
    static func folded(profile fields: JSONObject) -> JSONObject {
        var folded = fields
        for (name, value) in fields {
            guard let change = value.objectValue, change["action"] != nil else { continue }
            folded[name] = .object(words.folded(change))
        }
        return folded
    }

    /// Returns the problems of profile fields: any JSON is a value, but a change must be one that Altcraft knows.
    static func issues(profile fields: JSONObject, at pointer: String) -> [Finding] {
        var issues = common(fields, at: pointer)
        for (name, value) in fields {
            guard let change = value.objectValue.map(words.folded), let action = change["action"] else { continue }
            if let problem = problem(in: change, action) {
                issues.append(
                    Finding(pointer: "\(pointer)/\(name.jsonPointerStep)", code: "invalid_field", detail: problem)
                )
            }
        }
        return issues
    }

    /// Returns the problems of subscription fields: texts, numbers, truth values and null only (code 475).
    static func issues(custom fields: JSONObject, at pointer: String) -> [Finding] {
        var issues = common(fields, at: pointer)
        for (name, value) in fields {
            let kind: String
            switch value {
            case .array: kind = "a list"
            case .object: kind = "an object"
            case .null, .bool, .integer, .double, .string: continue
            }
            issues.append(
                Finding(
                    pointer: "\(pointer)/\(name.jsonPointerStep)",
                    code: "not_primitive",
                    detail:
                        "The subscription field \(shown(name)) holds \(kind). Altcraft takes a text, a number, true or "
                        + "false here (475); put what has parts into profile_fields."
                )
            )
        }
        return issues
    }

    /// Returns the problems of an event's values: texts, numbers, truth values and null only (code 472).
    static func issues(event data: JSONObject, at pointer: String) -> [Finding] {
        var issues = common(data, at: pointer)
        for (name, value) in data where value.arrayValue != nil || value.objectValue != nil {
            let detail = "Altcraft takes a text, a number, true or false here (472); \(shown(name)) has parts."
            issues.append(
                Finding(pointer: "\(pointer)/\(name.jsonPointerStep)", code: "not_primitive", detail: detail)
            )
        }
        return issues
    }

    private static func common(_ fields: JSONObject, at pointer: String) -> [Finding] {
        var issues: [Finding] = []
        if fields.count > maximumCount {
            let detail = "There are \(fields.count) fields; at most \(maximumCount) go in one request."
            issues.append(Finding(pointer: pointer, code: "too_many_fields", detail: detail))
        } else if JSONValue.object(fields).bytes.count > maximumBytes {
            let detail = "The fields have more than \(maximumBytes) bytes of JSON; split them."
            issues.append(Finding(pointer: pointer, code: "too_large", detail: detail))
        }
        for (name, _) in fields where name.allSatisfy(\.isWhitespace) || name.utf8.count > 128 {
            let detail =
                "A field's name has 1 to 128 bytes; this one is \(name.isEmpty ? "empty" : "blank or too long")."
            issues.append(
                Finding(pointer: "\(pointer)/\(name.jsonPointerStep)", code: "invalid_name", detail: detail)
            )
        }
        return issues
    }

    private static func problem(in change: JSONObject, _ action: JSONValue) -> String? {
        guard let action = action.stringValue, actions.contains(action) else {
            return "Its action must be one of \(actions.joined(separator: ", "))."
        }
        let known: Set<String> = ["action", "value", "submatch"]
        if let other = change.first(where: { !known.contains($0.name) })?.name {
            return "A change has action, value and submatch; \(shown(other)) is none of them."
        }
        if let submatch = change["submatch"], submatch.stringValue?.isEmpty ?? true {
            return "submatch must be the property's path, a text."
        }
        let value = change["value"] ?? .null
        switch action {
        case "unset": return value == .null ? nil : "unset takes no value; write null."
        case "incr": return value.numberValue == nil ? "incr takes a number, not \(kind(of: value))." : nil
        case "add", "delete":
            let elements = value.arrayValue
            return elements == nil ? "\(action) takes a list, not \(kind(of: value))." : nil
        case "upsert":
            return change["submatch"] == nil && value.objectValue == nil
                ? "upsert wants submatch, the path of the property it writes." : nil
        default: return change["value"] == nil ? "set wants a value." : nil
        }
    }

    private static func kind(of value: JSONValue) -> String {
        switch value {
        case .null: "null"
        case .bool: "true or false"
        case .integer, .double: "a number"
        case .string: "a text"
        case .array: "a list"
        case .object: "an object"
        }
    }

    static func shown(_ name: String) -> String { "\"\(name.prefix(40))\"" }
}
