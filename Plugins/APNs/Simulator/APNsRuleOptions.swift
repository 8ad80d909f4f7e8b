/// How strictly the simulator checks, and the limits that a test may change.
public struct APNsRuleOptions: Sendable, Hashable {
    /// Whether provider tokens must have the documented form, payloads must be JSON objects, and those of Live
    /// Activities must have the keys of their event.
    ///
    /// The lenient form accepts all that the real service has been seen to accept.
    public var isStrict = true
    /// Whether any well-formed device token counts as registered.
    ///
    /// Tokens that are registered keep their state.
    public var acceptsAnyToken = false
    /// Whether device tokens with the prefixes of ``APNsMagicToken`` choose their own answer.
    public var honoursMagicTokens = false
    /// The `Retry-After` of a magic 503, in seconds; nil for none.
    public var magicRetryAfter: Int?
    /// The delay of the answer to a magic slow token.
    public var magicDelay: Duration = .seconds(2)
    /// The shortest time between two provider tokens on a connection; Apple says 20 minutes.
    public var tokenUpdateWindow: Duration = .seconds(20 * 60)
    /// The greatest age of a provider token; Apple says an hour.
    public var maximumTokenAge: Duration = .seconds(60 * 60)
    /// The furthest in the future that a provider token may be issued.
    public var clockTolerance: Duration = .seconds(60)
    /// The most pushes to a device within a minute before it answers `TooManyRequests`; nil for no limit.
    public var pushesPerDevicePerMinute: Int?
    /// The most channels of an app in an environment.
    public var maximumChannels = 10_000
    /// The apps that may use broadcast; nil for all.
    public var broadcastBundleIDs: Set<String>?

    /// Makes the options with Apple's numbers.
    public init() {}
}
