public import ChaparCore

/// The settings of a ``WebPushBackend``: its VAPID keys, its contact, and the hosts that messages may go to.
public struct WebPushOptions: Sendable {
    /// The longest time that a push service keeps a message, in seconds: 28 days, Google's limit.
    public static let longestLife: Int64 = 2_419_200

    /// The VAPID keys, at least one: the first is that of new subscriptions, the others reach older ones.
    public var keys: [WebPushKey]
    /// The contact for the push services' operators: `mailto:` or `https:`.
    public var subject: String
    /// The lifetime of a VAPID token, 10 minutes to 24 hours; a new one is signed at half of it.
    public var tokenLife = Duration.seconds(43_200)
    /// The time for which push services keep a message that has no time to live, at most 28 days.
    public var timeToLive = Duration.seconds(longestLife)
    /// Whether browsers show messages by themselves (W3C Push API, declarative), where they have an address to open.
    public var isDeclarative: Bool {
        get { payload.isDeclarative }
        set { payload.isDeclarative = newValue }
    }
    /// The address that a tap opens where the message has none.
    public var navigate: String? {
        get { payload.navigate }
        set { payload.navigate = newValue }
    }
    /// The address of the picture beside the text where the message has none.
    public var icon: String? {
        get { payload.icon }
        set { payload.icon = newValue }
    }
    /// Whether silent messages are taken, for apps of UnifiedPush; browsers revoke the permission of sites that send
    /// them.
    public var allowsSilent: Bool {
        get { payload.allowsSilent }
        set { payload.allowsSilent = newValue }
    }
    /// Trust, deadline, proxy and connections; the connections are those of each push service.
    public var common = CommonBackendOptions(maximumConnections: 2)

    var payload = WebPushPayload.Settings()
    var hosts = WebPushHosts.standard

    /// Makes options in code, for the push services of browsers.
    ///
    /// - Parameters:
    ///   - keys: The VAPID keys, at least one; without one every send is refused.
    ///   - subject: `mailto:ops@example.com`, or an `https:` address.
    public init(keys: [WebPushKey], subject: String) {
        self.keys = keys
        self.subject = subject
    }

    /// Replaces the hosts that messages may go to: `browsers`, `any`, `host`, `host:port` or `*.domain`.
    ///
    /// A host that only `any` or a domain lets through must have public addresses.
    ///
    /// - Throws: `PushError` with the code `invalidRequest` for an entry that is none of these.
    public mutating func allow(hosts entries: [String]) throws(PushError) {
        var hosts = WebPushHosts()
        for entry in entries {
            if let problem = hosts.add(entry) { throw PushError(.invalidRequest, problem) }
        }
        self.hosts = hosts
    }
}
