package import ChaparQueue
package import Foundation
internal import ChaparCore

/// A span of a trace: a step of a notification with its begin and end.
///
/// Its name and attributes have ids, names and reasons, never a recipient, a token or content.
package struct TraceSpan: Sendable {
    /// The kind, as OTLP numbers it.
    package enum Kind: Int, Sendable {
        case `internal` = 1
        case server, client, producer, consumer
    }

    /// The value of an attribute.
    package enum Value: Sendable {
        case text(String)
        case number(Int64)
        case flag(Bool)
    }

    /// The trace that it belongs to.
    package var context: TraceContext
    /// Its id; not zero.
    package var id: UInt64
    /// The id of its parent; zero for the first span of a trace.
    package var parent: UInt64
    package var name: String
    package var kind: Kind
    /// The begin and the end, on the wall clock.
    package var start: Date
    package var end: Date
    package var attributes: [(name: String, value: Value)]
    /// The reason of a failure; nil for a span that did not fail.
    package var failure: String?
    /// The context of a related span in another trace.
    package var link: TraceContext?

    /// Makes a span; without an id it gets a random one.
    package init(
        _ name: String,
        _ kind: Kind,
        in context: TraceContext,
        id: UInt64? = nil,
        parent: UInt64,
        from start: Date,
        to end: Date,
        _ attributes: [(name: String, value: Value)] = [],
        failure: String? = nil,
        link: TraceContext? = nil
    ) {
        self.name = name
        self.kind = kind
        self.context = context
        self.id = id ?? .random(in: 1 ... .max)
        self.parent = parent
        // A clock that was set in between must not give a negative span.
        (self.start, self.end) = (start, max(start, end))
        self.attributes = attributes
        self.failure = failure
        self.link = link
    }

    /// Writes the span in the JSON form of OTLP 1.
    ///
    /// Source: [OTLP](https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids are hexadecimal, 64-bit
    /// numbers are text.
    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("traceId", context.traceID)
        writer.field("spanId", Self.hex(id))
        if parent != 0 { writer.field("parentSpanId", Self.hex(parent)) }
        writer.field("traceState", context.state)
        writer.field("name", name)
        writer.field("kind", kind.rawValue)
        writer.field("startTimeUnixNano", Self.nanoseconds(start))
        writer.field("endTimeUnixNano", Self.nanoseconds(end))
        Self.write(attributes, to: &writer)
        if let link {
            writer.name("links")
            writer.beginArray()
            writer.beginObject()
            writer.field("traceId", link.traceID)
            writer.field("spanId", Self.hex(link.parent))
            writer.endObject()
            writer.endArray()
        }
        if let failure {
            writer.name("status")
            writer.beginObject()
            writer.field("code", 2)
            writer.field("message", failure)
            writer.endObject()
        }
        writer.endObject()
    }

    /// Writes a member with attributes.
    private static func write(_ attributes: [(name: String, value: Value)], to writer: inout JSONWriter) {
        writer.name("attributes")
        writer.beginArray()
        for (name, value) in attributes {
            writer.beginObject()
            writer.field("key", name)
            writer.name("value")
            writer.beginObject()
            switch value {
            case .text(let text): writer.field("stringValue", text)
            case .number(let number): writer.field("intValue", String(number))
            case .flag(let flag): writer.field("boolValue", flag)
            }
            writer.endObject()
            writer.endObject()
        }
        writer.endArray()
    }

    /// Returns the body of a request with spans of one service.
    static func body(_ spans: [TraceSpan], service: String, version: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 256 + 768 * spans.count)
        writer.beginObject()
        writer.name("resourceSpans")
        writer.beginArray()
        writer.beginObject()
        writer.name("resource")
        writer.beginObject()
        write([("service.name", .text(service)), ("service.version", .text(version))], to: &writer)
        writer.endObject()
        writer.name("scopeSpans")
        writer.beginArray()
        writer.beginObject()
        writer.name("scope")
        writer.beginObject()
        writer.field("name", "chapar")
        writer.field("version", version)
        writer.endObject()
        writer.name("spans")
        writer.beginArray()
        for span in spans { span.write(to: &writer) }
        writer.endArray()
        writer.endObject()
        writer.endArray()
        writer.endObject()
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    private static func nanoseconds(_ time: Date) -> String {
        // A `Date` of today is exact to less than a microsecond.
        String(Int64(clamping: (time.timeIntervalSince1970 * 1e6).rounded())) + "000"
    }

    private static func hex(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
