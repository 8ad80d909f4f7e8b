public import ChaparCore

/// The options of an ``HMSBackend``, read from its section of a configuration file or set in code.
public struct HMSOptions: Sendable {
    /// The generation of the send API, with the id that its path has.
    @nonexhaustive
    public enum API: Sendable, Hashable {
        /// One app, by its id.
        case v1(appID: String)
        /// A project, by its id.
        case v2(projectID: String)
        /// A project, by its id, for HarmonyOS 5 and later only, which the other generations do not reach.
        ///
        /// Its tokens are of `TokenService/harmonyHuawei`; it takes a service account only.
        case v3(projectID: String)

        /// Whether messages go to HarmonyOS 5 and later.
        var isHarmony: Bool { if case .v3 = self { true } else { false } }
    }

    /// Who sends.
    @nonexhaustive
    public enum Credential: Sendable {
        /// OAuth 2.0 client credentials, exchanged for an access token.
        case client(id: String, secret: Secret)
        /// A service account, whose key signs a JWT that is itself the bearer.
        case serviceAccount(HMSServiceAccount)
        /// Any other way to authenticate.
        case strategy(any AuthStrategy)
    }

    /// The kind of message, which the `apns` block names in `target_user_type`.
    @nonexhaustive
    public enum TargetUserType: String, Sendable, CaseIterable {
        /// A test message.
        case test
        /// A message to users.
        case formal
        /// A call.
        case voip
    }

    /// Huawei's own hosts.
    public static let pushEndpoint = HTTPEndpoint(host: "push-api.cloud.huawei.com")
    /// Where access tokens are fetched.
    public static let tokenEndpoint = HTTPEndpoint(host: "oauth-login.cloud.huawei.com")

    /// Who sends.
    public var credential: Credential
    /// The generation of the send API.
    public var api: API
    /// The app's id, for the calls about topics and tokens; nil when only the project is known.
    public var appID: String?
    /// The id of the app's OAuth client, by which v3 takes messages back; nil when it is ``appID``.
    public var clientID: String?
    /// Where access tokens are fetched.
    public var tokenEndpoint = Self.tokenEndpoint
    /// The most recipients in one request, 1 to 1000.
    public var batchSize = 500
    /// Whether a message that the app has no right to send urgently is sent again with normal urgency.
    public var demotesWithoutRight = true
    /// The class of the app's first screen on Android, by which Huawei finds the icon for a badge.
    public var badgeClass: String?
    /// The category of a message to HarmonyOS 5 that names none of Huawei's own.
    public var defaultCategory = "MARKETING"
    /// The `target_user_type` of messages to Apple's devices.
    public var targetUserType = TargetUserType.formal
    /// The settings of the signature of delivery receipts; nil when none are expected.
    public var receipts: HMSReceiptOptions?
    /// Whether a message may go to every installation of the app, and which topics reach all of them.
    public var broadcast = BroadcastRule()
    /// The options that every backend has: address, trust, deadline, proxy, connections.
    public var common = CommonBackendOptions(timeout: .seconds(15), maximumConnections: 8)

    /// Makes options in code, for Huawei's own hosts.
    public init(credential: Credential, api: API, appID: String? = nil) {
        self.credential = credential
        self.api = api
        if case .v1(let id) = api { self.appID = appID ?? id } else { self.appID = appID }
    }

    /// The address that messages are sent to.
    var endpoint: HTTPEndpoint { common.address.endpoint(platform: Self.pushEndpoint) }

    /// The path of the send call.
    var sendPath: String {
        switch api {
        case .v1(let appID): "/v1/\(appID)/messages:send"
        case .v2(let projectID): "/v2/\(projectID)/messages:send"
        case .v3(let projectID): "/v3/\(projectID)/messages:send"
        }
    }

    /// The client id in the call that takes messages back; nil with v1 and v2, which have no such call.
    var revocationID: String? { isHarmony ? clientID ?? appID : nil }

    /// Whether messages go to HarmonyOS 5 and later.
    var isHarmony: Bool { api.isHarmony }

    /// Returns the configuration of the pool for one of the endpoints: HTTP/1.1, as Huawei's own clients use it.
    ///
    /// The peer may have closed an idle connection, and only the next request would notice. So an idle connection is
    /// kept for 30 s at most.
    func pool(_ endpoint: HTTPEndpoint) -> HTTPPoolConfiguration {
        var pool = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
        common.apply(to: &pool)
        pool.endpoint = endpoint
        pool.idleTimeout = .seconds(30)
        return pool
    }
}

/// How Huawei signs its delivery receipts: the values set beside the callback address in AppGallery Connect.
public struct HMSReceiptOptions: Sendable {
    /// How the secret is written.
    @nonexhaustive
    public enum Encoding: String, Sendable, CaseIterable {
        /// The key is the decoded text; newer secrets are of this kind.
        case base64
        /// The key is the text itself.
        case raw
    }

    /// The user name of the callback.
    public var user: String
    /// The secret of the callback.
    public var secret: Secret
    /// How the secret is written.
    public var encoding: Encoding
    /// The id of the receipt configuration that Huawei uses, when there are several; every message carries it.
    public var id: String?

    /// Makes options.
    public init(user: String, secret: Secret, encoding: Encoding = .base64, id: String? = nil) {
        self.user = user
        self.secret = secret
        self.encoding = encoding
        self.id = id
    }
}
