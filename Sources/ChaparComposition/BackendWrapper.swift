public import Foundation
public import ChaparCore

/// A backend around another backend, which changes only when or how often the other one is used.
///
/// All abilities of the wrapped backend are passed on, so that none is lost. A wrapper implements `send` and the
/// members that it changes.
public protocol BackendWrapper: PushBackend {
    /// The backend inside.
    var wrapped: any PushBackend { get }
}

extension BackendWrapper {
    /// The wrapped backend's.
    public var kind: BackendKind { wrapped.kind }
    /// The wrapped backend's.
    public var audience: BackendAudience { wrapped.audience }
    /// The wrapped backend's.
    public var window: Int? { wrapped.window }
    /// The wrapped backend's.
    public var batching: RequestBatching? { wrapped.batching }
    /// The wrapped backend's.
    public var pacing: Pacing? { wrapped.pacing }
    /// Whether the wrapped backend's platform does.
    public var schedulesMessages: Bool { wrapped.schedulesMessages }
    /// The wrapped backend's.
    public var health: BackendHealth { wrapped.health }
    /// The wrapped backend's.
    public var devices: (any DeviceRegistrar)? { wrapped.devices }
    /// The wrapped backend's.
    public var subscriptions: (any SubscriptionManager)? { wrapped.subscriptions }
    /// The wrapped backend's.
    public var tags: (any TagEditor)? { wrapped.tags }
    /// The wrapped backend's.
    public var events: (any EventReporter)? { wrapped.events }
    /// The wrapped backend's.
    public var customEvents: (any CustomEventReporter)? { wrapped.customEvents }
    /// The wrapped backend's.
    public var cancellation: (any MessageCanceller)? { wrapped.cancellation }
    /// The wrapped backend's.
    public var recall: (any MessageRecaller)? { wrapped.recall }
    /// The wrapped backend's.
    public var revocation: (any MessageRevoker)? { wrapped.revocation }
    /// The wrapped backend's.
    public var tracking: (any MessageTracker)? { wrapped.tracking }
    /// The wrapped backend's.
    public var receipts: (any ReceiptReader)? { wrapped.receipts }
    /// The wrapped backend's.
    public var clicks: (any ClickReader)? { wrapped.clicks }
    /// The wrapped backend's.
    public var topics: (any TopicManager)? { wrapped.topics }
    /// The wrapped backend's.
    public var channels: (any ChannelManager)? { wrapped.channels }
    /// The wrapped backend's.
    public var tokenDirectory: (any TokenDirectory)? { wrapped.tokenDirectory }
    /// The wrapped backend's.
    public var operationPolicy: RetrySchedule { wrapped.operationPolicy }

    /// Asks the wrapped backend.
    public func credentialProblem(at now: Date) -> Refusal? { wrapped.credentialProblem(at: now) }
    /// Asks the wrapped backend.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        wrapped.check(notification, for: recipient)
    }
    /// Asks the wrapped backend.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        wrapped.payloadSize(of: notification, for: addressee)
    }
    /// Asks the wrapped backend.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        wrapped.payload(of: notification, for: addressee)
    }
    /// Asks the wrapped backend.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool { wrapped.isRepeatHarmful(notification) }
    /// Asks the wrapped backend.
    public func tokenUse(of notification: PushNotification) -> TokenUse? { wrapped.tokenUse(of: notification) }
    /// Asks the wrapped backend.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken { try wrapped.checked(token) }
    /// Asks the wrapped backend.
    public func problem(withTopic topic: String) -> String? { wrapped.problem(withTopic: topic) }
    /// Asks the wrapped backend.
    public func diagnose() async -> [Diagnosis] { await wrapped.diagnose() }
    /// Asks the wrapped backend.
    public func forget(device: String?) async throws(PushError) { try await wrapped.forget(device: device) }
    /// Asks the wrapped backend.
    public func watch() async { await wrapped.watch() }
    /// Shuts the wrapped backend down.
    public func shutdown(grace: Duration) async { await wrapped.shutdown(grace: grace) }
}
