import ChaparCore

/// An event of an app's own, which Altcraft calls a mobile event, read from what a caller gave.
///
/// Source: the code of altcraft/ios-sdk and altcraft/android-sdk 1.0.x (`mobileEvent`), read 2026-11.
struct AltcraftMobileEvent: Sendable {
    static let names = [
        "pixel", "client_id", "message", "matching", "matching_type", "profile_fields", "subscription", "utm",
    ]
    /// The tags of a campaign with the names of their parts.
    static let utmParts = [
        ("campaign", "cn"), ("content", "cc"), ("keyword", "ck"), ("medium", "cm"), ("source", "cs"), ("temp", "ct"),
    ]
    /// The channels of a subscription, each with the members that it needs.
    static let channels = [
        ("email", ["email"]), ("sms", ["phone"]), ("push", ["provider", "subscription_id"]),
        ("telegram_bot", ["cc_data"]), ("whatsapp", ["cc_data"]), ("viber", ["cc_data"]), ("notify", ["cc_data"]),
    ]

    private static let subscriptionWords = PlatformWords([
        "channel": channels.map(\.0), "status": SubscriptionStatus.allCases.map(\.rawValue),
    ])

    let name: String
    let data: JSONObject
    /// The pixel that takes the event.
    private(set) var pixel = ""
    private var clientID = ""
    /// The `_uid` of the message that led to the event.
    private var message: String?
    private var matching: JSONObject?
    private var matchingType: String?
    private var profileFields: JSONObject?
    private var subscription: JSONObject?
    private var utm: [(part: String, value: String)] = []

    /// Reads an event; each mistake is added to `issues`, and its value is ignored.
    ///
    /// `pixel` is used when the event's options name none.
    init(_ event: CustomEvent, pixel fallback: String?, issues: inout [Finding]) {
        name = event.name
        data = event.data.withoutNulls
        if name.allSatisfy(\.isWhitespace) {
            issues.append(Finding(pointer: "#/name", code: "missing", detail: "Name the event."))
        }
        issues += AltcraftFields.issues(event: event.data, at: "#/data")
        for (name, value) in event.options where value != .null { read(name, value, &issues) }
        if pixel.isEmpty { pixel = fallback ?? "" }
        if pixel.isEmpty, event.options["pixel"] == nil || event.options["pixel"] == .null {
            let detail = "Name the pixel that takes the event here, or as pixel in the backend's section."
            issues.append(Finding(pointer: "#/options/pixel", code: "missing", detail: detail))
        }
    }

    private mutating func read(_ name: String, _ value: JSONValue, _ issues: inout [Finding]) {
        let pointer = "#/options/\(name.jsonPointerStep)"
        func wrong(_ wanted: String) {
            issues.append(Finding(pointer: pointer, code: "wrong_type", detail: "\(name) must be \(wanted)."))
        }
        switch name {
        case "pixel", "client_id", "message", "matching_type":
            guard let text = value.stringValue, !text.allSatisfy(\.isWhitespace), text.utf8.count <= 256 else {
                return wrong("a text of 1 to 256 bytes")
            }
            switch name {
            case "pixel": pixel = text
            case "client_id": clientID = text
            case "message": message = text
            default: matchingType = text
            }
        case "matching":
            guard let object = value.objectValue else { return wrong("an object: how the profile is found") }
            matching = object.withoutNulls
        case "profile_fields":
            guard let fields = value.objectValue else { return wrong("an object of field names and values (474)") }
            issues += AltcraftFields.issues(profile: fields, at: pointer)
            profileFields = AltcraftFields.folded(profile: fields).withoutNulls
        case "subscription":
            guard let object = value.objectValue.map(Self.subscriptionWords.folded) else {
                return wrong("an object with channel and resource_id")
            }
            if let issue = Self.issue(subscription: object, at: pointer) { return issues.append(issue) }
            subscription = object.withoutNulls
        case "utm":
            guard let tags = value.objectValue else { return wrong("an object of texts") }
            read(utm: tags, pointer, &issues)
        default:
            let known = Self.names.joined(separator: ", ")
            let detail = "There is no option \(AltcraftFields.shown(name)). Options: \(known)."
            issues.append(Finding(pointer: pointer, code: "unknown_field", detail: detail))
        }
    }

    private mutating func read(utm tags: JSONObject, _ pointer: String, _ issues: inout [Finding]) {
        for (name, value) in tags where value != .null {
            let place = "\(pointer)/\(name.jsonPointerStep)"
            guard let part = Self.utmParts.first(where: { $0.0 == name })?.1 else {
                let known = Self.utmParts.map(\.0).joined(separator: ", ")
                issues.append(Finding(pointer: place, code: "unknown_field", detail: "Allowed: \(known)."))
                continue
            }
            guard let text = value.stringValue else {
                issues.append(Finding(pointer: place, code: "wrong_type", detail: "\(name) must be a text."))
                continue
            }
            if !text.isEmpty { utm.append((part, text)) }
        }
    }

    private static func issue(subscription: JSONObject, at pointer: String) -> Finding? {
        func issue(_ member: String, _ detail: String) -> Finding {
            Finding(pointer: "\(pointer)/\(member)", code: "invalid_subscription", detail: detail)
        }
        guard let channel = channels.first(where: { $0.0 == subscription["channel"]?.stringValue }) else {
            return issue("channel", "Allowed: \(channels.map(\.0).joined(separator: ", ")).")
        }
        guard subscription["resource_id"]?.integerValue != nil else {
            return issue("resource_id", "The number of the resource is needed.")
        }
        for member in channel.1 {
            let value = subscription[member]
            let isThere = member == "cc_data" ? value?.objectValue != nil : value?.stringValue?.isEmpty == false
            guard isThere else { return issue(member, "A subscription of the channel \(channel.0) needs it.") }
        }
        return nil
    }

    /// Returns the parts of the request; empty optional parts are left out, as the SDK does.
    ///
    /// - Parameters:
    ///   - time: The time of the event, in seconds since 1970.
    ///   - zone: The device's minutes west of UTC.
    /// - Returns: The parts, in the order of the SDK.
    func parts(at time: Int64, zone: Int) -> [MultipartForm.Part] {
        var parts: [MultipartForm.Part] = [
            .text("tz", String(zone)), .text("t", String(max(1, time))), .text("aci", clientID), .text("wn", name),
        ]
        if let matchingType { parts.append(.text("mm", matchingType)) }
        for (part, value) in utm { parts.append(.text(part, value)) }
        if !data.isEmpty { parts.append(.json("wd", .object(data))) }
        if let message { parts.append(.json("mi", .string(message))) }
        for (part, value) in [("ma", matching), ("sn", subscription), ("pf", profileFields)] {
            if let value, !value.isEmpty { parts.append(.json(part, .object(value))) }
        }
        return parts
    }
}

/// A form of named parts, `multipart/form-data` (RFC 7578).
struct MultipartForm: Sendable {
    /// A part: its name, the type of its content, and the content.
    struct Part: Sendable, Hashable {
        let name: String
        let type: String
        let content: [UInt8]

        static func text(_ name: String, _ value: String) -> Part {
            Part(name: name, type: "text/plain; charset=utf-8", content: Array(value.utf8))
        }

        static func json(_ name: String, _ value: JSONValue) -> Part {
            Part(name: name, type: "application/json; charset=utf-8", content: value.bytes)
        }
    }

    let parts: [Part]

    /// Returns the value of `Content-Type`.
    static func type(boundary: String) -> String { "multipart/form-data; boundary=\(boundary)" }

    /// Returns the body; `boundary` must not be in the content of a part.
    func bytes(boundary: String) -> [UInt8] {
        var bytes: [UInt8] = []
        for part in parts {
            bytes += "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(part.name)\"\r\n".utf8
            bytes += "Content-Type: \(part.type)\r\n\r\n".utf8
            bytes += part.content
            bytes += "\r\n".utf8
        }
        bytes += "--\(boundary)--\r\n".utf8
        return bytes
    }
}
