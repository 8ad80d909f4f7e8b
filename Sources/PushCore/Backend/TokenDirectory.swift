/// A platform's record of a device token.
public struct TokenDetails: Sendable, Hashable {
    /// The app: package name or bundle id.
    public var application: String
    /// The platform's account that the token belongs to, such as a project's number; nil when it does not tell.
    public var project: String?
    /// What the device runs, in the platform's word, such as `ANDROID`; nil when it does not tell.
    public var platform: String?
    /// The app's version; nil when the platform does not know it.
    public var applicationVersion: String?
    /// The topics that it is in.
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

/// What became of one token of another platform that was imported.
@nonexhaustive
public enum TokenImport: Sendable {
    /// The token that now stands for it.
    case imported(DeviceToken)
    /// The platform does not take it: its reason.
    case refused(String)
    /// No usable answer, after further attempts; doing it again does no harm.
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

    /// Makes tokens of the platform's own from tokens of ``importedService``, any number.
    ///
    /// - Parameters:
    ///   - tokens: The tokens.
    ///   - application: The app's bundle id.
    ///   - environment: Which installations of the app the tokens are of; only `development` is distinguished.
    /// - Returns: An outcome for each token, in order.
    func importTokens(
        _ tokens: [DeviceToken],
        application: String,
        environment: TokenEnvironment
    ) async -> [TokenImport]
}
