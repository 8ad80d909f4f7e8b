public import ChaparCore
internal import Foundation

/// The outcomes of one notification for many recipients, in the order of the recipients.
///
/// Nothing is sent before the sequence is iterated. Then it sends to a window of recipients at a time. The next window
/// is sent when the reader has taken all outcomes of the last one, so a slow reader slows the sending down and no
/// outcomes pile up. When the reader leaves the loop, nothing further is sent and no task keeps running. When the task
/// is cancelled, the current window ends as ``ChaparCore/PushBackend/send(_:report:)`` says, its outcomes are returned,
/// and then the sequence ends. A second iteration sends again.
public struct Deliveries: AsyncSequence, Sendable {
    /// Never: what goes wrong is an outcome.
    public typealias Failure = Never

    /// The recipients of a window, unless it is said.
    public static let defaultWindow = 500

    private let backend: any PushBackend
    private let notification: PushNotification
    private let recipients: [Recipient]
    private let language: String?
    private let window: Int

    init(
        _ backend: any PushBackend,
        _ notification: PushNotification,
        _ recipients: [Recipient],
        language: String?,
        window: Int
    ) {
        self.backend = backend
        self.notification = notification
        self.recipients = recipients
        self.language = language
        self.window = Swift.max(1, window)
    }

    /// Begins to send when it is asked for the first outcome.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// Sends a window at a time.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let deliveries: Deliveries
        private var outcomes: [DeliveryOutcome] = []
        /// The index of the first outcome.
        private var start = 0
        /// The index of the next recipient whose outcome is handed out.
        private var position = 0
        /// The expiry of all windows, from the time of the first one; its recipients are none.
        private var expiry: PushRequest?

        init(_ deliveries: Deliveries) { self.deliveries = deliveries }

        /// Returns the next outcome; nil when all were handed out, or before the next window in a cancelled task.
        public mutating func next() async -> Delivery? {
            if position == start + outcomes.count {
                guard position < deliveries.recipients.count, !Task.isCancelled else { return nil }
                await send()
            }
            defer { position += 1 }
            return Delivery(
                index: position,
                recipient: deliveries.recipients[position],
                outcome: outcomes[position - start]
            )
        }

        private mutating func send() async {
            let end = Swift.min(deliveries.recipients.count, position + deliveries.window)
            var request = expiry ?? [PushRequest(deliveries.notification, to: [])].fixingExpiry(at: Date())[0]
            expiry = request
            request.recipients = deliveries.recipients[position..<end]
                .map { Addressee($0, language: deliveries.language) }
            outcomes = await deliveries.backend.send([request])[0]
            start = position
        }
    }
}

/// The outcome for one of many recipients.
public struct Delivery: Sendable, Hashable {
    /// The place of the recipient, from 0.
    public let index: Int
    /// The recipient.
    public let recipient: Recipient
    /// The outcome.
    public let outcome: DeliveryOutcome

    /// Whether the platform took the message.
    public var isAccepted: Bool { outcome.isAccepted }

    /// The token to delete, since no message reaches it any more; nil for every other outcome.
    public var deadToken: DeviceToken? { outcome.deadToken(of: recipient) }
}

extension PushBackend {
    /// Returns the outcomes of a notification for many recipients; the notification is sent while the outcomes are
    /// iterated.
    ///
    /// ```swift
    /// for await delivery in ios.deliveries(of: sale, to: phones) {
    ///     if let dead = delivery.deadToken { try await forget(dead) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - notification: The message. Its time to live counts from the first outcome that is asked for.
    ///   - recipients: The recipients.
    ///   - language: The language tag of all of them, as for `send(_:to:language:)`.
    ///   - window: The recipients that are sent to at a time; at least one.
    /// - Returns: The outcomes, in the order of the recipients.
    public func deliveries(
        of notification: PushNotification,
        to recipients: [Recipient],
        language: String? = nil,
        window: Int = Deliveries.defaultWindow
    ) -> Deliveries {
        Deliveries(self, notification, recipients, language: language, window: window)
    }
}
