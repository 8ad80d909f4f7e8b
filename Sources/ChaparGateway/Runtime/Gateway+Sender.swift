internal import ChaparDelivery
public import ChaparCore
internal import ChaparQueue

extension Gateway: PushSender {
    /// Accepts a message, as ``accept(_:to:route:backend:app:idempotencyKey:)`` does: when this returns, it is on disk.
    ///
    /// - Parameters:
    ///   - notification: The content.
    ///   - recipients: At most 10,000 of one form.
    ///   - name: The name of a route of the configuration, else of a backend; by default the route that matches.
    ///   - options: Further wishes.
    /// - Returns: The notification's id, in the form of the API (`NotificationID`), and warnings about values that
    ///   platforms would drop. The outcomes come later: see ``events(after:)`` and ``deliveries(of:)``.
    /// - Throws: A problem with the wrong fields, or one that says that no message is accepted now and when to try
    ///   again.
    @discardableResult
    public func post(
        _ notification: PushNotification,
        to recipients: [Recipient],
        via name: String?,
        options: SendOptions
    ) async throws(GatewayProblem) -> Posted {
        var notification = notification
        if let span = options.timeToLive { notification.timeToLive = span }
        let isRoute = state.snapshot.configuration.routes.contains { $0.name == name }
        let accepted = try await accept(
            notification,
            to: recipients,
            route: isRoute ? name : nil,
            backend: isRoute ? nil : name,
            idempotencyKey: options.idempotencyKey
        )
        return Posted(id: accepted.id.description, warnings: accepted.warnings, isReplay: accepted.isReplay)
    }
}
