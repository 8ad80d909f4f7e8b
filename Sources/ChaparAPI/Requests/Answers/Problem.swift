package import HTTPTypes
package import ChaparDelivery
package import ChaparCore
internal import ChaparQueue

/// The error of a request, as RFC 9457 problem details: the form of every error that the API answers.
///
/// Thrown by endpoints and readers; ``GatewayResponder`` writes it. Its texts are for callers: they never contain a
/// path, a key or a token.
package struct Problem: Error, Sendable {
    /// The HTTP status.
    package var status: HTTPResponse.Status
    /// The stable code for programs, which also ends the `type`.
    package var code: String
    /// A short sentence that says what is wrong.
    package var title: String
    /// The fix.
    package var detail: String?
    /// Whether the same request may succeed later.
    package var isRetryable: Bool
    /// The time after which a retryable request may be tried again.
    package var retryAfter: Duration?
    /// The wrong fields.
    package var errors: [Finding] = []
    /// The problem of each notification of a batch, when all are wrong.
    var notifications: [Problem] = []
    /// Further header fields, such as `Allow`.
    var headers: HTTPFields = [:]
    /// The limit that refused the request, for metrics.
    package var limit: APILimit?
    /// The name of the API key that was not sufficient, for the audit log.
    package var keyName: String?
    /// Whether the request guessed a secret: it counts like a wrong key, and the answer must not show that there is a
    /// secret.
    package var isGuess = false
    /// The internal cause, for the log; never shown to the caller.
    package var cause: String?

    init(
        _ status: HTTPResponse.Status,
        _ code: String,
        _ title: String,
        detail: String? = nil,
        retryAfter: Duration? = nil,
        limit: APILimit? = nil
    ) {
        self.limit = limit
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.retryAfter = retryAfter
        isRetryable = retryAfter != nil
    }

    /// Makes the problem of a notification with wrong fields, or of one that the API key may not send.
    init(_ issues: RequestIssues) {
        if let scope = issues.missingScope {
            self = .lacks(scope)
        } else {
            let title = issues.count == 1 ? "One field is wrong" : "\(issues.count) fields are wrong"
            self.init(.unprocessableContent, "invalid_request", title)
        }
        errors = issues.list
        if issues.count > issues.list.count { detail = "The first \(issues.list.count) are listed." }
    }

    /// Writes the members of the problem into an object that the caller has begun.
    func write(to writer: inout JSONWriter, instance: String, requestID: String) {
        writer.field("type", "urn:chapar:problem:" + code.replacing("_", with: "-"))
        writer.field("title", title)
        writer.field("status", status.code)
        writer.field("code", code)
        writer.field("detail", detail)
        writer.field("instance", instance)
        writer.field("request_id", requestID)
        writer.field("retryable", isRetryable)
        if !errors.isEmpty {
            writer.name("errors")
            writer.findings(errors)
        }
        guard !notifications.isEmpty else { return }
        writer.name("notifications")
        writer.beginArray()
        for problem in notifications {
            writer.beginObject()
            writer.field("status", problem.status.code)
            writer.name("problem")
            writer.beginObject()
            problem.write(to: &writer, instance: instance, requestID: requestID)
            writer.endObject()
            writer.endObject()
        }
        writer.endArray()
    }

    /// Returns the header fields and the body of the answer.
    package func answer(instance: String, requestID: String) -> (fields: HTTPFields, body: [UInt8]) {
        var writer = JSONWriter(capacity: 384)
        writer.beginObject()
        write(to: &writer, instance: instance, requestID: requestID)
        writer.endObject()
        var fields = headers
        fields[.contentType] = "application/problem+json"
        fields[.cacheControl] = "no-store"
        fields[.xContentTypeOptions] = "nosniff"
        if let retryAfter {
            fields[.retryAfter] = String(max(1, Int(clamping: retryAfter.inSeconds.rounded(.up))))
        }
        return (fields, writer.bytes)
    }

    /// Makes the number of a request, by which it is found in the log.
    package static func newRequestID() -> String {
        NotificationID(rawValue: .random(in: 0...NotificationID.highest)).description
    }
}
