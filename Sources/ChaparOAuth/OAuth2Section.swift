internal import Foundation
public import Logging
public import ChaparCore

extension AuthKind {
    /// Bearer tokens that are refreshed with a refresh token, for any backend.
    ///
    /// ## Configuration keys
    /// - `client_id` (string, required). `client_secret` (secret), `client_auth` (`none`, `basic`, `post`; default
    ///   `none`).
    /// - `base_url` (address): What requests must lie under to carry the token; the backend's own address by default.
    /// - `token_path` (string, default `api/oauth2/token`) under the base, or `token_url` (address) anywhere.
    /// - `body_encoding` (`json`, `form`), `send_access_token` (default true), `extra_parameters` (map of texts).
    /// - `early_refresh` (seconds, 60), `statuses` (list, `[401]`), `max_refreshes` (5), `refresh_window` (seconds,
    ///   30), `refresh_timeout` (seconds, 20), `cooldown` (list of seconds).
    /// - `access_token`, `refresh_token` (secret), `expires_in` (seconds): The credential to begin with.
    /// - `store` (map): `kind` (`state`, `file`, `memory`), for a file `path`, `key_style` (`long`, `original`),
    ///   `allow_insecure_permissions`. By default the gateway's own store.
    public static let oauth2Refresh = AuthKind("oauth2_refresh") { section, site in
        let before = section.report.issues.count
        let settings = OAuth2Settings(section, site: site)
        let store = section.credentialStore(site: site)
        guard section.report.issues.count == before, let settings, let store else { return nil }
        do throws(HTTPPoolError) {
            return try OAuth2RefreshToken(
                settings,
                store: store,
                http: site.context.http,
                time: site.context.time,
                observe: { event in
                    event.log(to: site.context.logger)
                    if let notice = event.notice { site.context.announce(notice) }
                }
            )
        } catch {
            section.reject("kind", "oauth2_refresh cannot be set up: \(error)")
            return nil
        }
    }
}

extension ConfigSection {
    /// Returns the strategy that the key `auth` chooses, where the platform has none of its own: OAuth 2.
    public func auth(for site: AuthContext) -> (any AuthStrategy)? { auth([.oauth2Refresh], for: site) }
}

extension OAuth2Settings {
    /// Reads a section; nil after an issue with a required key.
    init?(_ section: ConfigSection, site: AuthContext) {
        let base = section.has("base_url") ? section.baseURL("base_url") : site.base
        _ = section.string("base_url")
        guard let clientID = section.requiredString("client_id", "the client's id"), let base else { return nil }
        self.init(base: base, clientID: clientID)
        clientSecret = section.secret("client_secret")
        clientAuthentication = section.choice("client_auth", default: .none)
        if clientAuthentication != .none, clientSecret == nil, !section.has("client_secret") {
            section.missing("client_secret", "the client's secret, which client_auth asks for")
        }
        tokenPath = section.string("token_path", default: tokenPath)
        tokenURL = section.baseURL("token_url")
        encoding = section.choice("body_encoding", default: .json)
        sendsAccessToken = section.bool("send_access_token", default: true)
        if let extra = section.section("extra_parameters") {
            // Some servers require a secret of their own under a name of their own: none of the values is shown.
            extraParameters = extra.keys.compactMap { name in extra.secret(name).map { (name, $0.reveal()) } }
        }
        earlyRefresh = section.seconds("early_refresh", in: 0...86400, default: earlyRefresh)
        maximumRefreshes = section.integer("max_refreshes", in: 1...1000, default: maximumRefreshes)
        refreshWindow = section.seconds("refresh_window", in: 1...3600, default: refreshWindow)
        refreshTimeout = section.seconds("refresh_timeout", in: 1...300, default: refreshTimeout)
        if let texts = section.strings("statuses") {
            let numbers = texts.compactMap { Int($0) }.filter { (400..<500).contains($0) }
            if numbers.count != texts.count || numbers.isEmpty {
                section.reject("statuses", "must be a list of statuses from 400 to 499")
            }
            refreshStatuses = Set(numbers)
        }
        if let texts = section.strings("cooldown") {
            let numbers = texts.compactMap { Double($0) }.filter { (0.1...3600).contains($0) }
            if numbers.count != texts.count || numbers.isEmpty {
                section.reject("cooldown", "must be a list of seconds from 0.1 to 3600")
            }
            cooldown = numbers.map { .milliseconds(clamping: $0 * 1000) }
        }
        trustPEM = site.common.trustPEM
        proxy = site.common.proxy
        proxyCredentials = site.common.proxyCredentials
    }
}

private enum StoreKind: String, CaseIterable { case state, file, memory }

extension ConfigSection {
    /// Returns the store that the keys of an `auth` section choose, with its tokens as a seed.
    fileprivate func credentialStore(site: AuthContext) -> (any CredentialStore)? {
        let refresh = secret("refresh_token")
        let lifetime = integer("expires_in", in: 0...1_000_000_000)
        let access = secret("access_token")
        // An unknown access token is treated as expired: the first request refreshes it.
        let seed = (access ?? refresh).map { _ in
            OAuthCredential(
                accessToken: access ?? Secret("none"),
                refreshToken: refresh,
                expiresIn: access == nil ? 0 : lifetime,
                createdAt: site.context.time.now
            )
        }
        let own = section("store")
        defer { own?.finish() }
        switch own?.choice("kind", default: StoreKind.state) ?? .state {
        case .memory: return MemoryCredentialStore(seed)
        case .state:
            let name = site.context.name
            guard let credentials = site.context.credentials else { return MemoryCredentialStore(seed) }
            let store = StateCredentialStore(credentials, marks: site.context.state, name: name)
            return ChainedCredentialStore(store, seed: seed)
        case .file:
            guard let path = own?.requiredString("path", "the file that holds the credential") else { return nil }
            let file = FileCredentialStore(
                path: path,
                style: own?.choice("key_style", default: .long) ?? .long,
                allowsInsecurePermissions: own?.bool("allow_insecure_permissions", default: false) ?? false
            )
            return ChainedCredentialStore(file, seed: seed)
        }
    }
}

extension OAuth2Event {
    /// The notice about it on the gateway's event stream; nil for routine events.
    public var notice: BackendNotice? {
        switch self {
        case .refreshFailed(let error):
            let detail: JSONObject = ["code": .string(error.code)]
            return BackendNotice(
                error.isRetryable ? .retry : .error,
                "token_refresh",
                message: error.description,
                detail: detail
            )
        case .credentialDropped:
            let sentence = "the platform refused the refresh token: log in again"
            return BackendNotice(.error, "credential_dropped", message: sentence)
        case .storeFailed:
            return BackendNotice(.retry, "credential_store", message: "a new credential could not be stored")
        case .refreshed, .adopted, .clockSkew, .storeUnreadable, .retriedWithoutRefresh: return nil
        }
    }

    /// Writes the event to a log: words and numbers, never a token.
    public func log(to logger: Logger) {
        switch self {
        case .refreshed(let generation, let lifetime, let waiters, _):
            logger.debug(
                "an access token was refreshed",
                metadata: [
                    "generation": .stringConvertible(generation),
                    "lifetime": "\(lifetime.map(String.init) ?? "unknown")",
                    "waiters": .stringConvertible(waiters),
                ]
            )
        case .adopted(let generation):
            logger.debug("a stored credential is used", metadata: ["generation": .stringConvertible(generation)])
        case .refreshFailed(let error):
            logger.debug("an access token was not refreshed", metadata: ["code": "\(error.code)", "error": "\(error)"])
        case .credentialDropped: logger.warning("the platform refused the refresh token: log in again")
        case .clockSkew(let seconds):
            logger.warning(
                "the token endpoint's clock differs from ours",
                metadata: ["seconds": .stringConvertible(seconds)]
            )
        case .storeFailed: logger.warning("a new credential could not be stored; it is tried again")
        case .storeUnreadable(let error):
            logger.warning("the stored credential cannot be read", metadata: ["error": "\(error)"])
        case .retriedWithoutRefresh: break
        }
    }
}
