internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// An event in the form that endpoints get: type, time, and the ids and states of what happened.
///
/// It has no token, title, body or credential: only the fields that are listed here are copied, so a new field of an
/// event is not sent before it is added here. The same event gives the same bytes, unless an erasure changed it.
struct WebhookEvent: Sendable {
    let number: Int64
    let type: WebhookType
    /// The notification that ended with this event; nil for the event itself.
    let ended: NotificationID?
    /// The JSON object with `type`, `timestamp` and `data`.
    let json: [UInt8]
    /// The time of the event, in milliseconds since 1970.
    let at: Int64
    /// The sampled trace of its notification, as a child of the acceptance; nil for any other event.
    let trace: TraceContext?

    /// The item of a message for this event: its number, negative for the end of its notification.
    var item: Int64 { ended == nil ? number : -number }

    /// Returns the id of a message with this event alone.
    func id(_ tag: String) -> String {
        let subject = ended.map { "n\($0)" } ?? String(number)
        return "msg_\(tag)_\(subject)_\(String(at, radix: 36))"
    }

    /// Returns the event's number from the id of a message; nil for the id of a batch, of a notification's end, or of
    /// another endpoint's message.
    static func number(in id: String, tag: String) -> Int64? {
        let parts = id.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "msg", parts[1] == tag else { return nil }
        return Int64(parts[2]).flatMap { $0 > 0 ? $0 : nil }
    }

    /// Returns the id of a batch.
    static func batchID(_ events: [WebhookEvent], _ tag: String) -> String {
        let (first, at) = events.first.map { ($0.number, $0.at) } ?? (0, 0)
        return "msg_\(tag)_b\(first)-\(events.last?.number ?? first)x\(events.count)_\(String(at, radix: 36))"
    }

    /// Returns the body of a message with these events.
    static func body(_ events: [WebhookEvent], isBatch: Bool) -> [UInt8] {
        if !isBatch, let only = events.first { return only.json }
        var writer = JSONWriter(capacity: events.reduce(128) { $0 + $1.json.count + 1 })
        writer.beginObject()
        writer.field("type", WebhookType.batch)
        writer.name("timestamp")
        RFC3339.write(Date(millisecondsSince1970: events.first?.at ?? 0), to: &writer)
        writer.name("data")
        writer.beginObject()
        writer.name("events")
        writer.beginArray()
        for event in events { writer.raw(event.json) }
        writer.endArray()
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }

    /// The type of an event of the log, which is its first member; nil for one that no endpoint gets.
    static func type(of event: [UInt8]) -> WebhookType? {
        let start = StaticText.start
        guard event.starts(with: start) else { return nil }
        let name = event.dropFirst(start.count).prefix { $0 != UInt8(ascii: "\"") }
        return WebhookType(event: String(decoding: name, as: UTF8.self))
    }

    private enum StaticText {
        static let start = Array(#"{"type":""#.utf8)
        static let campaignEnd = Array(#"{"type":"notification.ended""#.utf8)
    }

    /// Whether an event of the log is the end of a campaign, whose deliveries have events in part only.
    static func endsCampaign(_ event: [UInt8]) -> Bool { event.starts(with: StaticText.campaignEnd) }

    /// Returns the members of an event that is JSON.
    static func object(of event: StoredEvent) -> JSONObject? {
        (try? JSONValue(parsing: event.json))?.objectValue
    }

    /// Makes the form of an event.
    init?(_ event: StoredEvent, _ object: JSONObject, type: WebhookType, app: AppName?) {
        guard let text = object["at"]?.stringValue, let at = RFC3339.parse(text) else { return nil }
        number = event.number
        self.type = type
        self.at = at.millisecondsSince1970
        ended = nil
        trace = Self.trace(of: object)
        var writer = JSONWriter(capacity: event.json.count + 96)
        Self.begin(&writer, type, text, number, app)
        Self.copy(Self.members, of: object, to: &writer)
        if let recipient = object["recipient"]?.stringValue.flatMap(Recipient.init(storedForm:)) {
            writer.field("recipient", recipient.shownForm)
        }
        if let attempt = object["attempt"]?.objectValue {
            writer.name("attempt")
            writer.beginObject()
            Self.copy(Self.attemptMembers, of: attempt, to: &writer)
            writer.endObject()
        }
        writer.endObject()
        writer.endObject()
        json = writer.bytes
    }

    /// Makes the end of a notification, whose last delivery ended with an event.
    init?(_ event: StoredEvent, _ object: JSONObject, ending notification: StoredNotification, app: AppName?) {
        guard let text = object["at"]?.stringValue else { return nil }
        number = event.number
        type = .finished
        self.at = notification.acceptedAt.millisecondsSince1970
        ended = notification.id
        trace = notification.record.trace.flatMap { $0.isSampled ? $0.child(of: notification.id) : nil }
        var writer = JSONWriter(capacity: 384)
        Self.begin(&writer, .finished, text, number, app)
        writer.field("notification", notification.id.description)
        if !notification.caller.isEmpty { writer.field("caller", notification.caller) }
        writer.name("counts")
        writer.beginObject()
        for state in DeliveryState.allCases {
            guard let count = notification.counts[state], count > 0 else { continue }
            writer.name(state.rawValue)
            writer.integer(count)
        }
        writer.endObject()
        notification.record.write(to: &writer)
        writer.endObject()
        writer.endObject()
        json = writer.bytes
    }

    /// Returns the sampled trace of an event's notification.
    private static func trace(of object: JSONObject) -> TraceContext? {
        guard object["trace_sampled"]?.boolValue == true, let trace = object["trace_id"]?.stringValue,
            let notification = object["notification"]?.stringValue.flatMap({ NotificationID($0) })
        else { return nil }
        // The span of the acceptance takes the place of the parent, which an event does not have.
        return TraceContext(traceparent: "00-\(trace)-0000000000000001-01")?.child(of: notification)
    }

    private static func begin(
        _ writer: inout JSONWriter,
        _ type: WebhookType,
        _ time: String,
        _ number: Int64,
        _ app: AppName?
    ) {
        writer.beginObject()
        writer.field("type", type.rawValue)
        writer.field("timestamp", time)
        writer.name("data")
        writer.beginObject()
        writer.field("number", number)
        writer.field("app", app?.rawValue)
    }

    /// The members of an event that endpoints get.
    private static let members = [
        "notification", "delivery", "device", "user", "caller", "backend", "state", "reason", "kind", "as_of",
        "certain",
        "until", "answers", "dead", "reference", "metadata", "trace_id",
    ]
    /// The fields of an attempt that endpoints get.
    ///
    /// They have the platform's reason, but not its free text, which may quote the message.
    private static let attemptMembers = [
        "at", "service", "outcome", "kind", "reason", "status", "platform_id", "tracking_id", "verdict_pending",
        "dry_run",
    ]

    private static func copy(_ names: [String], of object: JSONObject, to writer: inout JSONWriter) {
        for name in names {
            guard let value = object[name], value != .null else { continue }
            writer.name(name)
            writer.value(value)
        }
    }
}

/// The stored form of a message: its events by number, and its attempts.
struct WebhookRecord: Sendable, Hashable {
    /// The events (``WebhookEvent/item``); they never change once the message has an id.
    var items: [Int64] = []
    /// Whether they are in one body as a batch.
    var isBatch = false
    /// The number of attempts.
    var attempts = 0
    /// The steady time of the last attempt, in milliseconds since 1970; nil before the first.
    var last: Int64?
    /// Whether a request sends it again, at a lower rate than new events.
    var isRecovering = false
    /// The events to send again, whose messages are not made yet; then there are no items.
    var span: ClosedRange<Int64>?
    /// The time of day, in milliseconds since 1970, before which events of ``span`` are left out.
    var since: Int64?

    /// The encoding, JSON.
    var encoded: [UInt8] {
        var writer = JSONWriter(capacity: 96 + 8 * items.count)
        writer.beginObject()
        if !items.isEmpty {
            writer.name("items")
            writer.beginArray()
            for item in items { writer.integer(item) }
            writer.endArray()
        }
        if isBatch { writer.field("batch", true) }
        if attempts > 0 { writer.field("attempts", attempts) }
        writer.field("last", last)
        if isRecovering { writer.field("recovering", true) }
        writer.field("from", span?.lowerBound)
        writer.field("to", span?.upperBound)
        writer.field("since", since)
        writer.endObject()
        return writer.bytes
    }

    init(items: [Int64] = [], isBatch: Bool = false) { (self.items, self.isBatch) = (items, isBatch) }

    /// Reads the encoding; nil for another form.
    init?(encoded: [UInt8]) {
        guard let json = try? JSONValue(parsing: encoded), case .object = json else { return nil }
        items = (json["items"]?.arrayValue ?? []).compactMap(\.integerValue)
        isBatch = json["batch"]?.boolValue ?? false
        attempts = json["attempts"]?.integerValue.map { Int(clamping: $0) } ?? 0
        last = json["last"]?.integerValue
        isRecovering = json["recovering"]?.boolValue ?? false
        since = json["since"]?.integerValue
        if let from = json["from"]?.integerValue, let to = json["to"]?.integerValue, from <= to { span = from...to }
        guard items.allSatisfy({ $0 != 0 && $0 != .min }), !items.isEmpty || span != nil else { return nil }
    }

    /// Returns the id of the message that stands for a span of events to send again.
    static func spanID(_ span: ClosedRange<Int64>) -> String { "span_\(span.lowerBound)_\(span.upperBound)" }
}
