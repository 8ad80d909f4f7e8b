public import ChaparCore
public import ChaparAltcraft

/// The configuration of Altcraft's SDK; only a ``Builder`` makes one, and it never changes.
public struct AltcraftConfiguration: Sendable, Hashable {
    private let apiUrl: String
    private let rToken: Secret?
    private let appInfo: AppInfo?
    /// The order of the token services; nil when none was set.
    let priority: [TokenService]?

    fileprivate init(_ apiUrl: String, _ rToken: Secret?, _ appInfo: AppInfo?, _ priority: [TokenService]?) {
        self.apiUrl = apiUrl
        self.rToken = rToken
        self.appInfo = appInfo
        self.priority = priority
    }

    /// Returns the address of the resource.
    public func getApiUrl() -> String { apiUrl }
    /// Returns the role token; nil for none or an empty one.
    public func getRToken() -> Secret? { rToken.flatMap { $0.isBlank ? nil : $0 } }
    /// Returns the app's identity that subscriptions carry.
    public func getAppInfo() -> AppInfo? { appInfo }
    /// Returns the order of the token services, by their names; nil when none was set, which means the usual one, or
    /// the one that ``AltcraftTokenFunctions/changePushProviderPriorityList(_:)`` was last given.
    public func getProviderPriorityList() -> [String]? { priority?.map(\.rawValue) }

    /// Collects the parts of a configuration and checks them.
    public struct Builder: Sendable {
        private var apiUrl: String?
        private var rToken: Secret?
        private var appInfo: AppInfo?
        private var providers: [String] = []
        private let events: EventSDKFunctions

        /// Begins a configuration; ``build()`` reports its mistakes to `events`, by default those of
        /// ``AltcraftSDK/shared``.
        public init(events: EventSDKFunctions = AltcraftSDK.shared.eventSDKFunctions) { self.events = events }

        /// Sets the address of the resource.
        public func setApiUrl(_ url: String?) -> Builder { with { $0.apiUrl = url } }
        /// Sets the role token.
        public func setRToken(_ token: String?) -> Builder { with { $0.rToken = token.map { Secret($0) } } }
        /// Sets the app's identity that subscriptions carry.
        public func setAppInfo(_ info: AppInfo?) -> Builder { with { $0.appInfo = info } }
        /// Sets the order of the token services; nil and an empty list mean the usual one.
        public func setProviderPriorityList(_ list: [String]?) -> Builder { with { $0.providers = list ?? [] } }

        /// Returns the configuration; nil without an address (event 471) or with an unknown provider (event 473).
        public func build() -> AltcraftConfiguration? {
            guard let apiUrl, !apiUrl.allSatisfy(\.isWhitespace) else {
                events.emit(.error, "build()", "apiUrl is empty", 471)
                return nil
            }
            do throws(AltcraftFault) {
                let order = providers.isEmpty ? nil : try AltcraftProviders.order(providers)
                return AltcraftConfiguration(apiUrl, rToken, appInfo, order)
            } catch {
                events.emit(.error, "build()", error.message, error.code, error.value)
                return nil
            }
        }

        private func with(_ change: (inout Builder) -> Void) -> Builder {
            var copy = self
            change(&copy)
            return copy
        }
    }
}

extension AltcraftConfiguration {
    /// Returns the options of a backend; nil when the address is not valid.
    func options(_ common: CommonBackendOptions) -> AltcraftOptions? {
        HTTPBaseURL(url: apiUrl).map {
            AltcraftOptions(
                base: $0,
                common: common,
                appInfo: appInfo,
                providerPriority: priority ?? AltcraftProviders.defaultOrder
            )
        }
    }
}
