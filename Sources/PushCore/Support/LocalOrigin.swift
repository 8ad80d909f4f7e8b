/// Which requests to a server without authentication come from this machine's own programs, and not from a stranger's
/// web page.
///
/// Two ways lead a page to a server on the loopback interface: a name of its own that resolves to 127.0.0.1 (DNS
/// rebinding), which the `Host` field shows, and a request across sites, which `Origin` and `Sec-Fetch-Site` show. The
/// gateway without keys and the control API of the simulators use it.
package struct LocalOrigin: Sendable {
    /// What is wrong with a request.
    package enum Refusal: Sendable {
        /// It is for another host.
        case foreignHost
        /// It comes from a page of another site.
        case crossSite
    }

    private let boundHost: String
    /// How the origins of the server's own pages begin.
    private let scheme: String

    /// The rule of a server that listens on `host`.
    package init(host: String, isEncrypted: Bool = false) {
        boundHost = host.lowercased()
        scheme = isEncrypted ? "https://" : "http://"
    }

    /// What is wrong with a request of such fields; nil when nothing is.
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

    /// The host without its port; an IPv6 address keeps its brackets.
    private static func host(of authority: Substring) -> Substring {
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { return authority }
            return authority[...end]
        }
        return authority[..<(authority.utf8.firstIndex(of: UInt8(ascii: ":")) ?? authority.endIndex)]
    }
}
