public import ChaparCore

/// The options of an ``FCMBackend``, read from its section of a configuration file or set in code.
public struct FCMOptions: Sendable {
    /// The kinds of credential that a backend can send with.
    @nonexhaustive
    public enum Credential: Sendable {
        /// A service account's key file: the usual way for servers.
        case serviceAccount(GoogleServiceAccount)
        /// A person's refresh token, for trials.
        case authorizedUser(GoogleAuthorizedUser)
        /// Access tokens from the caller's own code.
        case accessToken(@Sendable () async throws -> AccessToken)
        /// Any other way to authenticate.
        case strategy(any AuthStrategy)
    }

    /// The credential that the backend sends with.
    public var credential: Credential
    /// The Firebase project's id, or its number.
    public var projectID: String
    /// Where tokens are looked up, topics joined and APNs tokens imported; nil when that is not known, as with a
    /// simulator.
    public var instanceIDEndpoint: HTTPEndpoint?
    /// The label that all messages carry in Firebase's analytics; nil for none.
    public var analyticsLabel: String?
    /// The time after the app was last seen from which a token of an Android device gets no messages; nil for no limit.
    ///
    /// FCM drops tokens of Android devices after 270 days without contact. The option applies only where the registry
    /// has `Device/lastSeen`.
    public var staleAfter: Duration? = Self.documentedLife
    /// Whether large sends go slower around quarter hours; nil means yes at Google's host and no at any other
    /// `base_url`.
    public var avoidsQuarterHours: Bool?
    /// Whether a message may go to every installation of the app, and which topics reach all of them.
    public var broadcast = BroadcastRule()
    /// The options that every backend has: address, trust, deadline, proxy, connections.
    ///
    /// Google asks for a deadline of at least ten seconds: shorter ones make duplicates.
    public var common = CommonBackendOptions(timeout: .seconds(15))

    /// Makes options in code, for Google's own hosts.
    public init(credential: Credential, projectID: String) {
        self.credential = credential
        self.projectID = projectID
        instanceIDEndpoint = Self.instanceIDHost
    }

    /// Makes options in code for a service account's own project, for Google's own hosts.
    public init(serviceAccount: GoogleServiceAccount) {
        self.init(credential: .serviceAccount(serviceAccount), projectID: serviceAccount.projectID)
    }

    /// 270 days: Firebase, "Best practices for FCM registration management", read 2026-11.
    public static let documentedLife = Duration.seconds(270 * 86_400)

    var spreadsQuarterHours: Bool { avoidsQuarterHours ?? common.address.isPlatform }

    static let sendHost = HTTPEndpoint(host: "fcm.googleapis.com")
    static let instanceIDHost = HTTPEndpoint(host: "iid.googleapis.com")

    /// Where messages go.
    var endpoint: HTTPEndpoint { common.address.endpoint(platform: Self.sendHost) }

    /// The path of a send.
    var sendPath: String { "/v1/projects/\(projectID)/messages:send" }

    /// Returns the configuration of the pool for one of the endpoints.
    func pool(_ endpoint: HTTPEndpoint) -> HTTPPoolConfiguration {
        var pool = HTTPPoolConfiguration(endpoint: endpoint, version: .http2)
        common.apply(to: &pool)
        pool.endpoint = endpoint
        return pool
    }
}

extension FCMOptions {
    private static let legacyKeys = ["server_key", "api_key", "legacy_server_key"]

    /// Reads a section; nil after reporting everything that is wrong with it.
    ///
    /// `auth` makes the strategy that the key `auth` asks for instead of a Google credential, from the options that
    /// every backend has.
    public init?(
        _ section: ConfigSection,
        auth: (ConfigSection, CommonBackendOptions) -> (any AuthStrategy)? = { _, _ in nil }
    ) {
        let before = section.report.issues.count
        let common = CommonBackendOptions(section, timeout: .seconds(15), shortestTimeout: .seconds(10))
        let instanceID = section.endpoint("iid_url")
        for (key, scheme) in [("base_url", common.address.scheme), ("iid_url", instanceID?.scheme)]
        where scheme == .http {
            section.reject(key, "FCM speaks TLS only", fix: "Write https://…")
        }
        let label = section.string("analytics_label")
        if let label, !FCMSchema.isLabel(label) {
            section.reject("analytics_label", "\"\(label)\" is no label", fix: "1 to 50 of a-z, A-Z, 0-9, - _ . ~ %.")
        }
        let staleAfter = section.seconds("stale_after", in: 0...3_153_600_000, default: Self.documentedLife)
        let avoidsQuarterHours =
            section.has("avoid_quarter_hours") ? section.bool("avoid_quarter_hours", default: true) : nil
        let broadcast = BroadcastRule(section)
        Self.rejectLegacy(section)
        let credential = Self.credential(section) { auth(section, common) }
        let project = Self.project(section, credential)
        guard let credential, let project, section.report.issues.count == before else { return nil }
        self.init(credential: credential, projectID: project)
        self.common = common
        self.broadcast = broadcast
        analyticsLabel = label
        self.staleAfter = staleAfter > .zero ? staleAfter : nil
        self.avoidsQuarterHours = avoidsQuarterHours
        // A simulator's user must not change topics at Google by accident, and a strategy is for the backend's own
        // address.
        let isGoogles = common.address.isPlatform && !section.has("auth")
        instanceIDEndpoint = instanceID ?? (isGoogles ? Self.instanceIDHost : nil)
    }

    /// Reports the keys of the legacy API, which Google shut down in 2024.
    private static func rejectLegacy(_ section: ConfigSection) {
        for key in legacyKeys where section.has(key) {
            _ = section.secret(key)
            section.reject(
                key,
                "belongs to the legacy API, which Google shut down in July 2024",
                fix: "Use service_account_file: Firebase console, Project settings, Service accounts."
            )
        }
    }

    private static func credential(_ section: ConfigSection, auth: () -> (any AuthStrategy)?) -> Credential? {
        let file = section.credentialFile("service_account_file")
        let text = section.secret("service_account")
        let user = section.credentialFile("authorized_user_file")
        let keys = ["service_account_file", "service_account", "authorized_user_file", "auth"].filter(section.has)
        if keys.isEmpty {
            if legacyKeys.allSatisfy({ !section.has($0) }) {
                section.missing(
                    "service_account_file",
                    "the path of the service account's key file: Firebase console, Project settings, Service accounts"
                )
            }
            return nil
        }
        if keys.count > 1 {
            section.reject(keys[1], "stands beside \(keys[0])", fix: "Keep one of the two.")
            return nil
        }
        if keys == ["auth"] { return auth().map { .strategy($0) } }
        do throws(GoogleCredentialMistake) {
            if let account = file ?? text { return .serviceAccount(try GoogleServiceAccount(json: account)) }
            if let user { return .authorizedUser(try GoogleAuthorizedUser(json: user)) }
        } catch {
            let field = error.field.map { "\($0) " } ?? ""
            section.reject(keys[0], "\(field)\(error.problem)", fix: error.fix)
        }
        return nil
    }

    private static func project(_ section: ConfigSection, _ credential: Credential?) -> String? {
        let written = section.string("project_id")
        var own: String?
        switch credential {
        case .serviceAccount(let account)?: own = account.projectID
        case .authorizedUser(let user)?: own = user.quotaProjectID
        default: break
        }
        guard let project = written ?? own else {
            if credential != nil { section.missing("project_id", "the Firebase project's id: Project settings") }
            return nil
        }
        guard isProject(project) else {
            section.reject(
                "project_id",
                "\"\(project)\" is not a project's id",
                fix: "Such as my-app-1a2b3, or a number."
            )
            return nil
        }
        return project
    }

    /// Whether a text can stand in the path: a project's id or number, perhaps with a domain before a colon.
    static func isProject(_ text: String) -> Bool {
        (1...100).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
                    UInt8(ascii: "."), UInt8(ascii: ":"):
                    true
                default: false
                }
            }
    }
}
