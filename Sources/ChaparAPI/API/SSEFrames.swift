internal import NIOCore
internal import ChaparDelivery
internal import ChaparCore

/// A buffer of server-sent events, which are written together.
///
/// Source: WHATWG HTML, section 9.2 "Server-sent events", read 2026-11. Data is one line, since our JSON never contains
/// a line end.
struct SSEFrames {
    private var buffer = ByteBuffer()

    /// Whether the buffer is empty.
    var isEmpty: Bool { buffer.readableBytes == 0 }

    /// Sets the time that a client waits before it reconnects.
    mutating func retry(_ duration: Duration) { buffer.writeString("retry: \(duration.inMilliseconds)\n\n") }

    /// Adds an event; one without a number does not change the client's position.
    mutating func event(_ type: String, data: [UInt8], number: Int64? = nil) {
        if let number { buffer.writeString("id: \(number)\n") }
        buffer.writeString("event: \(type)\ndata: ")
        buffer.writeBytes(data)
        buffer.writeString("\n\n")
    }

    /// Adds a heartbeat.
    ///
    /// It has the position in the stream, which a client with a narrow filter would not get otherwise. A frame without
    /// data causes no event at the client.
    mutating func heartbeat(_ position: Int64) { buffer.writeString(": heartbeat\nid: \(position)\n\n") }

    /// Returns the contents and empties the buffer.
    mutating func drain() -> ByteBuffer {
        defer { buffer = ByteBuffer() }
        return buffer
    }
}
