/// The sender that application code takes: a client, a gateway, or a double in a test.
///
/// Code that uses this protocol does not change when a program that sends at once (`PushClient`) begins to send durably
/// (`Gateway`). Its tests need neither of them (`RecordingSender`).
public protocol PushSender: Sendable {
    /// Sends a message, or stores it and sends it later.
    ///
    /// - Parameters:
    ///   - notification: The content.
    ///   - recipients: The recipients, all of one form.
    ///   - name: The name of a backend, or of a route of a gateway. With nil the sender chooses: a gateway by its
    ///     routes, a client its only backend.
    ///   - options: Further options, such as an idempotency key.
    /// - Returns: The outcomes of a sender that sends at once, or the id of one that delivers later.
    /// - Throws: The reason why nothing was sent and nothing was stored. A platform's refusal is an outcome, not an
    ///   error.
    @discardableResult
    func post(
        _ notification: PushNotification,
        to recipients: [Recipient],
        via name: String?,
        options: SendOptions
    ) async throws -> Posted
}

extension PushSender {
    /// Sends a message without further wishes.
    @discardableResult
    public func post(
        _ notification: PushNotification,
        to recipients: [Recipient],
        via name: String? = nil
    ) async throws -> Posted {
        try await post(notification, to: recipients, via: name, options: SendOptions())
    }

    /// Sends a message, with further wishes, the way that the sender chooses.
    @discardableResult
    public func post(
        _ notification: PushNotification,
        to recipients: [Recipient],
        options: SendOptions
    ) async throws -> Posted {
        try await post(notification, to: recipients, via: nil, options: options)
    }

    /// Sends a message to one recipient, without further wishes.
    @discardableResult
    public func post(
        _ notification: PushNotification,
        to recipient: Recipient,
        via name: String? = nil
    ) async throws -> Posted {
        try await post(notification, to: [recipient], via: name, options: SendOptions())
    }

    /// Sends a message to one recipient, with further wishes, the way that the sender chooses.
    @discardableResult
    public func post(
        _ notification: PushNotification,
        to recipient: Recipient,
        options: SendOptions
    ) async throws -> Posted {
        try await post(notification, to: [recipient], via: nil, options: options)
    }
}

/// The result of ``PushSender/post(_:to:via:options:)``.
public struct Posted: Sendable, Hashable {
    /// The id by which the sender knows the message; nil when it keeps nothing that could be looked up.
    public var id: String?
    /// The fields that the platform would drop or change.
    public var warnings: [Finding]
    /// One outcome for each recipient, in order; nil when the message is delivered later.
    public var outcomes: [DeliveryOutcome]?
    /// Whether an earlier call with the same idempotency key sent it.
    public var isReplay: Bool

    /// Makes a result.
    public init(
        id: String? = nil,
        warnings: [Finding] = [],
        outcomes: [DeliveryOutcome]? = nil,
        isReplay: Bool = false
    ) {
        self.id = id
        self.warnings = warnings
        self.outcomes = outcomes
        self.isReplay = isReplay
    }
}
