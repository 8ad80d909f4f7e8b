/// The rule by which a server without authentication distinguishes requests of local programs from requests of a
/// stranger's web page.
///
/// A page can reach a server on the loopback interface in two ways: by a name of its own that resolves to 127.0.0.1
/// (DNS rebinding), which the `Host` field shows, and by a cross-site request, which `Origin` and `Sec-Fetch-Site`
/// show. The gateway without keys and the control API of the simulators use this rule.
package struct LocalOrigin: Sendable {
    /// The reason why a request is refused.
    package enum Refusal: Sendable {
        /// It is for another host.
        case foreignHost
        /// It comes from a page of another site.
        case crossSite
    }

    private let boundHost: String
    /// The beginning of the origins of the server's own pages.
    private let scheme: String

    /// Makes the rule of a server that listens on `host`.
    package init(host: String, isEncrypted: Bool = false) {
        boundHost = host.lowercased()
        scheme = isEncrypted ? "https://" : "http://"
    }

    /// Returns why a request with these fields is refused; nil when it is allowed.
    package func refusal(host authority: String?, origin: String?, fetchSite: String?) -> Refusal? {
        let authority = authority ?? ""
        guard isOurs(Self.host(of: authority[...])) else { return .foreignHost }
        if let origin, !isSame(origin, authority) { return .crossSite }
        return fetchSite == "cross-site" || fetchSite == "same-site" ? .crossSite : nil
    }

    private func isOurs(_ host: Substring) -> Bool {
        if host == "localhost" || host == "127.0.0.1" { return true }
        let host = host.lowercased()
        if host.hasSuffix(".localhost") { return true }  // Browsers take no other address than this machine's for it.
        let bare = host.first == "[" && host.last == "]" ? String(host.dropFirst().dropLast()) : host
        return bare == boundHost ? !bare.isEmpty : Loopback.contains(host: bare)
    }

    private func isSame(_ origin: String, _ authority: String) -> Bool {
        origin.lowercased() == scheme + authority.lowercased()
    }

    /// Returns the host without its port; an IPv6 address keeps its brackets.
    private static func host(of authority: Substring) -> Substring {
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { return authority }
            return authority[...end]
        }
        return authority[..<(authority.utf8.firstIndex(of: UInt8(ascii: ":")) ?? authority.endIndex)]
    }
}
