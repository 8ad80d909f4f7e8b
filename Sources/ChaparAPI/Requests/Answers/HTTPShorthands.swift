package import HTTPTypes
package import Hummingbird
internal import NIOCore
internal import ChaparDelivery
internal import ChaparCore

extension HTTPField.Name {
    /// Returns the name that a literal of this file spells.
    ///
    /// `HTTPField.Name` has no initializer that cannot fail. The argument is a literal, so no text from outside comes
    /// here. A wrong literal stops the program at the first use of its constant.
    private static func known(_ name: StaticString) -> HTTPField.Name {
        guard let name = HTTPField.Name("\(name)") else { preconditionFailure("\(name) is no field name") }
        return name
    }

    /// The field that names the subject of a request for the audit log, where the path does not name it or must not be
    /// written down.
    package static let auditSubject = known("Audit-Subject")
    package static let crossOriginOpenerPolicy = known("Cross-Origin-Opener-Policy")
    package static let frameOptions = known("X-Frame-Options")
    static let idempotencyKey = known("Idempotency-Key")
    static let idempotencyReplayed = known("Idempotency-Replayed")
    static let lastEventID = known("Last-Event-ID")
    static let rateLimit = known("RateLimit")
    static let rateLimitPolicy = known("RateLimit-Policy")
    package static let referrerPolicy = known("Referrer-Policy")
    static let secFetchSite = known("Sec-Fetch-Site")
    static let xForwardedFor = known("X-Forwarded-For")
}

extension ResponseBody {
    /// Makes a body of bytes.
    package init(bytes: [UInt8]) { self.init(byteBuffer: ByteBuffer(bytes: bytes)) }
}

extension Response {
    /// Returns a JSON answer about the current state, which caches must not store.
    static func json(
        _ status: HTTPResponse.Status = .ok,
        capacity: Int = 512,
        _ write: (inout JSONWriter) throws -> Void
    ) rethrows -> Response {
        var writer = JSONWriter(capacity: capacity)
        writer.beginObject()
        try write(&writer)
        writer.endObject()
        return Response(
            status: status,
            headers: [
                .contentType: "application/json", .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
            ],
            body: ResponseBody(bytes: writer.bytes)
        )
    }
}

extension JSONWriter {
    /// Writes the wrong fields of a problem, or the warnings of an acceptance: each has a pointer, a code and a
    /// sentence.
    mutating func findings(_ findings: [Finding]) {
        beginArray()
        for finding in findings {
            beginObject()
            field("pointer", finding.pointer)
            field("code", finding.code)
            field("detail", finding.detail)
            endObject()
        }
        endArray()
    }
}
