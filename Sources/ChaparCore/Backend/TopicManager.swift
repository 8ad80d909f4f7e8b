/// The outcome for one token in a call with many.
@nonexhaustive
public enum TokenOutcome: Sendable {
    /// The change is made.
    case done
    /// The token is dead or malformed, in the platform's word.
    case dead(String)
    /// The platform refuses the change for this token, for a reason such as `TOO_MANY_TOPICS`.
    case refused(String)
    /// There is no usable answer, even after further attempts; repeating the call does no harm.
    case failed(PushError)
}

/// A topic that a device has joined.
public struct TopicMembership: Sendable, Hashable {
    /// The topic's name.
    public var name: String
    /// The day it joined, as the platform writes it; nil when the platform does not say.
    public var since: String?

    /// Makes a membership.
    public init(name: String, since: String? = nil) {
        self.name = name
        self.since = since
    }
}

/// Adds tokens to the topics of a platform and removes them again.
///
/// A topic exists as long as a token is in it; sending to one is an ordinary send to ``Recipient/topic(_:)``.
public protocol TopicManager: Sendable {
    /// The services whose tokens can join; the first stands for a token whose service was not given.
    var services: [TokenService] { get }

    /// Adds any number of tokens to a topic; returns an outcome for each, in order.
    ///
    /// Throws when the platform cannot have a topic of this name. Tokens of a failed request get
    /// ``TokenOutcome/failed(_:)``; when already the first request fails, a plugin may throw that failure instead.
    func subscribe(_ tokens: [DeviceToken], to topic: String) async throws(PushError) -> [TokenOutcome]

    /// Removes any number of tokens from a topic; returns an outcome for each, in order.
    ///
    /// A token that was not in the topic counts as done.
    ///
    /// It throws the same errors as ``subscribe(_:to:)``.
    func unsubscribe(_ tokens: [DeviceToken], from topic: String) async throws(PushError) -> [TokenOutcome]

    /// Returns the topics of a token; nil when the platform says that it does not know the token.
    func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]?
}
