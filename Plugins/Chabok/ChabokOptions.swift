public import ChaparCore

/// How a Chabok app is reached and used.
///
/// The factory in `ChabokPlugin.swift` reads it from a section of the configuration and checks it there; code sets it
/// by hand, and nothing is checked then.
public struct ChabokOptions: Sendable {
    /// The platform's two states; access tokens of one are not valid in the other.
    @nonexhaustive
    public enum Environment: String, Sendable, CaseIterable {
        /// For tests; the host does not depend on the app.
        case sandbox
        /// Real users.
        case production
    }

    /// The place of the access token in a request.
    @nonexhaustive
    public enum TokenPlacement: String, Sendable, CaseIterable {
        /// `X-Access-Token`.
        case header
        /// `access_token`.
        case query
        /// Both, as some of the vendor's clients do.
        case both
    }

    /// How a message travels.
    @nonexhaustive
    public enum Mechanism: String, Sendable, CaseIterable {
        /// A Chabok message in the user's inbox, with a push notification while the app is not connected.
        case message
        /// A push notification only.
        case notification
        /// A push notification, and an SMS or e-mail when it was not shown in time; one user at a time.
        case smart
    }

    /// The second message that follows when a notification was not shown in time.
    public struct Fallback: Sendable, Hashable {
        /// The medium of the second message.
        @nonexhaustive
        public enum Media: String, Sendable, CaseIterable {
            /// To the user's attribute `phone`, else to a user id that looks like a phone number.
            case sms
            /// To the user's attribute `email`, else the user id.
            case email
        }

        /// The medium.
        public var media: Media
        /// The time to wait for the display, in seconds.
        public var delay: Int
        /// Its text; nil for the text of the message.
        public var content: String?

        /// Makes a fallback.
        public init(media: Media, delay: Int, content: String? = nil) {
            self.media = media
            self.delay = delay
            self.content = content
        }

        var json: JSONValue {
            var object: JSONObject = [
                "delay": .integer(Int64(delay)), "media": .string(media.rawValue), "policy": "NOTIFICATION_SHOWN",
            ]
            if let content { object["content"] = .string(content) }
            return .object(object)
        }
    }

    /// The app's id, which is the part before a slash; nil is allowed in the sandbox only.
    public let appID: String?
    /// The state of the platform that messages are sent in.
    public let environment: Environment
    /// The access token of the panel's settings page.
    public var accessToken: Secret
    /// The place of the access token in a request.
    public var tokenPlacement = TokenPlacement.header
    /// How a message travels unless its `overrides` say otherwise.
    public var mechanism = Mechanism.message
    /// The channel of messages to users.
    public var channel = "default"
    /// The title of notifications that have none.
    public var appName: String?
    /// The second message of smart messages that bring none of their own.
    public var fallback: Fallback?
    /// Whether a message may go to every user, and the channels that reach all of them besides ``channel``, which all
    /// installations join.
    public var broadcast = BroadcastRule()
    /// Whether a message may go to every user of the app: ``broadcast``.
    public var allowsBroadcast: Bool {
        get { broadcast.isAllowed }
        set { broadcast.isAllowed = newValue }
    }
    /// Whether a value that Chabok cannot express is an error.
    public var isStrict = false
    /// Whether a send whose answer was lost may be repeated; the platform knows no idempotency key.
    public var resendsAmbiguous = false
    /// The most attempts of a call that is no send, 1 to 10.
    public var maximumAttempts = 3
    /// The most requests a second.
    public var requestsPerSecond = 10.0
    /// The shortest user id.
    public var minimumUserIDLength = 1
    /// Whether the audience "everybody" is written as the text `{}`, as one page of the documentation has it.
    public var writesEmptyTargetAsText = false
    /// The settings of the app's clients, by which an answer to a click says what the device showed.
    public var display = ChabokDisplayPolicy.Settings()
    /// Whether clicks that apps report are passed on to Chabok.
    public var forwardsClicks = false
    /// The interval between probes of the link; zero for no probes.
    public var probeInterval = Duration.seconds(60)
    /// The secret that authenticates webhooks; nil accepts no webhooks.
    public var webhookSecret: Secret?
    /// Where the API listens.
    public var base: HTTPBaseURL
    /// How to connect.
    public var common = CommonBackendOptions(timeout: .seconds(15), maximumConnections: 8)

    /// Makes options for an app; nothing is checked here.
    public init(appID: String?, environment: Environment, accessToken: Secret) {
        self.appID = appID.flatMap { $0.split(separator: "/").first.map(String.init) }
        self.environment = environment
        self.accessToken = accessToken
        base = Self.address(of: self.appID, in: environment)
    }

    /// Returns the address of the API of an app.
    ///
    /// Source: chabok-docs and the vendor's clients, as of 2021: the sandbox does not depend on the app; in production
    /// the app's id without its `-demo` is the host's first label, but for two ids of the vendor's own.
    public static func address(of appID: String?, in environment: Environment) -> HTTPBaseURL {
        let domain = "push.adpdigital.com"
        let app = appID?.split(separator: "/").first.map(String.init)
        let host: String
        switch (environment, app) {
        case (.sandbox, _): host = "sandbox.\(domain)"
        case (.production, nil), (.production, "chabok-demo"), (.production, "adp-bms-push"): host = domain
        case (.production, let app?): host = "\(app.hasSuffix("-demo") ? String(app.dropLast(5)) : app).\(domain)"
        }
        return HTTPBaseURL(HTTPEndpoint(host: host), path: "/api")
    }

    /// The channel that all installations join when they are registered.
    var commonChannel: String { ChabokChannel(channel)?.name ?? "default" }
    /// ``broadcast`` with every channel that reaches every user of the app.
    var broadcastRule: BroadcastRule { broadcast.adding(topics: [commonChannel]) }

    /// The pool that calls go through.
    var pool: HTTPPoolConfiguration {
        var pool = HTTPPoolConfiguration(endpoint: base.endpoint, version: .http1)
        common.apply(to: &pool)
        pool.endpoint = base.endpoint
        return pool
    }
}
