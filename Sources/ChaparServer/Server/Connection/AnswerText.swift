internal import ChaparDelivery
internal import ChaparAPI
internal import HTTPTypes
internal import NIOCore

/// The writer of whole answers, head and body, into one buffer, so that each is one write to the socket.
enum AnswerText {
    /// Writes the answer to notifications that are on disk.
    static func accepted(_ acceptance: EnqueueReply, date: String, closes: Bool) -> ByteBuffer {
        var buffer = ByteBufferAllocator().buffer(capacity: 256 + acceptance.body.count)
        buffer.writeStaticString("HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n")
        if let id = acceptance.id {
            buffer.writeStaticString("Location: /v1/notifications/")
            buffer.writeString(id)
            buffer.writeStaticString("\r\n")
        }
        if acceptance.isReplay { buffer.writeStaticString("Idempotency-Replayed: true\r\n") }
        finish(&buffer, acceptance.body, date, closes)
        return buffer
    }

    /// Writes any answer.
    static func write(
        _ status: HTTPResponse.Status,
        _ fields: HTTPFields,
        _ body: [UInt8],
        date: String,
        closes: Bool
    ) -> ByteBuffer {
        var buffer = ByteBufferAllocator().buffer(capacity: 512 + body.count)
        buffer.writeString("HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n")
        for field in fields { buffer.writeString("\(field.name.rawName): \(field.value)\r\n") }
        finish(&buffer, body, date, closes)
        return buffer
    }

    private static func finish(_ buffer: inout ByteBuffer, _ body: [UInt8], _ date: String, _ closes: Bool) {
        buffer.writeStaticString("Content-Length: ")
        buffer.writeString(String(body.count))
        buffer.writeStaticString("\r\nDate: ")
        buffer.writeString(date)
        if closes { buffer.writeStaticString("\r\nConnection: close") }
        buffer.writeStaticString("\r\n\r\n")
        buffer.writeBytes(body)
    }
}
