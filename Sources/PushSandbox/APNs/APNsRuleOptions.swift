/// How strictly the simulator judges, and which of its numbers a test may shrink.
public struct APNsRuleOptions: Sendable, Hashable {
    /// Whether provider tokens must have the documented form, payloads must be JSON objects, and those of Live
    /// Activities must hold what their event asks for.
    ///
    /// The lenient form takes what the real service has been seen to take.
    public var isStrict = true
    /// Whether any well-formed device token is taken for a registered one.
    ///
    /// Tokens that are registered keep their state.
    public var acceptsAnyToken = false
    /// Whether device tokens with the prefixes of ``APNsMagicToken`` bring their own answer.
    public var honoursMagicTokens = false
    /// Whether a magic 503 carries `Retry-After`, in seconds.
    public var magicRetryAfter: Int?
    /// How long an answer to a magic slow token takes.
    public var magicDelay: Duration = .seconds(2)
    /// How soon a second provider token on a connection is too soon; Apple says 20 minutes.
    public var tokenUpdateWindow: Duration = .seconds(20 * 60)
    /// How old a provider token may be; Apple says an hour.
    public var maximumTokenAge: Duration = .seconds(60 * 60)
    /// How far in the future a provider token may be issued.
    public var clockTolerance: Duration = .seconds(60)
    /// How many pushes a device takes within a minute before it answers `TooManyRequests`; nil for no limit.
    public var pushesPerDevicePerMinute: Int?
    /// The most channels of an app in an environment.
    public var maximumChannels = 10_000
    /// The apps that may use broadcast; nil for all.
    public var broadcastBundleIDs: Set<String>?

    /// Makes the options with Apple's numbers.
    public init() {}
}
