internal import Foundation
internal import ChaparCore

/// A request without its target, encoded once for all recipients of a language; only a recipient's own values are
/// inserted for each.
struct RuStoreBody: Sendable {
    private let bytes: [UInt8]
    /// Where the 36 characters of the delivery's id go.
    private let marks: [Int]
    private let frame: RuStoreFrame

    /// A placeholder for a delivery's id, as a JSON string: between its quotation marks are as many bytes as an id
    /// has.
    static let mark = [UInt8(ascii: "\"")] + encodedMark + [UInt8(ascii: "\"")]
    private static let encodedMark = Array(String(repeating: #"\u0001"#, count: 6).utf8)

    /// Takes an encoded message.
    init(_ message: [UInt8], in frame: RuStoreFrame) {
        bytes = frame.opening + (frame.holdsToken ? message.dropLast() : message[...])
        marks = Self.marks(in: bytes)
        self.frame = frame
    }

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
                // Any other escape in the text has at least two bytes.
                index += isMark ? encodedMark.count : 2
            }
        }
        return marks
    }

    /// Returns the bytes of the request to a target that count against the limit.
    func size(with target: RuStoreTarget) -> Int {
        let (opening, closing) = frame.surroundings(target)
        let around = opening.utf8CodeUnitCount + closing.utf8CodeUnitCount
        return bytes.count + around + target.value.utf8.count - frame.uncounted
    }

    /// Returns the whole request body for one recipient.
    func completed(for target: RuStoreTarget, id: MessageID) -> [UInt8] {
        var value = target.value
        let (opening, closing) = frame.surroundings(target)
        return value.withUTF8 { value in
            let around = opening.utf8CodeUnitCount + closing.utf8CodeUnitCount
            return [UInt8](unsafeUninitializedCapacity: bytes.count + around + value.count) { body, length in
                func put(_ text: UnsafeBufferPointer<UInt8>) {
                    _ = UnsafeMutableBufferPointer(rebasing: body[length...]).update(fromContentsOf: text)
                    length += text.count
                }
                bytes.withUnsafeBufferPointer(put)
                opening.withUTF8Buffer(put)
                put(value)
                closing.withUTF8Buffer(put)
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

/// Turns the neutral notification into RuStore's `message`: only fields that its page lists.
///
/// RuStore has no priority, no collapse key and no tag, so the delivery's id is in `data`, under `chapar_id`: an
/// app that uses it as its own tag shows a second copy in the place of the first. Buttons are in `data`, under
/// `chapar`, as JSON text.
struct RuStorePayload {
    /// The time that RuStore tries to deliver, in seconds.
    ///
    /// Never 0, which RuStore reads as four weeks.
    struct Life: Sendable {
        var seconds: Int64

        /// Four weeks, RuStore's default and most.
        static let maximum: Int64 = 2_419_200
        /// The shortest time, in seconds, that RuStore takes literally: it reads 0 as four weeks.
        static let least: Int64 = 1

        init(seconds: Int64 = maximum) { self.seconds = min(max(seconds, Self.least), Self.maximum) }

        /// Makes the life of a message; nil when no time is left.
        init?(_ request: PushRequest, now: Int64) {
            switch request.remaining(at: now) {
            case .platformDefault: self.init()
            case .now: self.init(seconds: Self.least)
            case .seconds(let left): self.init(seconds: left)
            case .over: return nil
            }
        }
    }

    let notification: PushNotification
    let overrides: RuStoreOverrides?
    var life = Life()

    /// Whether RuStore's SDK draws a notification.
    var showsSomething: Bool {
        guard !notification.isSilent else { return false }
        return notification.title != nil || notification.body != nil
    }

    /// Returns the message object as JSON.
    func encoded(language: String?) -> [UInt8] {
        var writer = JSONWriter(capacity: 640)
        writePlain(language, &writer)
        guard let overrides, case .object(let object)? = try? JSONValue(parsing: writer.bytes) else {
            return writer.bytes
        }
        return JSONValue.object(object.merging(overrides.object)).bytes
    }

    private func writePlain(_ language: String?, _ writer: inout JSONWriter) {
        writer.beginObject()
        if showsSomething {
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
        writer.name("data")
        writer.beginObject()
        for (name, value) in notification.data {
            writer.name(name)
            writer.string(Self.text(of: value))
        }
        if !notification.isSilent, !notification.actions.isEmpty {
            writer.field("chapar", buttons.text)
        }
        writer.name("chapar_id")
        writer.raw(RuStoreBody.mark)
        writer.endObject()
        android(&writer)
        writer.endObject()
    }

    private func android(_ writer: inout JSONWriter) {
        writer.name("android")
        writer.beginObject()
        writer.field("ttl", "\(life.seconds)s")
        if showsSomething, notification.category != nil || notification.clickURL != nil {
            writer.name("notification")
            writer.beginObject()
            writer.field("channel_id", notification.category)
            if let address = notification.clickURL {
                writer.field("click_action", address)
                writer.field("click_action_type", 1)
            }
            writer.endObject()
        }
        writer.endObject()
    }

    /// Returns a value as a string, since RuStore takes no other values: compact JSON text for anything but a string.
    static func text(of value: JSONValue) -> String { value.stringValue ?? value.text }

    private var buttons: JSONValue {
        let buttons = notification.actions.map { action -> JSONValue in
            var button: JSONObject = ["id": .string(action.id), "title": .string(action.title)]
            button["url"] = action.url.map { .string($0) }
            return .object(button)
        }
        return ["actions": .array(buttons)]
    }
}
