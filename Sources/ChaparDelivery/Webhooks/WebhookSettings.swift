package import Foundation
internal import ChaparCore

/// The types of the events that an endpoint can get.
///
/// The names are those of ``EventJSON`` where a type has one there; no other code defines them.
package enum WebhookType: String, Sendable, CaseIterable {
    case acceptedByPlatform = "delivery.accepted_by_platform"
    case delivered = "delivery.delivered"
    case opened = "delivery.opened"
    case failed = "delivery.failed"
    case expired = "delivery.expired"
    case cancelled = "delivery.cancelled"
    case unknown = "delivery.unknown"
    case tokenInvalidated = "token.invalidated"
    case tokenQuarantined = "token.quarantined"
    case backendParked = "backend.parked"
    case backendResumed = "backend.resumed"
    case finished = "notification.finished"

    /// The type of a manual test, which no filter names.
    package static let test = "endpoint.test"
    /// The type of a body with several events.
    static let batch = "events.batch"

    /// The filter of an endpoint without one: everything that needs an action, and no success of a single delivery.
    package static let byDefault = ["delivery.failed", "token.*", "backend.*", "notification.finished"]

    /// Returns the type of an event of the log; nil for one that no endpoint gets.
    init?(event type: String) {
        switch type {
        case "device.token_invalidated": self = .tokenInvalidated
        case "backend.invalidations_held": self = .tokenQuarantined
        case Self.finished.rawValue, Self.tokenInvalidated.rawValue, Self.tokenQuarantined.rawValue: return nil
        default: self.init(rawValue: type)
        }
    }

    /// Whether a delivery may have ended with this event, and so its notification.
    var mayEndDelivery: Bool {
        switch self {
        case .acceptedByPlatform, .failed, .expired, .cancelled, .unknown, .delivered, .opened: true
        case .tokenInvalidated, .tokenQuarantined, .backendParked, .backendResumed, .finished: false
        }
    }

    /// Whether it is a report, which ends a delivery only where the delivery waited for it.
    var isReport: Bool { self == .delivered || self == .opened }
}

/// The events that an endpoint gets: names of types, or the part before the full stop with `.*`.
package struct WebhookFilter: Sendable, Hashable {
    private let types: Set<WebhookType>

    /// The filter that every type passes.
    static let all = WebhookFilter(types: Set(WebhookType.allCases))

    private init(types: Set<WebhookType>) { self.types = types }

    /// Makes a filter; nil when a pattern fits no type.
    package init?(_ patterns: [String]) {
        var types: Set<WebhookType> = []
        for pattern in patterns {
            let found = Self.types(of: pattern)
            guard !found.isEmpty else { return nil }
            types.formUnion(found)
        }
        self.types = types
    }

    /// Returns the types that a pattern stands for; none for an unknown one.
    package static func types(of pattern: String) -> [WebhookType] {
        guard pattern.hasSuffix(".*") else { return WebhookType(rawValue: pattern).map { [$0] } ?? [] }
        return WebhookType.allCases.filter { $0.rawValue.hasPrefix(pattern.dropLast()) }
    }

    /// Whether the endpoint gets events of a type.
    func matches(_ type: WebhookType) -> Bool { types.contains(type) }
}

/// The settings of an endpoint, without its secrets.
package struct WebhookSettings: Sendable, Hashable {
    /// The largest number of requests a second that an endpoint can ask for.
    package static let maximumRate = 1_000

    /// The address that gets the requests.
    package var url: String
    /// The patterns of types (``WebhookFilter``).
    package var types = WebhookType.byDefault
    /// Whether a request begins only when the one before was taken.
    package var isOrdered = false
    /// Whether a request carries up to ``WebhookBatch/maximumCount`` events.
    package var isBatched = false
    /// The most requests a second; 0 is no limit.
    package var rate = 0
    /// Whether the operator wants it to get anything.
    package var isEnabled = true
    /// The number of times that it was enabled; a reason to disable it belongs to one of them.
    package var generation: Int64 = 1
    /// A random text in the ids of its messages, so that no two endpoints and no two installations share an id.
    package var tag: String
    /// The time when it was added, as a time of day.
    package var createdAt: Date

    /// Makes the settings of a new endpoint.
    package init(url: String, createdAt: Date) {
        self.url = url
        self.createdAt = createdAt
        let letters = Array("abcdefghijkmnpqrstuvwxyz23456789")
        tag = String((0..<10).map { _ in letters[Int.random(in: 0..<letters.count)] })
    }

    /// The stored form.
    package var encoded: [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.beginObject()
        writer.field("url", url)
        writer.name("types")
        writer.beginArray()
        for type in types { writer.string(type) }
        writer.endArray()
        writer.field("ordered", isOrdered)
        writer.field("batch", isBatched)
        writer.field("rate", rate)
        writer.field("enabled", isEnabled)
        writer.field("generation", generation)
        writer.field("tag", tag)
        writer.field("created", createdAt.millisecondsSince1970)
        writer.endObject()
        return writer.bytes
    }

    /// Reads the stored form; nil for another one.
    package init?(encoded: [UInt8]) {
        guard let json = try? JSONValue(parsing: encoded), let url = json["url"]?.stringValue,
            let tag = json["tag"]?.stringValue, let created = json["created"]?.integerValue
        else { return nil }
        self.url = url
        self.tag = tag
        createdAt = Date(millisecondsSince1970: created)
        types = (json["types"]?.arrayValue ?? []).compactMap(\.stringValue)
        isOrdered = json["ordered"]?.boolValue ?? false
        isBatched = json["batch"]?.boolValue ?? false
        rate = json["rate"]?.integerValue.map { Int(clamping: $0) } ?? 0
        isEnabled = json["enabled"]?.boolValue ?? true
        generation = json["generation"]?.integerValue ?? 1
    }
}

/// The limits of a body with several events.
enum WebhookBatch {
    /// The most events.
    static let maximumCount = 100
    /// The most bytes of their data: the specification's advice for a body.
    static let maximumBytes = 20_000
    /// The time that the first event waits for others.
    static let delay = Duration.milliseconds(100)
}

/// The waits between the attempts at a message.
package enum WebhookRetries {
    /// The wait before each attempt, in seconds: the table of the Standard Webhooks specification.
    package static let table: [Double] = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
    /// The part by which a wait is lengthened or shortened at random.
    static let jitter = 0.2

    /// Returns the wait before the next attempt, in seconds; nil when `attempts` were made and no other follows.
    static func wait(after attempts: Int, by part: Double = .random(in: -1...1)) -> Double? {
        attempts < table.count ? table[max(0, attempts)] * (1 + jitter * part) : nil
    }
}
