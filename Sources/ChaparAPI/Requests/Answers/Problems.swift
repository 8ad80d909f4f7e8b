internal import HTTPTypes
package import NIOHTTP1
package import ChaparDelivery
package import ChaparCore
package import ChaparModules
internal import ChaparQueue

// Every problem that the API answers, with its status: no other file chooses one. Mistakes in fields are
// ``RequestIssues``, which become one problem.

// MARK: - The request

extension Problem {
    /// Returns the problem of a body that is not JSON, or has an unacceptable text.
    static func notJSON(_ error: JSONSyntaxError, _ body: [UInt8]) -> Problem {
        Problem(.badRequest, "not_json", "The body is not JSON", detail: error.sentence(about: body))
    }

    /// The problem of a target or a header field that would take quadratic time to compare.
    package static let unsafeHead = Problem(
        .badRequest,
        "unsafe_head",
        "The request's head cannot be read",
        detail: "Its target and fields have at most \(String.mostMarks) combining marks in a row."
    )

    /// The problem of a target with a NUL, which no name of the gateway has and PostgreSQL's text cannot hold.
    package static let nulInTarget = Problem(
        .badRequest,
        "unsafe_head",
        "The request's head cannot be read",
        detail: "Its target holds %00, a NUL: no path and no parameter may have one."
    )

    /// Returns the problem of bytes that are no HTTP/1.1 request.
    package static func malformed(_ error: HTTPParserError) -> Problem {
        let detail =
            switch error {
            case .headerOverflow: "Its fields are longer, or more, than the gateway takes."
            case .unexpectedContentLength, .invalidContentLength: "Its Content-Length is no number, or stands twice."
            case .invalidVersion: "The gateway speaks HTTP/1.1."
            default: "The gateway speaks HTTP/1.1; where it has no server.tls its address begins with http://."
            }
        return Problem(.badRequest, "malformed_request", "The request is not HTTP/1.1", detail: detail)
    }

    /// The problem of a body with a transfer coding that the gateway does not support (RFC 9112, 6.1).
    package static let unknownTransferCoding = Problem(
        .notImplemented,
        "transfer_coding_unknown",
        "The transfer coding of the body is not known",
        detail: "Transfer-Encoding may only be chunked: send the body without another coding, or with Content-Length."
    )

    /// Returns the problem of a wrong query parameter or header field.
    static func badParameter(_ name: String, _ detail: String) -> Problem {
        Problem(.badRequest, "invalid_parameter", "A parameter is wrong", detail: "\(name): \(detail)")
    }

    /// The problem of a cursor that no earlier page can have given.
    static var badCursor: Problem { badParameter("cursor", "must be the \"next\" of an earlier page.") }

    /// Returns the problem of an unknown path or notification.
    package static func notFound(_ detail: String) -> Problem {
        Problem(.notFound, "not_found", "Not found", detail: detail)
    }

    /// Returns the problem of a method that the path does not support.
    package static func methodNotAllowed(_ allowed: String) -> Problem {
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
    package static let bodyTimeout = Problem(
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
    package static func rateLimited(_ limit: APILimit, perSecond: Int, wait: Duration) -> Problem {
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
    package static let noRecord = Problem(
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

    /// The problem of a body whose connection ended before it.
    static let incomplete = Problem(
        .badRequest,
        "body_incomplete",
        "The body is not complete",
        detail: "The connection ended before the body did."
    )
}

// MARK: - Authentication and access

extension Problem {
    /// Returns the problem of a request without a valid key; `error` is the code of RFC 6750.
    static func unauthorized(_ detail: String, error: String?) -> Problem {
        var problem = Problem(.unauthorized, "unauthorized", "Not authorised", detail: detail)
        problem.headers[.wwwAuthenticate] = "Bearer realm=\"chapar\"" + (error.map { ", error=\"\($0)\"" } ?? "")
        return problem
    }

    /// Returns the problem of a key that lacks a scope.
    static func lacks(_ scope: GatewayConfiguration.APIKey.Scope) -> Problem {
        var problem = Problem(
            .forbidden,
            "forbidden",
            "The API key may not do this",
            detail: "It lacks the scope \"\(scope.rawValue)\"."
        )
        problem.headers[.wwwAuthenticate] =
            "Bearer realm=\"chapar\", error=\"insufficient_scope\", scope=\"\(scope.rawValue)\""
        return problem
    }

    /// The problem of a page of another site that uses a gateway without keys.
    static let crossSite = Problem(
        .forbidden,
        "cross_site",
        "The request comes from a page of another site",
        detail: "Without API keys pages of other sites are refused."
    )

    /// The problem of a request to a gateway without keys under another name than localhost.
    static let foreignHost = Problem(
        .forbidden,
        "host_not_allowed",
        "The request is for another host",
        detail: "Without API keys only requests for localhost are answered. "
            + "Configure auth.api_keys to be reached by other names."
    )

    /// The problem of a request to a gateway without keys that came through a proxy.
    package static let throughProxy = keysNeeded(
        "The request came through a proxy",
        "Every caller of the proxy would be let in."
    )

    /// The problem of a request to a gateway without keys by an address that other machines can reach as well.
    package static let keysNeeded = keysNeeded(
        "The gateway has no API keys",
        "Every caller of this address would be let in."
    )

    private static func keysNeeded(_ title: String, _ why: String) -> Problem {
        Problem(
            .forbidden,
            "keys_needed",
            title,
            detail: "Without API keys only requests that come straight from this machine are answered. \(why) "
                + "Make a key with \"chapar keys create\" and write it under auth.api_keys."
        )
    }
}

// MARK: - Notifications

extension Problem {
    /// Returns the problem of an `Idempotency-Key` that is none.
    static func keyInvalid(longest: Int) -> Problem {
        Problem(
            .badRequest,
            "idempotency_key_invalid",
            "The Idempotency-Key is malformed",
            detail: "One field with 1 to \(longest) printable ASCII characters."
        )
    }

    /// The problem when an earlier, different request used the key.
    static let keyReused = Problem(
        .unprocessableContent,
        "idempotency_key_reused",
        "The Idempotency-Key was used for another request",
        detail: "Use a new key for a new request."
    )

    /// The problem when a request with the key is still being stored.
    static let keyInUse = Problem(
        .conflict,
        "idempotency_key_in_use",
        "A request with this Idempotency-Key is in progress",
        detail: "Repeat it in a second to get its answer.",
        retryAfter: .seconds(1)
    )

    /// The problem of a batch without a valid notification; the caller adds the problem of each.
    static let nothingAccepted = Problem(
        .unprocessableContent,
        "nothing_accepted",
        "Every notification of the batch is wrong",
        detail: "The member notifications has the problem of each."
    )

    /// Returns the problem of a change of a campaign that is over, or has gone through its audience.
    static func campaignOver(_ phase: String) -> Problem {
        Problem(
            .conflict,
            "campaign_over",
            "The campaign cannot change any more",
            detail: "It is \(phase), or all of its deliveries are made; what waits of them can be cancelled."
        )
    }

    /// Returns the problem of cancelling the messages of a key that is beyond the caller's bounds.
    static func keyNotAllowed(isAdministrator: Bool) -> Problem {
        Problem(
            .forbidden,
            "key_not_allowed",
            "The API key may not do this",
            detail: isAdministrator
                ? "It is bound to some backends, and cancels the messages of keys within its bounds; this key reaches further."
                : "It cancels its own messages; those of another key need the scope \"admin\"."
        )
    }
}

// MARK: - Devices, users and backends

extension Problem {
    /// The problem of a text that is no user's id.
    static let badUserID = Problem(
        .badRequest,
        "bad_user_id",
        "The user's id is malformed",
        detail: "An id has 1 to \(Device.maximumNameBytes) bytes and no control characters."
    )

    /// The problem of a text that is no device id.
    static var badDeviceID: Problem {
        Problem(.badRequest, "bad_device_id", "The device's id is malformed", detail: DeviceFieldRules.formOfID)
    }

    /// Returns the problem of a device that the registry does not have.
    static func unknownDevice(_ id: String) -> Problem {
        .notFound("There is no device \(id.prefix(Device.maximumIDBytes)).")
    }

    /// Returns the problem of a request that concerns backends outside of the key's; `what` begins the sentence.
    static func reachesFurther(_ what: String) -> Problem {
        Problem(
            .forbidden,
            "forbidden",
            "The API key may not do this",
            detail: "\(what) reaches every backend of the app, and the key is for some."
        )
    }

    /// The problem when a user has as many unfinished erasures as may be recorded.
    static let erasuresUnfinished = Problem(
        .tooManyRequests,
        "erasures_unfinished",
        "Too many erasures of this user are unfinished",
        detail: "At most \(UserErasures.mostOnRecord); the gateway ends them by itself. Nothing was removed this time.",
        retryAfter: UserErasures.interval
    )

    /// Returns the problem of moving or dropping what waits for a configured backend.
    static func backendConfigured(_ name: String) -> Problem {
        Problem(
            .conflict,
            "backend_configured",
            "The backend is configured",
            detail: "Deliveries waiting for \(name.prefix(64)) are sent by it. Remove it from the configuration first."
        )
    }

    /// Returns the problem of a second diagnosis of a backend at the same time.
    static func diagnosisRuns(_ name: String) -> Problem {
        Problem(
            .conflict,
            "diagnosis_runs",
            "A diagnosis runs",
            detail: "The backend \(name.prefix(64)) is examined at this moment. Wait for the answer to that request.",
            retryAfter: .seconds(1)
        )
    }

    /// The problem of moving or dropping deliveries that are claimed.
    static let backendBusy = Problem(
        .conflict,
        "backend_busy",
        "Its deliveries are being worked on",
        detail: "Nothing was moved. Ask again.",
        retryAfter: .seconds(1)
    )
}

// MARK: - Callbacks

extension Problem {
    /// The problem of a callback for a backend that expects none.
    static let expectsNoReceipts = notFound("No backend of this name expects receipts.")

    /// The same problem, counted as a wrong key.
    static let secretGuessed = {
        var problem = expectsNoReceipts
        problem.isGuess = true
        return problem
    }()

    /// The problem of a callback that the platform has not sent.
    static let notBelieved = Problem(
        .unauthorized,
        "receipt_not_authentic",
        "The callback is not the platform's"
    )

    /// The problem of a report about a delivery that a platform may have, while the platform's answer is not stored.
    static let reportedEarly = Problem(
        .serviceUnavailable,
        "report_early",
        "The delivery is being worked on",
        detail: "What was reported of it is not stored. Report it again.",
        retryAfter: .seconds(5)
    )

    /// Returns the problem of a callback that cannot be read.
    static func malformedReceipt(_ why: String) -> Problem {
        Problem(.badRequest, "receipt_malformed", "The callback cannot be read", detail: why)
    }
}

// MARK: - Failures of others: the store, a platform, a module

extension Problem {
    /// Chooses our status for an error of the store; no other code does.
    package init(_ error: StoreError) {
        switch error {
        case .full(let reason, let retryAfter):
            self.init(
                .serviceUnavailable,
                "store_full",
                "The store accepts no new data for now",
                detail: "\(reason). Nothing was stored.",
                retryAfter: retryAfter
            )
        case .shareFull(let reason, let retryAfter):
            self.init(
                .tooManyRequests,
                "queue_share_full",
                "Too many messages of this API key wait",
                detail: "\(reason). Nothing was stored. What waits is cancelled by DELETE /v1/notifications?key=NAME.",
                retryAfter: retryAfter,
                limit: .waitingPerKey
            )
        case .closed: self = .draining
        case .damaged(let what):
            self.init(
                .serviceUnavailable,
                "store_damaged",
                "The requested value is damaged in the store",
                detail:
                    "The store's file is damaged there, as the gateway's log says: put a backup in its place (chapar restore). "
                    + "The rest of the store goes on."
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

    /// Makes the problem of a failed registry; calls about devices may be repeated.
    package init(ofDevices error: StoreError) {
        self.init(error)
        if code == "store_failed" { detail = "Whether it was stored is not known: repeat it." }
    }

    /// Chooses the status of the answer for a platform that failed while the caller waited; no other code does.
    ///
    /// A platform's 401 or 429 is not the caller's fault, so the caller sees 502 or 503.
    package init(_ error: PushError) {
        let code = error.code.rawValue.replacing("-", with: "_")
        switch error.code {
        case .unavailable, .rateLimited:
            let wait = error.retryAfter ?? .seconds(5)
            self.init(.serviceUnavailable, code, "The platform does not answer", retryAfter: wait)
        case .credentialsRefused:
            self.init(.badGateway, code, "The platform refused the gateway's credentials")
        case .unknownOutcome:
            self.init(.badGateway, code, "Whether the platform took this is not known")
        case .badAnswer:
            self.init(.badGateway, code, "The platform answered something unreadable")
        default:
            self.init(.unprocessableContent, code, "The platform refused this")
        }
        detail = error.reason.map { "\(error.message) (\($0))" } ?? error.message
    }

    /// Makes the problem of a module's refusal.
    package init(_ problem: ModuleProblem) {
        self.init(
            HTTPResponse.Status(code: problem.status),
            problem.code,
            problem.title,
            detail: problem.detail,
            retryAfter: problem.retryAfter
        )
        errors = Array(problem.errors.prefix(RequestIssues.shown))
        if problem.errors.count > errors.count, detail == nil { detail = "The first \(errors.count) are listed." }
    }
}
