internal import ChaparCore

/// The hosts that messages may go to.
///
/// An endpoint comes from a browser, so an attacker can choose it. Hosts that the operator or this list names are
/// trusted; a host that only a pattern or `any` lets through is trusted no further than its public addresses, which are
/// checked at each attempt.
struct WebPushHosts: Sendable, Hashable {
    /// How far a host is trusted.
    enum Trust: Sendable, Hashable {
        /// It is named: any of its addresses will do.
        case named
        /// Its addresses must be public ones.
        case publicOnly
    }

    /// The word for the hosts of browsers.
    static let browsers = "browsers"
    /// The word for every host.
    static let any = "any"

    /// The hosts of the browsers' push services, read 2026-11.
    private static let browserHosts = [
        "fcm.googleapis.com", "android.googleapis.com", "jmt17.google.com", "updates.push.services.mozilla.com",
        "web.push.apple.com",
    ]
    /// Domains below which only a browser's push service has hosts.
    private static let browserDomains = ["push.apple.com", "notify.windows.com", "push.services.mozilla.com"]

    private var takesBrowsers = false
    private var takesAny = false
    private var exact: Set<HTTPEndpoint> = []
    private var domains: [String] = []

    /// The hosts of browsers.
    static var standard: WebPushHosts {
        var hosts = WebPushHosts()
        hosts.takesBrowsers = true
        return hosts
    }

    init() {}

    /// Adds an entry: `browsers`, `any`, `host`, `host:port` or `*.domain`; returns what is wrong with another text.
    mutating func add(_ entry: String) -> String? {
        switch entry {
        case Self.browsers: takesBrowsers = true
        case Self.any: takesAny = true
        case _ where entry.hasPrefix("*."):
            let domain = String(entry.dropFirst(2)).lowercased()
            guard domain.contains("."), HTTPEndpoint(url: "https://\(domain)")?.host == domain else {
                return "\"\(entry)\" is no domain below which hosts are"
            }
            domains.append(domain)
        default:
            guard !entry.contains("/"), let endpoint = HTTPEndpoint(url: "https://\(entry)") else {
                return "\"\(entry)\" is no host"
            }
            exact.insert(endpoint)
        }
        return nil
    }

    /// Whether a host may be accepted that no entry names.
    var hasUnnamed: Bool { takesAny || !domains.isEmpty }

    /// The endpoints that `chapar doctor` asks: the named ones, and one of each browser.
    var probes: [HTTPEndpoint] {
        let browsers =
            takesBrowsers
            ? ["fcm.googleapis.com", "updates.push.services.mozilla.com", "web.push.apple.com"] : []
        return browsers.map { HTTPEndpoint(host: $0) } + exact.sorted { "\($0)" < "\($1)" }
    }

    /// Returns how far a host is trusted.
    ///
    /// - Throws: What is wrong with it, as the end of a sentence about the token.
    func trust(in endpoint: HTTPEndpoint) throws(WebPushSubscription.Mistake) -> Trust {
        if exact.contains(endpoint) { return .named }
        if takesBrowsers, isBrowsers(endpoint) { return .named }
        if let problem = Self.problem(with: endpoint) { throw .init(problem: problem) }
        if takesAny || domains.contains(where: { endpoint.isBelow($0) }) { return .publicOnly }
        throw .init(problem: "endpoint is at a host that allow_hosts does not have")
    }

    private func isBrowsers(_ endpoint: HTTPEndpoint) -> Bool {
        endpoint.scheme == .https && endpoint.port == 443
            && (Self.browserHosts.contains(endpoint.host) || Self.browserDomains.contains { endpoint.isBelow($0) })
    }

    /// Returns why an endpoint that is not named cannot be a push service, from its text alone; nil when it can be.
    private static func problem(with endpoint: HTTPEndpoint) -> String? {
        if endpoint.port != 443 { return "endpoint has the port \(endpoint.port), which allow_hosts does not have" }
        let labels = endpoint.host.split(separator: ".")
        // Resolvers read a host whose last label begins with a digit as an address.
        if endpoint.host.contains(":") || labels.last?.first?.isNumber ?? true {
            return "endpoint has an address in the place of a host's name"
        }
        if labels.count < 2 || ["local", "internal", "localhost", "lan", "home", "arpa"].contains(labels.last ?? "") {
            return "endpoint is at a host of a private network"
        }
        return nil
    }
}
