internal import Foundation
internal import PushCore

/// Writes notifications as the contract has them: the words of the gateway's own API, texts in the recipient's language.
enum ServiceMessage {
    /// The part of a message that all recipients of one language share, as the members of a JSON object.
    static func encode(
        _ notification: PushNotification,
        language: String?,
        expiration: PushRequest.Expiration?
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.beginObject()
        writer.name("content")
        content(notification, language, &writer)
        writer.name("options")
        options(notification, expiration, &writer)
        if let overrides = notification.overrides[ServiceBackend.kind.rawValue], !overrides.isEmpty {
            writer.name("overrides")
            writer.object(overrides)
        }
        writer.endObject()
        return writer.bytes
    }

    private static func content(_ notification: PushNotification, _ language: String?, _ writer: inout JSONWriter) {
        writer.beginObject()
        func text(_ name: StaticString, _ value: String?) {
            guard let value else { return }
            writer.name(name)
            writer.string(value)
        }
        text("title", notification.title?.resolved(for: language))
        text("subtitle", notification.subtitle?.resolved(for: language))
        text("body", notification.body?.resolved(for: language))
        text("image", notification.image)
        text("sound", notification.sound)
        if let badge = notification.badge {
            writer.name("badge")
            writer.integer(badge)
        }
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
        writer.name("priority")
        writer.string(notification.priority.rawValue)
        if let id = notification.collapseID {
            writer.name("collapse_id")
            writer.string(id)
        }
        if notification.isSilent {
            writer.name("silent")
            writer.bool(true)
        }
        if notification.isDryRun {
            writer.name("dry_run")
            writer.bool(true)
        }
        switch expiration {
        case .immediately?:
            writer.name("expires_at")
            writer.integer(0)
        case .at(let seconds)?:
            writer.name("expires_at")
            writer.integer(seconds)
        case nil: break
        }
        writer.endObject()
    }

    /// Writes whom a message goes to.
    static func write(_ addressee: Addressee, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.name("id")
        writer.string(addressee.messageID.description)
        writer.name("to")
        writer.beginObject()
        switch addressee.recipient {
        case .token(let token):
            writer.name("token")
            writer.string(token.value)
            writer.name("service")
            writer.string(token.service.rawValue)
        case .device(let id): word("device", id, &writer)
        case .user(let id): word("user", id, &writer)
        case .platformID(let id): word("platform_id", id, &writer)
        case .topic(let name): word("topic", name, &writer)
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
            writer.name("everyone")
            writer.bool(true)
        }
        writer.endObject()
        if let language = addressee.language { word("language", language, &writer) }
        if addressee.isReplay {
            writer.name("replay")
            writer.bool(true)
        }
        writer.endObject()
    }

    private static func word(_ name: StaticString, _ value: String, _ writer: inout JSONWriter) {
        writer.name(name)
        writer.string(value)
    }
}
