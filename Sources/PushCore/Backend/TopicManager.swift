/// What became of one token in a call for many.
@nonexhaustive
public enum TokenOutcome: Sendable {
    /// It is done.
    case done
    /// The token is dead or malformed: the platform's word.
    case dead(String)
    /// The platform refuses it for this token: its reason, such as `TOO_MANY_TOPICS`.
    case refused(String)
    /// No usable answer, after further attempts; doing it again does no harm.
    case failed(PushError)
}

/// A topic that a device is in.
public struct TopicMembership: Sendable, Hashable {
    /// The topic's name.
    public var name: String
    /// The day it joined, as the platform writes it; nil when it does not tell.
    public var since: String?

    /// Makes a membership.
    public init(name: String, since: String? = nil) {
        self.name = name
        self.since = since
    }
}

/// Joins tokens to the topics of a platform and takes them off again.
///
/// A topic exists as long as a token is in it; sending to one is an ordinary send to ``Recipient/topic(_:)``.
public protocol TopicManager: Sendable {
    /// The services whose tokens can join; the first stands for a token whose service was not given.
    var services: [TokenService] { get }

    /// Joins tokens to a topic: any number, an outcome for each, in order.
    ///
    /// Throws when no topic can be called so. What a call that failed has left undone is ``TokenOutcome/failed(_:)`` of
    /// its tokens; when the very first call fails, a plugin may throw that failure in their place.
    func subscribe(_ tokens: [DeviceToken], to topic: String) async throws(PushError) -> [TokenOutcome]

    /// Takes tokens off a topic: any number, an outcome for each, in order; one that was not in it is done.
    ///
    /// Throws as ``subscribe(_:to:)``.
    func unsubscribe(_ tokens: [DeviceToken], from topic: String) async throws(PushError) -> [TokenOutcome]

    /// The topics that a token is in; nil when the platform says that it does not know the token.
    func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]?
}
