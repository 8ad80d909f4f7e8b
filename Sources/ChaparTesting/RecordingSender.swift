public import ChaparCore
internal import Synchronization

/// A sender for tests of application code: it sends nothing, and keeps what it was given.
///
/// ```swift
/// let push = RecordingSender { _ in .refused(Refusal(.token, reason: "Unregistered", advice: .never)) }
/// try await Shop(push: push).ship(order: 42)
/// #expect(push.posts.map(\.notification.title) == ["Order 42"])
/// ```
///
/// It knows a repeated idempotency key, as a gateway does: it gives the first answer again and keeps nothing.
public final class RecordingSender: PushSender {
    /// A message that the code under test has sent.
    public struct Post: Sendable, Hashable {
        /// The content.
        public let notification: PushNotification
        /// The recipients.
        public let recipients: [Recipient]
        /// The name of the backend or the route; nil when the sender was to choose.
        public let via: String?
        /// Further wishes of the caller.
        public let options: SendOptions
    }

    private struct State {
        var calls = 0
        var posts: [Post] = []
        var answers: [String: Posted] = [:]
    }

    private let answer: @Sendable (Post, _ id: String) throws -> Posted
    private let state = Mutex(State())

    private init(answer: @escaping @Sendable (Post, String) throws -> Posted) { self.answer = answer }

    /// Makes a sender that sends at once, as a `PushClient` does.
    ///
    /// - Parameter outcome: Returns the outcome for a recipient, or throws what the call then throws; by default the
    ///   platform takes every message.
    public convenience init(
        outcome: @escaping @Sendable (Recipient) throws -> DeliveryOutcome = { _ in .accepted(Acceptance()) }
    ) {
        self.init { (post: Post, id: String) in
            Posted(id: id, outcomes: try post.recipients.map(outcome))
        }
    }

    /// Makes a sender that delivers later, as a `Gateway` does: it returns ids, each once, and no outcomes.
    public static func durable() -> RecordingSender { RecordingSender(answer: { Posted(id: $1) }) }

    /// The messages that were sent, in order.
    public var posts: [Post] { state.withLock { $0.posts } }

    /// Keeps a message and answers as the test says.
    @discardableResult
    public func post(
        _ notification: PushNotification,
        to recipients: [Recipient],
        via name: String?,
        options: SendOptions
    ) async throws -> Posted {
        let post = Post(notification: notification, recipients: recipients, via: name, options: options)
        let (first, number) = state.withLock { state in
            state.calls += 1
            return (options.idempotencyKey.flatMap { state.answers[$0] }, state.calls)
        }
        if var first {
            first.isReplay = true
            return first
        }
        // Without the lock: the test's closure may look at ``posts``.
        let posted = try answer(post, "\(number)")
        state.withLock { state in
            state.posts.append(post)
            if let key = options.idempotencyKey { state.answers[key] = posted }
        }
        return posted
    }
}
