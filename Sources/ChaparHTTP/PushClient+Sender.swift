public import ChaparCore

extension PushClient: PushSender {
    /// Sends at once, through a backend of this client, and returns the outcomes.
    ///
    /// - Parameters:
    ///   - notification: The content.
    ///   - recipients: The recipients.
    ///   - name: The name that a backend was made with. Nil is the client's only backend.
    ///   - options: Further wishes. A client keeps nothing, so it refuses an idempotency key.
    /// - Returns: An outcome for each recipient, in order, and what the platform would drop.
    /// - Throws: `PushError` for a name that no backend has, or an idempotency key; `HTTPPoolError` after the client's
    ///   end. Nothing was sent then.
    @discardableResult
    public func post(
        _ notification: PushNotification,
        to recipients: [Recipient],
        via name: String?,
        options: SendOptions
    ) async throws -> Posted {
        guard options.idempotencyKey == nil else {
            throw PushError(
                .unsupported,
                "a client keeps no idempotency keys, so a repeated call would send again: leave idempotencyKey out, "
                    + "or send through a Gateway"
            )
        }
        let backend = try backend(named: name)
        var notification = notification
        if let span = options.timeToLive { notification.timeToLive = span }
        let warnings = Set(recipients.map(\.form)).flatMap { backend.check(notification, for: $0).warnings }
        let outcomes = await backend.send(notification, to: recipients)
        return Posted(warnings: warnings, outcomes: outcomes)
    }

    private func backend(named name: String?) throws -> any PushBackend {
        let owned = try owned
        if let name, let found = owned[name] { return found }
        let names = owned.keys.sorted()
        if let name {
            let known = names.isEmpty ? "the client has none" : "there are \(names.joined(separator: ", "))"
            throw PushError(.invalidRequest, "via: there is no backend \(name): \(known)")
        }
        guard owned.count < 2, let only = owned.values.first else {
            let fix = names.isEmpty ? "make one first" : "say which: \(names.joined(separator: ", "))"
            throw PushError(.invalidRequest, "via: the client has \(names.count) backends: \(fix)")
        }
        return only
    }
}
