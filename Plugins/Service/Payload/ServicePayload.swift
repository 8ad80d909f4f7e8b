internal import Foundation
internal import ChaparCore

/// A notification as the contract has it: the words of the gateway's own API, texts in the recipient's language.
///
/// The parts that all languages share, `data` above all, are encoded once; for each language only its texts are
/// encoded.
struct ServicePayload {
    /// The number of bytes that were encoded until now.
    private(set) var encodedBytes = 0
    private let notification: PushNotification
    /// The members of `content` but for its texts, without braces.
    private let rest: ArraySlice<UInt8>
    /// The members beside `content`, and the brace that ends the message.
    private let ending: ArraySlice<UInt8>

    private static let beginning = Array(#"{"content":{"#.utf8)

    /// Encodes what all languages share.
    init(_ notification: PushNotification, expiration: PushRequest.Expiration?) {
        self.notification = notification
        var writer = JSONWriter(capacity: 512)
        Self.rest(notification, &writer)
        rest = writer.bytes.dropFirst().dropLast()
        writer = JSONWriter(capacity: 256)
        writer.beginObject()
        writer.name("options")
        Self.options(notification, expiration, &writer)
        if let overrides = notification.overrides[ServiceBackend.kind.rawValue], !overrides.isEmpty {
            writer.name("overrides")
            writer.object(overrides)
        }
        writer.endObject()
        ending = writer.bytes.dropFirst()
        encodedBytes = rest.count + ending.count
    }

    /// Returns the members of `content` that differ between languages, without braces.
    mutating func texts(in language: String?) -> ArraySlice<UInt8> {
        var writer = JSONWriter(capacity: 256)
        writer.beginObject()
        func text(_ name: StaticString, _ text: LocalizedText?) {
            guard let text else { return }
            writer.name(name)
            writer.string(text.resolved(for: language))
        }
        text("title", notification.title)
        text("subtitle", notification.subtitle)
        text("body", notification.body)
        writer.endObject()
        encodedBytes += writer.bytes.count
        return writer.bytes.dropFirst().dropLast()
    }

    /// Returns the size, in bytes, of the message with these texts.
    func size(with texts: ArraySlice<UInt8>) -> Int {
        let comma = texts.isEmpty || rest.isEmpty ? 0 : 1
        return Self.beginning.count + texts.count + comma + rest.count + 2 + ending.count
    }

    /// Returns the message with these texts as a JSON object.
    func bytes(with texts: ArraySlice<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size(with: texts))
        bytes += Self.beginning
        bytes += texts
        if !texts.isEmpty, !rest.isEmpty { bytes.append(UInt8(ascii: ",")) }
        bytes += rest
        bytes += [UInt8(ascii: "}"), UInt8(ascii: ",")]
        bytes += ending
        return bytes
    }

    /// Returns the size, in bytes, of the message in the language whose texts are the longest.
    mutating func largestSize() -> Int {
        notification.languages.map { size(with: texts(in: $0)) }.max() ?? 0
    }

    private static func rest(_ notification: PushNotification, _ writer: inout JSONWriter) {
        writer.beginObject()
        func text(_ name: StaticString, _ value: String?) {
            guard let value else { return }
            writer.name(name)
            writer.string(value)
        }
        text("image", notification.image)
        text("sound", notification.sound)
        writer.field("badge", notification.badge)
        text("category", notification.category)
        text("click_url", notification.clickURL)
        if !notification.actions.isEmpty {
            writer.name("actions")
            writer.beginArray()
            for action in notification.actions {
                writer.beginObject()
                text("id", action.id)
                text("title", action.title)
                text("url", action.url)
                writer.endObject()
            }
            writer.endArray()
        }
        if !notification.data.isEmpty {
            writer.name("data")
            writer.object(notification.data)
        }
        writer.endObject()
    }

    private static func options(
        _ notification: PushNotification,
        _ expiration: PushRequest.Expiration?,
        _ writer: inout JSONWriter
    ) {
        writer.beginObject()
        writer.field("priority", notification.priority.rawValue)
        writer.field("collapse_id", notification.collapseID)
        if notification.isSilent {
            writer.field("silent", true)
        }
        if notification.isDryRun {
            writer.field("dry_run", true)
        }
        switch expiration {
        case .immediately?:
            writer.field("expires_at", 0)
        case .at(let seconds)?:
            writer.field("expires_at", seconds)
        case nil: break
        }
        writer.endObject()
    }

    /// Writes the recipient of a message.
    static func write(_ addressee: Addressee, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("id", addressee.messageID.description)
        writer.name("to")
        writer.beginObject()
        switch addressee.recipient {
        case .token(let token):
            writer.field("token", token.value)
            writer.field("service", token.service.rawValue)
        case .device(let id): writer.field("device", id)
        case .user(let id): writer.field("user", id)
        case .platformID(let id): writer.field("platform_id", id)
        case .topic(let name): writer.field("topic", name)
        case .tags(let filter):
            writer.name("tags")
            writer.beginObject()
            for (name, tags) in [("all", filter.all), ("any", filter.any), ("none", filter.none)] {
                writer.name(name)
                writer.beginArray()
                for tag in tags { writer.string(tag) }
                writer.endArray()
            }
            writer.endObject()
        case .everyone:
            writer.field("everyone", true)
        }
        writer.endObject()
        writer.field("language", addressee.language)
        if addressee.isReplay {
            writer.field("replay", true)
        }
        writer.endObject()
    }
}
