/// A platform's record of a device token.
public struct TokenDetails: Sendable, Hashable {
    /// The app: package name or bundle id.
    public var application: String
    /// The platform's account that the token belongs to, such as a project's number; nil when the platform does not
    /// say.
    public var project: String?
    /// The device's system in the platform's word, such as `ANDROID`; nil when the platform does not say.
    public var platform: String?
    /// The app's version; nil when the platform does not know it.
    public var applicationVersion: String?
    /// The topics that it has joined.
    public var topics: [TopicMembership]

    /// Makes details.
    public init(
        application: String,
        project: String? = nil,
        platform: String? = nil,
        applicationVersion: String? = nil,
        topics: [TopicMembership] = []
    ) {
        self.application = application
        self.project = project
        self.platform = platform
        self.applicationVersion = applicationVersion
        self.topics = topics
    }
}

/// The outcome of importing one token of another platform.
@nonexhaustive
public enum TokenImport: Sendable {
    /// The platform's own token for it.
    case imported(DeviceToken)
    /// The platform does not take it, for this reason.
    case refused(String)
    /// There is no usable answer, even after further attempts; repeating the call does no harm.
    case failed(PushError)
}

/// Reads a platform's records of its tokens, and makes tokens of its own from those of another platform.
public protocol TokenDirectory: Sendable {
    /// The services whose tokens can be looked up; the first stands for a token whose service was not given.
    var services: [TokenService] { get }
    /// The service whose tokens can be imported.
    var importedService: TokenService { get }

    /// Looks a token up; nil when the platform does not know it.
    func details(of token: DeviceToken) async throws(PushError) -> TokenDetails?

    /// Makes the platform's own tokens from any number of tokens of ``importedService``.
    ///
    /// - Parameters:
    ///   - tokens: The tokens.
    ///   - application: The app's bundle id.
    ///   - environment: The environment of the tokens; only `development` makes a difference.
    /// - Returns: An outcome for each token, in order.
    func importTokens(
        _ tokens: [DeviceToken],
        application: String,
        environment: TokenEnvironment
    ) async -> [TokenImport]
}
