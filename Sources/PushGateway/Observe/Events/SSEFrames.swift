internal import NIOCore
internal import PushCore

/// Gathers server-sent events until they are written together.
///
/// Source: WHATWG HTML, section 9.2 "Server-sent events", read 2026-11. Data is one line, since our JSON never holds a
/// line end.
struct SSEFrames {
    private var buffer = ByteBuffer()

    /// Whether nothing was gathered.
    var isEmpty: Bool { buffer.readableBytes == 0 }

    /// Says how long a client waits before it comes again.
    mutating func retry(_ duration: Duration) { buffer.writeString("retry: \(duration.inMilliseconds)\n\n") }

    /// Adds an event; one without a number leaves the client's place as it is.
    mutating func event(_ type: String, data: [UInt8], number: Int64? = nil) {
        if let number { buffer.writeString("id: \(number)\n") }
        buffer.writeString("event: \(type)\ndata: ")
        buffer.writeBytes(data)
        buffer.writeString("\n\n")
    }

    /// Adds a sign of life.
    ///
    /// It carries the place in the stream, which a client with a narrow filter would not learn otherwise; without data
    /// no event is raised.
    mutating func heartbeat(_ position: Int64) { buffer.writeString(": heartbeat\nid: \(position)\n\n") }

    /// Tells that events are gone which the client has not seen.
    mutating func gap(from: Int64, to: Int64) {
        var writer = JSONWriter(capacity: 96)
        writer.beginObject()
        writer.field("type", "gateway.gap")
        writer.field("after", from)
        writer.field("next", to)
        writer.endObject()
        event("gateway.gap", data: writer.bytes)
    }

    /// Everything gathered; nothing is left.
    mutating func drain() -> ByteBuffer {
        defer { buffer = ByteBuffer() }
        return buffer
    }
}
