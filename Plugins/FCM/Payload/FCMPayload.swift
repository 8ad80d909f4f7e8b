internal import Foundation
internal import ChaparCore

/// A message without its target, encoded once for all recipients of a kind and language; only a recipient's own values
/// are inserted for each.
struct FCMBody: Sendable {
    /// `{"message":{…`, open at its end.
    let bytes: [UInt8]
    /// Where the 36 characters of the delivery's id go.
    let marks: [Int]

    /// A placeholder for a delivery's id, as a JSON string: between its quotation marks are as many bytes as an id has.
    static let mark = [UInt8(ascii: "\"")] + encodedMark + [UInt8(ascii: "\"")]
    private static let encodedMark = Array(String(repeating: #"\u0001"#, count: 6).utf8)

    /// Takes the encoded request, open where the target goes.
    init(prefix: ArraySlice<UInt8>) {
        bytes = Array(prefix)
        marks = Self.marks(in: bytes)
    }

    /// Returns an encoded message as it is shown before it has a delivery: with an id of zeros in place of the marks.
    static func shown(_ message: [UInt8]) -> [UInt8] {
        var message = message
        for mark in marks(in: message) {
            message.replaceSubrange(mark..<mark + encodedMark.count, with: noID)
        }
        return message
    }

    /// As many bytes as the mark has.
    private static let noID = Array("00000000-0000-0000-0000-000000000000".utf8)

    private static func marks(in text: [UInt8]) -> [Int] {
        var marks: [Int] = []
        text.withUnsafeBytes { text in
            guard let start = text.baseAddress else { return }
            var index = 0
            while index < text.count,
                let hit = memchr(start + index, Int32(truncatingIfNeeded: UInt8(ascii: "\\")), text.count - index)
            {
                index = UnsafeRawPointer(hit) - start
                guard index + encodedMark.count <= text.count else { return }
                let isMark = memcmp(start + index, encodedMark, encodedMark.count) == 0
                if isMark { marks.append(index) }
                // Another escape of some text has at least two bytes.
                index += isMark ? encodedMark.count : 2
            }
        }
        return marks
    }

    /// Returns the whole request body for one recipient.
    func completed(for target: FCMTarget, id: MessageID) -> [UInt8] {
        var value = target.value
        let opening = target.opening
        return value.withUTF8 { value in
            let count = bytes.count + 1 + opening.utf8CodeUnitCount + value.count + 3
            return [UInt8](unsafeUninitializedCapacity: count) { body, length in
                func put(_ text: UnsafeBufferPointer<UInt8>) {
                    _ = UnsafeMutableBufferPointer(rebasing: body[length...]).update(fromContentsOf: text)
                    length += text.count
                }
                bytes.withUnsafeBufferPointer(put)
                if bytes.last != UInt8(ascii: "{") {
                    body[length] = UInt8(ascii: ",")
                    length += 1
                }
                opening.withUTF8Buffer(put)
                put(value)
                for byte in [UInt8(ascii: "\""), UInt8(ascii: "}"), UInt8(ascii: "}")] {
                    body[length] = byte
                    length += 1
                }
                guard !marks.isEmpty else { return }
                var text = id.description
                text.withUTF8 { text in
                    for mark in marks {
                        _ = UnsafeMutableBufferPointer(rebasing: body[mark...]).update(fromContentsOf: text)
                    }
                }
            }
        }
    }
}

/// Turns the neutral notification into FCM's `message`.
///
/// A token of an Android device gets the common part and the `android` block, one of an Apple device the `apns` block,
/// one of a browser the `webpush` block; topics and conditions get all. What FCM has no field for (tap address,
/// buttons) is in `data`, under `chapar`, as JSON text. A message that shows something always has a collapse key, a tag
/// and an `apns-collapse-id`, by default the delivery's id: if it goes out twice, the second copy replaces the first. A
/// message that shows nothing has the id in `data`, under `chapar_id`.
struct FCMPayload {
    /// The time at which FCM must give up.
    struct Life: Sendable {
        /// Seconds from now, 0 to 28 days; nil leaves it to FCM.
        var seconds: Int64?
        /// Seconds since 1970 for Apple; 0 means one attempt at once.
        var expiration: Int64?

        static let maximum: Int64 = 2_419_200

        /// Makes the life of a message; nil when no time is left.
        init?(_ request: PushRequest, now: Int64) {
            switch request.remaining(at: now) {
            case .platformDefault: break
            case .now: (seconds, expiration) = (0, 0)
            case .seconds(let left): (seconds, expiration) = (min(left, Self.maximum), now.adding(clamping: left))
            case .over: return nil
            }
        }

        init() {}
    }

    let notification: PushNotification
    let overrides: FCMOverrides?
    let label: String?
    let life: Life

    /// Whether the message shows something.
    var showsSomething: Bool {
        guard !notification.isSilent else { return false }
        return notification.title != nil || notification.subtitle != nil || notification.body != nil
            || overrides?.showsSomething ?? false
    }

    /// Whether an Apple device shows, sounds or counts something.
    private var alertsOnApple: Bool {
        showsSomething || !notification.isSilent && (notification.badge != nil || notification.sound != nil)
    }

    /// Returns a request body up to its target, or the fault of a message that is too large for the kind.
    func body(for kind: FCMTarget.Class, language: String?) -> Result<FCMBody, MessageFault> {
        var writer = JSONWriter(capacity: 640)
        writer.beginObject()
        if notification.isDryRun {
            writer.field("validate_only", true)
        }
        writer.name("message")
        let start = writer.bytes.count
        write(for: kind, language: language, to: &writer)
        // Nearly every message is far below its limit, routing included.
        if writer.bytes.count - start > kind.payloadLimit,
            let fault = tooLarge(Array(writer.bytes[start...]), for: kind)
        {
            return .failure(MessageFault(fault))
        }
        return .success(FCMBody(prefix: writer.bytes.dropLast()))
    }

    /// Returns the message object for recipients of a kind.
    func encoded(for kind: FCMTarget.Class, language: String?) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        write(for: kind, language: language, to: &writer)
        return writer.bytes
    }

    private func write(for kind: FCMTarget.Class, language: String?, to writer: inout JSONWriter) {
        guard let overrides else { return writePlain(kind, language, &writer) }
        var plain = JSONWriter(capacity: 512)
        writePlain(kind, language, &plain)
        guard case .object(let object)? = try? JSONValue(parsing: plain.bytes) else { return writer.raw(plain.bytes) }
        let own = kind == .android ? overrides.untranslated(object) : object
        writer.object(overrides.inSecondGeneration(own).merging(overrides.blocks(for: kind)))
    }

    private func writePlain(_ kind: FCMTarget.Class, _ language: String?, _ writer: inout JSONWriter) {
        writer.beginObject()
        if showsSomething { common(language, &writer) }
        data(&writer)
        if kind.includes(.android) { android(&writer) }
        if kind.includes(.iOS) { apple(language, &writer) }
        if kind.includes(.web) { web(&writer, isToken: kind.isToken) }
        if let label {
            writer.name("fcm_options")
            writer.beginObject()
            writer.field("analytics_label", label)
            writer.endObject()
        }
        writer.endObject()
    }

    /// Writes the caller's collapse ID, or the place of the delivery's id.
    private func identity(_ writer: inout JSONWriter) {
        if let collapseID = notification.collapseID { writer.string(collapseID) } else { writer.raw(FCMBody.mark) }
    }

    private func common(_ language: String?, _ writer: inout JSONWriter) {
        writer.name("notification")
        writer.beginObject()
        if let title = notification.title {
            writer.field("title", title.resolved(for: language))
        }
        if let body = notification.body {
            writer.field("body", body.resolved(for: language))
        }
        writer.field("image", notification.image)
        writer.endObject()
    }

    // MARK: Data

    private func data(_ writer: inout JSONWriter) {
        let hasExtras = !notification.isSilent && (notification.clickURL != nil || !notification.actions.isEmpty)
        guard hasExtras || !notification.data.isEmpty || !showsSomething else { return }
        writer.name("data")
        writer.beginObject()
        for (name, value) in notification.data {
            writer.name(name)
            writer.string(Self.text(of: value))
        }
        if hasExtras {
            writer.field("chapar", extras.text)
        }
        if !showsSomething {
            writer.name("chapar_id")
            writer.raw(FCMBody.mark)
        }
        writer.endObject()
    }

    /// Returns a value as a string, since FCM takes no other values: compact JSON text for anything but a string.
    static func text(of value: JSONValue) -> String { value.stringValue ?? value.text }

    private var extras: JSONValue {
        var object = JSONObject()
        object["click_url"] = notification.clickURL.map { .string($0) }
        if !notification.actions.isEmpty {
            object["actions"] = .array(
                notification.actions.map { action in
                    var button: JSONObject = ["id": .string(action.id), "title": .string(action.title)]
                    button["url"] = action.url.map { .string($0) }
                    return .object(button)
                }
            )
        }
        return .object(object)
    }

    // MARK: The platforms' blocks

    private func android(_ writer: inout JSONWriter) {
        writer.name("android")
        writer.beginObject()
        writer.name("priority")
        // A message that wakes the app and shows nothing makes Android demote later ones of high priority.
        writer.string(notification.priority == .high && !notification.isSilent ? "HIGH" : "NORMAL")
        if notification.collapseID != nil || showsSomething {
            writer.name("collapse_key")
            identity(&writer)
        }
        if let seconds = life.seconds {
            writer.field("ttl", "\(seconds)s")
        }
        if showsSomething {
            writer.name("notification")
            writer.beginObject()
            writer.name("tag")
            identity(&writer)
            writer.field("sound", notification.sound)
            writer.field("channel_id", notification.category)
            if let badge = notification.badge, badge > 0 {
                writer.field("notification_count", badge)
            }
            writer.endObject()
        }
        writer.endObject()
    }

    private func apple(_ language: String?, _ writer: inout JSONWriter) {
        writer.name("apns")
        writer.beginObject()
        // Google sets the push type of a Live Activity itself, and `aps` holds nothing else.
        let isActivity = overrides?.isLiveActivity ?? false
        writer.name("headers")
        writer.beginObject()
        if !isActivity {
            writer.field("apns-push-type", alertsOnApple ? "alert" : "background")
        }
        writer.field("apns-priority", (alertsOnApple || isActivity) && notification.priority == .high ? "10" : "5")
        if let expiration = life.expiration {
            writer.field("apns-expiration", "\(expiration)")
        }
        if notification.collapseID != nil || showsSomething, !isActivity {
            writer.name("apns-collapse-id")
            identity(&writer)
        }
        writer.endObject()
        writer.name("payload")
        writer.beginObject()
        writer.name("aps")
        writer.beginObject()
        if alertsOnApple, !isActivity { aps(language, &writer) }
        if notification.isSilent || !alertsOnApple, !isActivity {
            writer.field("content-available", 1)
        }
        writer.endObject()
        writer.endObject()
        writer.endObject()
    }

    private func aps(_ language: String?, _ writer: inout JSONWriter) {
        if let subtitle = notification.subtitle {
            // An alert here replaces the common texts, so it must hold all of them.
            writer.name("alert")
            writer.beginObject()
            if let title = notification.title {
                writer.field("title", title.resolved(for: language))
            }
            writer.field("subtitle", subtitle.resolved(for: language))
            if let body = notification.body {
                writer.field("body", body.resolved(for: language))
            }
            writer.endObject()
        }
        writer.field("badge", notification.badge)
        writer.field("sound", notification.sound)
        writer.field("category", notification.category)
        if notification.image != nil || !notification.actions.isEmpty {
            writer.field("mutable-content", 1)
        }
    }

    private func web(_ writer: inout JSONWriter, isToken: Bool) {
        let link = notification.isSilent ? nil : notification.clickURL.flatMap { $0.hasPrefix("https://") ? $0 : nil }
        let hasTag = isToken && showsSomething
        let hasLife = life.seconds != nil && (isToken || !notification.isSilent)
        guard hasLife || link != nil || hasTag else { return }
        writer.name("webpush")
        writer.beginObject()
        if let seconds = life.seconds, hasLife {
            writer.name("headers")
            writer.beginObject()
            writer.field("TTL", "\(seconds)")
            writer.endObject()
        }
        if hasTag {
            writer.name("notification")
            writer.beginObject()
            writer.name("tag")
            identity(&writer)
            writer.endObject()
        }
        if let link {
            writer.name("fcm_options")
            writer.beginObject()
            writer.field("link", link)
            writer.endObject()
        }
        writer.endObject()
    }
}
