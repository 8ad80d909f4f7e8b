internal import Foundation
internal import PushCore

/// A message without its target, encoded once for all recipients of a kind and language: only what is a recipient's own is
/// put in for each.
struct FCMBody: Sendable {
    /// `{"message":{…`, open at its end.
    let bytes: [UInt8]
    /// Where the 36 characters of the delivery's id go.
    let marks: [Int]

    /// Stands for a delivery's id: its JSON form has as many bytes as an id.
    static let mark = String(repeating: "\u{1}", count: 6)
    private static let encodedMark = Array(String(repeating: #"\u0001"#, count: 6).utf8)

    /// Takes the encoded message object, without its end.
    init(prefix: [UInt8]) {
        bytes = prefix
        marks = Self.marks(in: prefix)
    }

    private static func marks(in text: [UInt8]) -> [Int] {
        var marks: [Int] = []
        text.withUnsafeBufferPointer { text in
            var place = 0
            while let hit = text[place...].firstIndex(of: UInt8(ascii: "\\")), hit + encodedMark.count <= text.count {
                // Another escape of some text: two bytes belong to it in any case.
                let isMark = text[hit..<(hit + encodedMark.count)].elementsEqual(encodedMark)
                if isMark { marks.append(hit) }
                place = hit + (isMark ? encodedMark.count : 2)
            }
        }
        return marks
    }

    /// The whole request body for one recipient.
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
/// A token of an Android device gets the common part and the `android` block, one of an Apple device the `apns` block; topics
/// and conditions get all. What FCM has no field for (tap address, buttons) is in `data`, under `chapar`, as JSON text.
/// A message that shows something always has a collapse key, a tag and an `apns-collapse-id`, by default the delivery's id:
/// should it go out twice, the second copy takes the place of the first (specs: FCM section 7). One that shows nothing has
/// the id in `data`, under `chapar_id`.
struct FCMPayload {
    /// When FCM must give up.
    struct Life: Sendable {
        /// Seconds from now, 0 to 28 days; nil leaves it to FCM.
        var seconds: Int64?
        /// Seconds since 1970 for Apple, 0 for "now or never".
        var expiration: Int64?

        static let maximum: Int64 = 2_419_200

        init(_ request: PushRequest, now: Int64) {
            switch request.expiration {
            case .immediately: (seconds, expiration) = (0, 0)
            case .at(let end): (seconds, expiration) = (min(max(end - now, 0), Self.maximum), end)
            case nil:
                // Without a gateway the span counts from this send.
                guard let span = request.notification.timeToLive?.components.seconds else { return }
                seconds = min(max(span, 0), Self.maximum)
                expiration = span <= 0 ? 0 : now + span
            }
        }

        init() {}
    }

    let notification: PushNotification
    let overrides: FCMOverrides?
    let label: String?
    let life: Life

    /// Whether a person sees something.
    var showsSomething: Bool {
        guard !notification.isSilent else { return false }
        return notification.title != nil || notification.subtitle != nil || notification.body != nil
            || overrides?.showsSomething ?? false
    }

    /// Whether an Apple device shows, sounds or counts something.
    private var alertsOnApple: Bool {
        showsSomething || !notification.isSilent && (notification.badge != nil || notification.sound != nil)
    }

    /// A request body up to its target, from what ``encoded(for:language:)`` gave.
    func body(_ message: [UInt8]) -> FCMBody {
        var writer = JSONWriter(capacity: message.count + 40)
        writer.beginObject()
        if notification.isDryRun {
            writer.name("validate_only")
            writer.bool(true)
        }
        writer.name("message")
        writer.raw(message.dropLast())
        return FCMBody(prefix: writer.bytes)
    }

    /// The message object for recipients of a kind.
    func encoded(for kind: FCMTarget.Class, language: String?) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.beginObject()
        if showsSomething { common(language, &writer) }
        data(&writer)
        if kind != .iOS { android(&writer) }
        if kind != .android { apple(language, &writer) }
        if !kind.isToken { web(&writer) }
        if let label {
            writer.name("fcm_options")
            writer.beginObject()
            writer.name("analytics_label")
            writer.string(label)
            writer.endObject()
        }
        writer.endObject()
        guard let overrides else { return writer.bytes }
        guard case .object(let object)? = try? JSONValue(parsing: writer.bytes) else { return writer.bytes }
        return JSONValue.object(object.merging(overrides.blocks(for: kind))).bytes
    }

    private func common(_ language: String?, _ writer: inout JSONWriter) {
        writer.name("notification")
        writer.beginObject()
        if let title = notification.title {
            writer.name("title")
            writer.string(title.resolved(for: language))
        }
        if let body = notification.body {
            writer.name("body")
            writer.string(body.resolved(for: language))
        }
        if let image = notification.image {
            writer.name("image")
            writer.string(image)
        }
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
            writer.name("chapar")
            writer.string(extras.text)
        }
        if !showsSomething {
            writer.name("chapar_id")
            writer.string(FCMBody.mark)
        }
        writer.endObject()
    }

    /// FCM knows strings only: anything else goes as compact JSON text.
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
        if let key = notification.collapseID ?? (showsSomething ? FCMBody.mark : nil) {
            writer.name("collapse_key")
            writer.string(key)
        }
        if let seconds = life.seconds {
            writer.name("ttl")
            writer.string("\(seconds)s")
        }
        if showsSomething {
            writer.name("notification")
            writer.beginObject()
            writer.name("tag")
            writer.string(notification.collapseID ?? FCMBody.mark)
            if let sound = notification.sound {
                writer.name("sound")
                writer.string(sound)
            }
            if let category = notification.category {
                writer.name("channel_id")
                writer.string(category)
            }
            if let badge = notification.badge, badge > 0 {
                writer.name("notification_count")
                writer.integer(badge)
            }
            writer.endObject()
        }
        writer.endObject()
    }

    private func apple(_ language: String?, _ writer: inout JSONWriter) {
        writer.name("apns")
        writer.beginObject()
        writer.name("headers")
        writer.beginObject()
        writer.name("apns-push-type")
        writer.string(alertsOnApple ? "alert" : "background")
        writer.name("apns-priority")
        writer.string(alertsOnApple && notification.priority == .high ? "10" : "5")
        if let expiration = life.expiration {
            writer.name("apns-expiration")
            writer.string("\(expiration)")
        }
        if let collapseID = notification.collapseID ?? (showsSomething ? FCMBody.mark : nil) {
            writer.name("apns-collapse-id")
            writer.string(collapseID)
        }
        writer.endObject()
        writer.name("payload")
        writer.beginObject()
        writer.name("aps")
        writer.beginObject()
        if alertsOnApple { aps(language, &writer) }
        if notification.isSilent || !alertsOnApple {
            writer.name("content-available")
            writer.integer(1)
        }
        writer.endObject()
        writer.endObject()
        writer.endObject()
    }

    private func aps(_ language: String?, _ writer: inout JSONWriter) {
        if let subtitle = notification.subtitle {
            // An alert here replaces the common texts, so that it must hold all of them.
            writer.name("alert")
            writer.beginObject()
            if let title = notification.title {
                writer.name("title")
                writer.string(title.resolved(for: language))
            }
            writer.name("subtitle")
            writer.string(subtitle.resolved(for: language))
            if let body = notification.body {
                writer.name("body")
                writer.string(body.resolved(for: language))
            }
            writer.endObject()
        }
        if let badge = notification.badge {
            writer.name("badge")
            writer.integer(badge)
        }
        if let sound = notification.sound {
            writer.name("sound")
            writer.string(sound)
        }
        if let category = notification.category {
            writer.name("category")
            writer.string(category)
        }
        if notification.image != nil || !notification.actions.isEmpty {
            writer.name("mutable-content")
            writer.integer(1)
        }
    }

    private func web(_ writer: inout JSONWriter) {
        let link = notification.clickURL.flatMap { $0.hasPrefix("https://") ? $0 : nil }
        guard life.seconds != nil || link != nil, !notification.isSilent else { return }
        writer.name("webpush")
        writer.beginObject()
        if let seconds = life.seconds {
            writer.name("headers")
            writer.beginObject()
            writer.name("TTL")
            writer.string("\(seconds)")
            writer.endObject()
        }
        if let link {
            writer.name("fcm_options")
            writer.beginObject()
            writer.name("link")
            writer.string(link)
            writer.endObject()
        }
        writer.endObject()
    }
}
