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
    /// It works like `POST /v1/notifications`: it has the same checks, routes, limits of content and of the store. For
    /// the same 24 hours (`queue.idempotency_window`) a repeated idempotency key gets the first answer and sends
    /// nothing. No API key is needed, and the program may do everything; limits of keys, peers and requests in progress
    /// do not apply. The call waits for the commit, also before ``run()``, and is refused once the shutdown has begun.
    ///
    /// - Parameters:
    ///   - notification: The content to show. With ``ChaparCore/PushNotification/activity`` it goes to the devices that
    ///     registered for that Live Activity, and `recipients` is empty.
    ///   - recipients: At most 10,000 of one form: tokens, devices, users or ids of a platform; or one topic.
    ///   - route: The name of a route of the configuration; by default the one that matches.
    ///   - backend: The name of a backend, instead of a route.
    ///   - app: The app of the devices and users; required when several apps share the gateway and neither the route
    ///     nor the backend determines it.
    ///   - idempotencyKey: 1 to 255 printable ASCII characters. A repeated key sends nothing; without one every call
    ///     sends.
    /// - Returns: The notification's id, for ``deliveries(of:)`` and ``cancel(_:onPlatforms:)``, and warnings about
    ///   values that platforms would drop.
    /// - Throws: A problem with the wrong fields, or one that says that no message is accepted now and when to try
    ///   again.
    public func accept(
        _ notification: PushNotification,
        to recipients: [Recipient],
        route: String? = nil,
        backend: String? = nil,
        app: AppName? = nil,
        idempotencyKey: String? = nil
    ) async throws(GatewayProblem) -> AcceptedNotification {
        let body = NotificationWriter.body(notification, to: recipients, route: route, backend: backend, app: app)
        do throws(Problem) {
            return try AcceptedNotification(await responder.accept(body, idempotencyKey: idempotencyKey))
        } catch {
            throw GatewayProblem(error)
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

extension GatewayResponder {
    /// Accepts a notification that the program itself sends, in the form of the API.
    func accept(_ body: [UInt8], idempotencyKey: String?) async throws(Problem) -> EnqueueReply {
        let scope = ownScope("/v1/notifications")
        let key = try IdempotencyKey(idempotencyKey.map { [$0] } ?? [])
        return try await modules.notifications.accept(body, key, scope)
    }

    /// Returns the scope of a call of the program itself, which may do everything.
    func ownScope(_ path: String) -> RequestScope {
        RequestScope(snapshot: snapshots.current, caller: .everybody, path: path[...], query: "", fields: [:])
    }
}
