/// A kind of ``AuthStrategy`` that a configuration file can choose: the word after `auth: { kind: …`.
///
/// Plugins pass the kinds that fit their platform to ``ConfigSection/auth(_:for:)``; `oauth2Refresh` of ChaparOAuth
/// fits any platform.
public struct AuthKind: Sendable {
    /// The word.
    public let name: String
    /// Makes a strategy from the section, or reports at least one issue and returns nil.
    public let make: @Sendable (ConfigSection, AuthContext) -> (any AuthStrategy)?

    /// Makes a kind.
    public init(_ name: String, make: @escaping @Sendable (ConfigSection, AuthContext) -> (any AuthStrategy)?) {
        self.name = name
        self.make = make
    }
}

/// The backend's settings that a strategy needs.
public struct AuthContext: Sendable {
    /// The address of the backend's calls.
    public var base: HTTPBaseURL
    /// The backend's connection settings: certificates to trust, proxy.
    public var common: CommonBackendOptions
    /// The backend's dependencies.
    public var context: BackendContext

    /// Makes a context.
    public init(base: HTTPBaseURL, common: CommonBackendOptions, context: BackendContext) {
        self.base = base
        self.common = common
        self.context = context
    }
}

extension ConfigSection {
    /// Returns the strategy that the key `auth` of a backend's section chooses; nil when the section has no such key,
    /// and after a mistake, which is in the report.
    public func auth(_ kinds: [AuthKind], for site: AuthContext) -> (any AuthStrategy)? {
        guard let own = section("auth") else { return nil }
        let words = kinds.map(\.name)
        guard let name = own.requiredString("kind", "one of: \(words.joined(separator: ", "))") else { return nil }
        let word = Suggestion.same(as: name, among: words)
        guard let kind = kinds.first(where: { $0.name == word }) else {
            own.rejectWord("kind", name, words)
            return nil
        }
        let strategy = kind.make(own, site)
        own.finish()
        return strategy
    }
}

extension BackendContext {
    /// Returns this context with the strategy's credential on every call of the backend; nil changes nothing.
    public func authorized(by strategy: (any AuthStrategy)?) -> BackendContext {
        guard let strategy else { return self }
        return BackendContext(
            name: name,
            http: AuthorizedTransport(http, strategy: strategy),
            time: time,
            state: state,
            credentials: credentials,
            logger: logger,
            announce: announce
        )
    }
}
