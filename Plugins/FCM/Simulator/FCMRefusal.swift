internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// A refusal of the FCM simulator: Google's `google.rpc.Status` with its details.
///
/// Source: Firebase, "FCM error codes", and the error bodies of Google's own SDK tests, read 2026-08.
struct FCMRefusal: Error, Sendable {
    var http: Int
    var status: String
    var message: String
    var errorCode: String?
    var violations: [(field: String, description: String)] = []
    var apns: (statusCode: Int, reason: String)?
    var quota: (subject: String, description: String)?
    var info: String?
    var retryAfter: Int?

    init(_ http: Int, _ status: String, _ message: String, code: String? = nil) {
        self.http = http
        self.status = status
        self.message = message
        errorCode = code
    }

    /// The name under which counters count it.
    var reason: String { errorCode ?? info ?? status }

    // MARK: The rows of Google's table

    static let unregistered = FCMRefusal(
        404,
        "NOT_FOUND",
        "Requested entity was not found.",
        code: "UNREGISTERED"
    )

    static var unregisteredOnApple: FCMRefusal {
        var refusal = unregistered
        refusal.apns = (410, "Unregistered")
        return refusal
    }

    static let senderMismatch = FCMRefusal(
        403,
        "PERMISSION_DENIED",
        "SenderId mismatch",
        code: "SENDER_ID_MISMATCH"
    )

    static var thirdPartyAuth: FCMRefusal {
        var refusal = FCMRefusal(
            401,
            "UNAUTHENTICATED",
            "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or other "
                + "valid authentication credential.",
            code: "THIRD_PARTY_AUTH_ERROR"
        )
        refusal.apns = (403, "InvalidProviderToken")
        return refusal
    }

    static func unauthenticated(_ info: String) -> FCMRefusal {
        var refusal = FCMRefusal(
            401,
            "UNAUTHENTICATED",
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
                + "authentication credential."
        )
        refusal.info = info
        return refusal
    }

    /// Returns the refusal of an invalid message, which names the field's path.
    static func invalid(_ field: String, _ description: String) -> FCMRefusal {
        var refusal = FCMRefusal(400, "INVALID_ARGUMENT", description, code: "INVALID_ARGUMENT")
        refusal.violations = [(field, description)]
        return refusal
    }

    /// Returns the refusal of a request that is no message: it has no `FcmError`.
    static func malformed(_ field: String, _ description: String) -> FCMRefusal {
        mistyped(field, "Invalid JSON payload received. \(description)")
    }

    /// Returns the refusal of a value of the wrong type: it has no `FcmError` either.
    static func mistyped(_ field: String, _ description: String) -> FCMRefusal {
        var refusal = FCMRefusal(400, "INVALID_ARGUMENT", description)
        refusal.violations = [(field, description)]
        return refusal
    }

    /// The refusal of an invalid token: only its message says that it concerns the token.
    static let badToken = FCMRefusal(
        400,
        "INVALID_ARGUMENT",
        "The registration token is not a valid FCM registration token",
        code: "INVALID_ARGUMENT"
    )

    /// The refusal of a message that is too large: as with Google it has no violation.
    static let tooLarge = FCMRefusal(
        400,
        "INVALID_ARGUMENT",
        "Android message is too big",
        code: "INVALID_ARGUMENT"
    )

    static func quota(_ exceeded: FCMQuotaMeter.Exceeded?) -> FCMRefusal {
        var refusal = FCMRefusal(
            429,
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted (e.g. check quota).",
            code: "QUOTA_EXCEEDED"
        )
        switch exceeded {
        case .project?: refusal.quota = ("project:chapar-sandbox", "Message rate of the project exceeded")
        case .device?: refusal.quota = ("device", "Device message rate exceeded")
        case .topic?: refusal.quota = ("topic", "Topic message rate exceeded")
        case nil: break
        }
        return refusal
    }

    static let projectUnknown = FCMRefusal(404, "NOT_FOUND", "Requested entity was not found.")
    static let forbidden = FCMRefusal(
        403,
        "PERMISSION_DENIED",
        "Permission 'cloudmessaging.messages.create' denied on resource (or it may not exist)."
    )

    /// Returns the refusal that a fault rule names; the status decides when the name is none of Google's.
    static func named(_ word: String?, status: Int) -> FCMRefusal {
        var refusal: FCMRefusal
        switch word {
        case "UNREGISTERED"?: refusal = unregistered
        case "SENDER_ID_MISMATCH"?: refusal = senderMismatch
        case "THIRD_PARTY_AUTH_ERROR"?: refusal = thirdPartyAuth
        case "QUOTA_EXCEEDED"?: refusal = quota(nil)
        case "QUOTA_EXCEEDED:project"?: refusal = quota(.project)
        case "QUOTA_EXCEEDED:device"?: refusal = quota(.device)
        case "QUOTA_EXCEEDED:topic"?: refusal = quota(.topic)
        case "INVALID_ARGUMENT"?: refusal = invalid("message.data", "Invalid value")
        // Google's form before 2021.
        case "INVALID_ARGUMENT:token"?: refusal = invalid("message.token", "Invalid registration token")
        case "INVALID_ARGUMENT:size"?: refusal = tooLarge
        case "ACCESS_TOKEN_EXPIRED"?, "ACCESS_TOKEN_SCOPE_INSUFFICIENT"?, "SERVICE_DISABLED"?, "BILLING_DISABLED"?:
            refusal = FCMRefusal(status, usualStatus(status), "Request refused.")
            refusal.info = word
        default:
            refusal = FCMRefusal(status, usualStatus(status), "Request refused.")
            // A name among Google's statuses has no `FcmError`; any other stands in one.
            if let word, word != refusal.status { refusal.errorCode = word }
            if word == "FAILED_PRECONDITION" { (refusal.status, refusal.errorCode) = ("FAILED_PRECONDITION", nil) }
            if word == "UNAVAILABLE" || word == "INTERNAL" { refusal.errorCode = word }
        }
        refusal.http = status
        return refusal
    }

    private static func usualStatus(_ http: Int) -> String {
        switch http {
        case 400: "INVALID_ARGUMENT"
        case 401: "UNAUTHENTICATED"
        case 403: "PERMISSION_DENIED"
        case 404: "NOT_FOUND"
        case 429: "RESOURCE_EXHAUSTED"
        case 503: "UNAVAILABLE"
        case 500...: "INTERNAL"
        default: "UNKNOWN"
        }
    }

    // MARK: The answer

    /// Returns the answer, its details shuffled by the seed: a client must not rely on an order.
    func answer(shuffledBy random: inout SeededGenerator) -> SandboxAnswer {
        var details: [JSONValue] = []
        func type(_ name: String) -> JSONValue { .string("type.googleapis.com/\(name)") }
        if let errorCode {
            details.append([
                "@type": type("google.firebase.fcm.v1.FcmError"), "errorCode": .string(errorCode),
            ])
        }
        if let apns {
            details.append([
                "@type": type("google.firebase.fcm.v1.ApnsError"), "statusCode": .integer(Int64(apns.statusCode)),
                "reason": .string(apns.reason),
            ])
        }
        if !violations.isEmpty {
            let list = violations.map { violation -> JSONValue in
                ["field": .string(violation.field), "description": .string(violation.description)]
            }
            details.append(["@type": type("google.rpc.BadRequest"), "fieldViolations": .array(list)])
        }
        if let quota {
            let violation: JSONValue = ["subject": .string(quota.subject), "description": .string(quota.description)]
            details.append(["@type": type("google.rpc.QuotaFailure"), "violations": .array([violation])])
        }
        if let info {
            details.append([
                "@type": type("google.rpc.ErrorInfo"), "reason": .string(info), "domain": "googleapis.com",
                "metadata": ["service": "fcm.googleapis.com"],
            ])
        }
        details.shuffle(using: &random)
        var error: JSONObject = [
            "code": .integer(Int64(http)), "message": .string(message), "status": .string(status),
        ]
        if !details.isEmpty { error["details"] = .array(details) }
        let body: JSONValue = ["error": .object(error)]
        var answer = SandboxAnswer(
            status: http,
            headers: [HTTPHeader("content-type", "application/json; charset=UTF-8")],
            body: body.bytes
        )
        if let retryAfter { answer.headers.append(HTTPHeader("retry-after", "\(retryAfter)")) }
        return answer
    }
}
