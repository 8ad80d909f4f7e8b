internal import HTTPTypes
internal import NIOHTTP1
internal import ChaparCore
internal import ChaparQueue

/// The error of a request, as RFC 9457 problem details: the form of every error that the API answers.
///
/// Thrown by endpoints and readers; ``GatewayResponder`` writes it. Its texts are for callers: they never contain a
/// path, a key or a token.
struct Problem: Error, Sendable {
    /// The HTTP status.
    var status: HTTPResponse.Status
    /// The stable code for programs, which also ends the `type`.
    var code: String
    /// A short sentence that says what is wrong.
    var title: String
    /// The fix.
    var detail: String?
    /// Whether the same request may succeed later.
    var isRetryable: Bool
    /// The time after which a retryable request may be tried again.
    var retryAfter: Duration?
    /// The wrong fields.
    var errors: [Finding] = []
    /// The problem of each notification of a batch, when all are wrong.
    var notifications: [Problem] = []
    /// Further header fields, such as `Allow`.
    var headers: HTTPFields = [:]
    /// The limit that refused the request, for metrics.
    var limit: APILimit?
    /// The name of the API key that was not sufficient, for the audit log.
    var keyName: String?
    /// Whether the request guessed a secret: it counts like a wrong key, and the answer must not show that there is a
    /// secret.
    var isGuess = false
    /// The internal cause, for the log; never shown to the caller.
    var cause: String?

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
    func answer(instance: String, requestID: String) -> (fields: HTTPFields, body: [UInt8]) {
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
    static func newRequestID() -> String {
        NotificationID(rawValue: .random(in: 0...NotificationID.highest)).description
    }
}

extension Problem {
    /// Returns the problem of a body that is not JSON, or has an unacceptable text.
    static func notJSON(_ error: JSONSyntaxError, _ body: [UInt8]) -> Problem {
        Problem(.badRequest, "not_json", "The body is not JSON", detail: error.sentence(about: body))
    }

    /// The problem of a target or a header field that would take quadratic time to compare.
    static let unsafeHead = Problem(
        .badRequest,
        "unsafe_head",
        "The request's head cannot be read",
        detail: "Its target and fields have at most \(String.mostMarks) combining marks in a row."
    )

    /// The problem of a target with a NUL, which no name of the gateway has and PostgreSQL's text cannot hold.
    static let nulInTarget = Problem(
        .badRequest,
        "unsafe_head",
        "The request's head cannot be read",
        detail: "Its target holds %00, a NUL: no path and no parameter may have one."
    )

    /// Returns the problem of bytes that are no HTTP/1.1 request.
    static func malformed(_ error: HTTPParserError) -> Problem {
        let detail =
            switch error {
            case .headerOverflow: "Its fields are longer, or more, than the gateway takes."
            case .unexpectedContentLength, .invalidContentLength: "Its Content-Length is no number, or stands twice."
            case .invalidVersion: "The gateway speaks HTTP/1.1."
            default: "The gateway speaks HTTP/1.1; where it has no server.tls its address begins with http://."
            }
        return Problem(.badRequest, "malformed_request", "What came is no request of HTTP/1.1", detail: detail)
    }

    /// The problem of a body with a transfer coding that the gateway does not support (RFC 9112, 6.1).
    static let unknownTransferCoding = Problem(
        .notImplemented,
        "transfer_coding_unknown",
        "The transfer coding of the body is not known",
        detail: "Transfer-Encoding is chunked alone: send the body without another coding, or with Content-Length."
    )

    /// Returns the problem of a wrong query parameter or header field.
    static func badParameter(_ name: String, _ detail: String) -> Problem {
        Problem(.badRequest, "invalid_parameter", "A parameter is wrong", detail: "\(name): \(detail)")
    }

    /// Returns the problem of an unknown path or notification.
    static func notFound(_ detail: String) -> Problem {
        Problem(.notFound, "not_found", "Not found", detail: detail)
    }

    /// Returns the problem of a method that the path does not support.
    static func methodNotAllowed(_ allowed: String) -> Problem {
        var problem = Problem(
            .methodNotAllowed,
            "method_not_allowed",
            "Method not allowed",
            detail: "Allowed here: \(allowed)."
        )
        problem.headers[.allow] = allowed
        return problem
    }

    /// Returns the problem of a request whose notifications have more values, as trees, than there is memory for.
    static func tooManyValues(_ count: Int) -> Problem {
        Problem(
            .contentTooLarge,
            "too_many_values",
            "Data and overrides hold too many values",
            detail: "At most \(Admission.maximumTreeValues) in a request; there are \(count). Send fewer at once."
        )
    }

    /// Returns the problem of a body that is larger than the gateway accepts.
    static func tooLarge(_ limit: Int) -> Problem {
        Problem(
            .contentTooLarge,
            "body_too_large",
            "The body is too large",
            detail: "At most \(limit) bytes; the operator sets server.max_body_bytes."
        )
    }

    /// The problem of a body that came too slowly.
    static let bodyTimeout = Problem(
        .requestTimeout,
        "body_timeout",
        "The body did not come in time",
        retryAfter: .seconds(1)
    )

    /// The problem of a body of another type than JSON.
    static let notJSONType = Problem(
        .unsupportedMediaType,
        "unsupported_media_type",
        "The body must be JSON",
        detail: "Send it with Content-Type: application/json."
    )

    /// The problem when the limit of requests in progress is reached.
    static let tooBusy = Problem(
        .serviceUnavailable,
        "too_busy",
        "Too many requests are in progress",
        detail: "Nothing was stored.",
        retryAfter: .seconds(1),
        limit: .requests
    )

    /// Returns the problem when the API key or the peer has made too many requests for now.
    static func rateLimited(_ limit: APILimit, perSecond: Int, wait: Duration) -> Problem {
        var problem = Problem(
            .tooManyRequests,
            "rate_limited",
            "Too many requests",
            detail: "At most \(perSecond) a second. Nothing was stored.",
            retryAfter: wait,
            limit: limit
        )
        let seconds = max(1, Int(clamping: wait.inSeconds.rounded(.up)))
        problem.headers[.rateLimitPolicy] = "\"requests\";q=\(perSecond);w=1"
        problem.headers[.rateLimit] = "\"requests\";r=0;t=\(seconds)"
        return problem
    }

    /// Returns the problem when one API key, or one peer behind a proxy, has too many requests in progress.
    static func tooManyOfOne(_ limit: APILimit) -> Problem {
        Problem(
            .tooManyRequests,
            "too_many_in_progress",
            "Too many requests of this caller are in progress",
            detail: "Nothing was stored.",
            retryAfter: .seconds(1),
            limit: limit
        )
    }

    /// Returns the problem when the bodies in progress reach the memory limit of one API key, of one peer or of all.
    static func tooManyBytes(_ limit: APILimit) -> Problem {
        let whose =
            switch limit {
            case .bodyBytesPerKey: " with this API key"
            case .bodyBytesPerPeer: " from this address"
            default: ""
            }
        return Problem(
            .serviceUnavailable,
            "too_busy",
            "The bodies of too many large requests\(whose) are in progress",
            detail: "Nothing was stored.",
            retryAfter: .seconds(1),
            limit: limit
        )
    }

    /// Returns the problem when the limit of open event streams is reached.
    static func tooManyStreams(_ limit: APILimit) -> Problem {
        Problem(
            .serviceUnavailable,
            "too_many_streams",
            "Too many event streams are open",
            retryAfter: .seconds(5),
            limit: limit
        )
    }

    /// The problem of administration that cannot be written to the audit log.
    static let noRecord = Problem(
        .serviceUnavailable,
        "audit_unavailable",
        "The audit log cannot be written",
        detail: "Administration is refused until it can be: look at the disk of audit.path. Nothing was done.",
        retryAfter: .seconds(30)
    )

    /// The problem while the gateway is shutting down.
    static let draining = Problem(
        .serviceUnavailable,
        "draining",
        "The gateway is shutting down",
        detail: "Nothing was stored.",
        retryAfter: .seconds(5)
    )

    /// Chooses our status for an error of the store; no other code does.
    init(_ error: StoreError) {
        switch error {
        case .full(let reason, let retryAfter):
            self.init(
                .serviceUnavailable,
                "store_full",
                "No new work is taken for now",
                detail: "\(reason). Nothing was stored.",
                retryAfter: retryAfter
            )
        case .shareFull(let reason, let retryAfter):
            self.init(
                .tooManyRequests,
                "queue_share_full",
                "As much waits of this API key as may",
                detail: "\(reason). Nothing was stored. What waits is cancelled by DELETE /v1/notifications?key=NAME.",
                retryAfter: retryAfter,
                limit: .waitingPerKey
            )
        case .closed: self = .draining
        case .damaged(let what):
            self.init(
                .serviceUnavailable,
                "store_damaged",
                "What was asked for is damaged in the store",
                detail:
                    "The store's file is damaged there, as the gateway's log says: put a backup in its place (chapar restore). "
                    + "What is not damaged goes on."
            )
            cause = what
        case .failed(let reason), .refused(let reason), .sealed(let reason), .newer(let reason):
            self.init(
                .serviceUnavailable,
                "store_failed",
                "The store failed",
                detail: "Whether it was stored is not known: repeat it with the same Idempotency-Key.",
                retryAfter: .seconds(2)
            )
            cause = reason
        }
    }
}
