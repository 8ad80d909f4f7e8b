public import Foundation
public import ChaparCore

/// Tags and attributes by user: they apply to all devices of the user.
public struct ChabokUsers: TagEditor {
    /// The owner of attributes.
    @nonexhaustive
    public enum Owner: Sendable, Hashable {
        /// All devices of a user.
        case user(String)
        /// One device.
        case installation(String)

        var member: (String, JSONValue) {
            switch self {
            case .user(let id): ("userId", .string(id))
            case .installation(let id): ("installationId", .string(id))
            }
        }
    }

    let client: ChabokClient

    // MARK: Tags

    /// Adds a tag; returns the number of devices.
    public func addTag(_ tag: String, to user: String) async throws(PushError) -> Int {
        try await count("GET", ChabokClient.path("installations", "addTag", user, tag))
    }

    /// Adds tags; returns the number of devices.
    public func addTags(_ tags: [String], to user: String) async throws(PushError) -> Int {
        try await count("POST", "/installations/addTags", body(user, tags))
    }

    /// Adds or edits a tag with a value; returns the number of devices.
    public func addTag(_ tag: String, value: String, to user: String) async throws(PushError) -> Int {
        let body: JSONValue = ["userId": .string(user), "tag": .string(tag), "value": .string(value)]
        return try await count("POST", "/installations/addValueTag", body)
    }

    /// Removes a tag; returns the number of devices.
    public func removeTag(_ tag: String, of user: String) async throws(PushError) -> Int {
        try await count("GET", ChabokClient.path("installations", "removeTag", user, tag))
    }

    /// Removes tags; returns the number of devices.
    public func removeTags(_ tags: [String], of user: String) async throws(PushError) -> Int {
        try await count("POST", "/installations/removeTags", body(user, tags))
    }

    /// Removes a tag that has a value; returns the number of devices.
    public func removeValueTag(_ tag: String, of user: String) async throws(PushError) -> Int {
        try await count("POST", "/installations/removeValueTag", ["userId": .string(user), "tag": .string(tag)])
    }

    /// Sets attributes: numbers, texts, truth values, lists of texts, times as ISO 8601 texts.
    public func setAttributes(_ attributes: JSONObject, of owner: Owner) async throws(PushError) {
        if let problem = Self.problem(attributes, "#/attributes").first {
            throw PushError(.invalidRequest, problem.detail, reason: problem.code)
        }
        let (name, value) = owner.member
        var body: JSONObject = ["attributes": .object(attributes)]
        body[name] = value
        _ = try await client.call("POST", "/installations/attributes", .object(body))
    }

    /// The change of an attribute of one installation.
    @nonexhaustive
    public enum AttributeChange: Sendable, Hashable {
        /// A number, a text, a truth value or a list of texts.
        case set(JSONValue)
        /// A time.
        case setDate(Date)
        /// Removes the attribute.
        case unset
        /// Adds texts to a list.
        case add([String])
        /// Removes texts from a list.
        case remove([String])
    }

    /// Changes attributes of one installation without naming the others.
    public func update(_ changes: [String: AttributeChange], of installation: String) async throws(PushError) {
        var data = JSONObject()
        var keys = JSONObject()
        for (name, change) in changes.sorted(by: { $0.key < $1.key }) {
            switch change {
            case .set(let value):
                if let problem = Self.problem([name: value], "#/attributes").first {
                    throw PushError(.invalidRequest, problem.detail, reason: problem.code)
                }
                data[name] = value
            case .setDate(let date):
                data[name] = .string(RFC3339.string(date))
                keys[name] = ["type": "date"]
            case .unset: keys[name] = ["operation": "unset"]
            case .add(let texts), .remove(let texts):
                let isAddition = if case .add = change { true } else { false }
                keys[name] = [
                    "type": "array", "operation": isAddition ? "addToArray" : "removeFromArray",
                    "value": .array(texts.map { .string($0) }),
                ]
            }
        }
        var body: JSONObject = ["installationId": .string(installation), "data": .object(data)]
        if !keys.isEmpty { body["__meta"] = ["keys": .object(keys)] }
        _ = try await client.call("PUT", "/installations/userInfo", .object(body))
    }

    /// Adds to numeric attributes of one installation; a negative number subtracts.
    ///
    /// A repeat would add twice, so a call whose answer was lost is not repeated.
    public func increment(_ amounts: [String: Double], of installation: String) async throws(PushError) {
        let list = amounts.sorted { $0.key < $1.key }.map { name, amount -> JSONValue in
            ["attribute": .string(name), "value": .number(amount)]
        }
        let body: JSONValue = ["installationId": .string(installation), "attributes": .array(list)]
        _ = try await client.call("POST", "/installations/incrementAttribute", body, isRepeatable: false)
    }

    private func body(_ user: String, _ tags: [String]) -> JSONValue {
        ["userId": .string(user), "tags": .array(tags.map { .string($0) })]
    }

    private func count(_ method: String, _ path: String, _ body: JSONValue? = nil) async throws(PushError) -> Int {
        let answer = try await client.call(method, path, body)
        guard let count = answer.count else {
            throw PushError(.badAnswer, "Chabok's answer has no count", reason: "bad_answer")
        }
        return count
    }

    // MARK: As a gateway asks for it

    /// Returns the problems of tags: values are a truth value, a text, a number, or null; `attributes` is an object.
    public func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding] {
        var issues: [Finding] = []
        if device.user == nil {
            issues.append(
                Finding(pointer: "#", code: "user_missing", detail: "Chabok keeps tags of users, not of guests.")
            )
        }
        for (name, value) in tags {
            let pointer = "#/\(name)"
            switch (name, value) {
            case ("attributes", .object(let attributes)): issues += Self.problem(attributes, pointer)
            case ("attributes", _):
                issues.append(Finding(pointer: pointer, code: "wrong_type", detail: "attributes is an object."))
            case (_, .array), (_, .object):
                let detail = "A tag's value is true, a text, a number, or null to remove it."
                issues.append(Finding(pointer: pointer, code: "wrong_type", detail: detail))
            default: break
            }
        }
        return issues
    }

    /// Sets the tags of the device's user, and from the field `attributes` the user's attributes.
    ///
    /// `true` sets a plain tag, and so does `"1"` for a tag that the device has without a value. Another text or number
    /// sets a tag with a value. Null and `false` remove a tag.
    public func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {
        _ = try await set(tags, of: device)
    }

    /// Sets tags as ``setTags(_:of:)`` does; returns the largest number of devices that a call reached.
    public func edit(
        _ tags: JSONObject,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        ["devices": .integer(Int64(try await set(tags, of: device)))]
    }

    private func set(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) -> Int {
        if let issue = issues(in: tags, of: device).first {
            throw PushError(.invalidRequest, issue.detail, reason: issue.code)
        }
        guard let user = device.user else { return 0 }  // An issue already.
        var added: [String] = []
        var removed: [String] = []
        var reached = 0
        for (name, value) in tags where name != "attributes" {
            switch value {
            case .bool(true): added.append(name)
            // The gateway writes 1 for a tag that has no value.
            case .string("1") where device.tags.contains(name): added.append(name)
            case .null, .bool(false): removed.append(name)
            default:
                let text = value.stringValue ?? value.text
                reached = max(reached, try await addTag(name, value: text, to: user))
            }
        }
        if !added.isEmpty { reached = max(reached, try await addTags(added, to: user)) }
        if !removed.isEmpty { reached = max(reached, try await removeTags(removed, of: user)) }
        // Chabok does not show whether a tag has a value, so it is removed in both ways.
        for name in removed { reached = max(reached, try await removeValueTag(name, of: user)) }
        if case .object(let attributes)? = tags["attributes"] { try await setAttributes(attributes, of: .user(user)) }
        return reached
    }

    /// Returns the problems of attributes or event data.
    static func problem(_ values: JSONObject, _ pointer: String) -> [Finding] {
        values.members.compactMap { name, value in
            switch value {
            case .bool, .integer, .double, .string: return nil
            case .array(let list) where list.allSatisfy({ $0.stringValue != nil }): return nil
            default:
                let detail = "A value is a number, a text, true or false, or a list of texts."
                return Finding(pointer: "\(pointer)/\(name)", code: "wrong_type", detail: detail)
            }
        }
    }
}

extension JSONValue {
    /// Returns a JSON number, an integer where the value is whole.
    static func number(_ value: Double) -> JSONValue {
        value == value.rounded() && abs(value) < 1e15 ? .integer(Int64(clamping: value)) : .double(value)
    }
}
