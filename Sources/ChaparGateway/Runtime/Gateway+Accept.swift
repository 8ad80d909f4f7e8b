internal import HTTPTypes
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
public import ChaparCore
public import ChaparQueue

extension Gateway {
    /// Accepts a notification from code.
    ///
    /// When this returns, the notification is on disk and is delivered across crashes and restarts.
    ///
    /// It takes the path of `POST /v1/notifications`: the same checks, routes, limits of content and of the store, and
    /// the same 24 hours (`queue.idempotency_window`) for which a repeated idempotency key gets the first answer and
    /// sends nothing. The program itself takes the place of an API key and may do everything; limits of keys, peers and
    /// requests in progress do not apply. The call waits for the commit, also before ``run()``, and is refused once the
    /// shutdown has begun.
    ///
    /// - Parameters:
    ///   - notification: The content to show. With ``ChaparCore/PushNotification/activity`` it goes to the devices that
    ///     registered for that Live Activity, and `recipients` is empty.
    ///   - recipients: At most 10,000 of one form: tokens, devices, users or ids of a platform; or one topic.
    ///   - route: The name of a route of the configuration; by default the one that matches.
    ///   - backend: The name of a backend, instead of a route.
    ///   - app: The app of the devices and users; required when several share the gateway and nothing else says which.
    ///   - idempotencyKey: 1 to 255 printable ASCII characters. A repeated key sends nothing; without one every call
    ///     sends.
    /// - Returns: The notification's id, for ``states(of:)``, and what the platforms would drop.
    /// - Throws: The mistakes with their fields; or that nothing is accepted for now, with the time to try again.
    public func accept(
        _ notification: PushNotification,
        to recipients: [Recipient],
        route: String? = nil,
        backend: String? = nil,
        app: AppName? = nil,
        idempotencyKey: String? = nil
    ) async throws(AcceptanceProblem) -> AcceptedNotification {
        let body = NotificationWriter.body(notification, to: recipients, route: route, backend: backend, app: app)
        do throws(Problem) {
            return try AcceptedNotification(await responder.accept(body, idempotencyKey: idempotencyKey))
        } catch {
            throw AcceptanceProblem(error)
        }
    }

    /// Returns the state of each message of a notification.
    ///
    /// - Parameter id: An id that ``accept(_:to:route:backend:app:idempotencyKey:)`` or the HTTP API returned.
    /// - Returns: One state for each recipient, and for each backend of a route that fans out; each device of a user
    ///   has its own. Empty when there is no such notification, it is older than `store.retention`, or it was erased
    ///   with its user.
    /// - Throws: The store's failure.
    public func states(of id: NotificationID) async throws(StoreError) -> [DeliveryStatus] {
        let pageSize = 500
        var states: [DeliveryStatus] = []
        var after: Int64?
        while true {
            let page = try await state.store.deliveries(of: id, after: after, limit: pageSize)
            states += page.map { DeliveryStatus($0) }
            guard page.count == pageSize, let last = page.last else { return states }
            after = last.id
        }
    }
}

/// The result of ``Gateway/accept(_:to:route:backend:app:idempotencyKey:)`` for a notification that is on disk.
public struct AcceptedNotification: Sendable, Hashable {
    /// The notification's id.
    public let id: NotificationID
    /// The fields that platforms would drop or change, and the fallbacks that cannot take the message.
    public let warnings: [Finding]
    /// Whether an earlier call with the same idempotency key sent it.
    public let isReplay: Bool

    init(_ reply: EnqueueReply) throws(Problem) {
        let answer = try? JSONValue(parsing: reply.body)
        guard let id = answer?["id"]?.stringValue.flatMap({ NotificationID($0) }) else {
            throw Problem(.failed("the answer to the acceptance has no id"))
        }
        self.id = id
        warnings = (answer?["warnings"]?.arrayValue ?? []).map { warning in
            Finding(
                pointer: warning["pointer"]?.stringValue ?? "#",
                code: warning["code"]?.stringValue ?? "",
                detail: warning["detail"]?.stringValue ?? ""
            )
        }
        isReplay = reply.isReplay
    }
}

/// The reason why a notification was not accepted.
///
/// Nothing was stored, with one exception: after `store_failed` the result is unknown, and a repetition with the same
/// idempotency key settles it.
public struct AcceptanceProblem: Error, Sendable, Hashable, CustomStringConvertible {
    /// The stable code for programs: `invalid_request` when fields are wrong, else one of those in docs/API.md.
    public let code: String
    /// A short sentence that says what is wrong.
    public let title: String
    /// The fix.
    public let detail: String?
    /// The wrong fields, each with its place in the API's form (`#/content/title`), a code for programs and the fix; at
    /// most 100.
    public let errors: [Finding]
    /// The time after which the same call may succeed; nil when it never will.
    public let retryAfter: Duration?

    init(_ problem: Problem) {
        code = problem.code
        title = problem.title
        detail = problem.detail
        errors = problem.errors
        retryAfter = problem.isRetryable ? problem.retryAfter ?? .seconds(1) : nil
    }

    /// The title, with the fields and their fixes, or else the fix of the whole.
    public var description: String {
        let fields = errors.map { "\($0.pointer): \($0.detail)" }
        return ([title] + (fields.isEmpty ? [detail].compactMap { $0 } : fields)).joined(separator: "; ")
    }
}

/// The state of a message to one recipient.
public struct DeliveryStatus: Sendable, Hashable {
    /// The recipient.
    public let recipient: Recipient
    /// The state of the delivery.
    public let state: DeliveryState
    /// The backend that has the delivery, or had it last.
    public let backend: String
    /// The platform's id of the message, from the last attempt that has one.
    public let platformID: String?
    /// The reason of the last attempt that was not accepted, in the platform's own word or the gateway's; nil without
    /// one.
    public let reason: String?

    init(_ delivery: StoredDelivery) {
        switch delivery.recipient {
        case .device(let key): recipient = AppName(ofDevice: key).named(delivery.recipient)
        default: recipient = delivery.recipient
        }
        state = delivery.state
        backend = delivery.backend
        platformID = StatusAPI.platformID(in: delivery.attemptLog)
        reason = StatusAPI.attempts(in: delivery.attemptLog).last?["reason"]?.stringValue
    }
}

extension GatewayResponder {
    /// Accepts a notification that the program itself sends, in the form of the API.
    func accept(_ body: [UInt8], idempotencyKey: String?) async throws(Problem) -> EnqueueReply {
        let scope = RequestScope(
            snapshot: snapshots.current,
            caller: .everybody,
            path: "/v1/notifications",
            query: "",
            fields: [:]
        )
        let key = try IdempotencyKey(idempotencyKey.map { [$0] } ?? [])
        return try await modules.notifications.accept(body, key, scope)
    }
}
