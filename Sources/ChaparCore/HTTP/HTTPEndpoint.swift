/// The address of a platform: scheme, host and port, with no path.
///
/// It is made from the `base_url` of a configuration section, or by a plugin from its platform's documented hosts.
public struct HTTPEndpoint: Hashable, Sendable, CustomStringConvertible {
    /// The two schemes that Chapar supports.
    public enum Scheme: String, Sendable {
        /// Cleartext; for simulators and proxies on the same machine only.
        case http
        /// TLS 1.2 or newer, with the certificate and the host name always verified.
        case https
    }

    /// The scheme.
    public let scheme: Scheme
    /// A host name or an address literal, lower case, without brackets.
    public let host: String
    /// The TCP port, 1 to 65535.
    public let port: Int

    /// Makes an endpoint; the default of `port` is the scheme's.
    public init(scheme: Scheme = .https, host: String, port: Int? = nil) {
        self.scheme = scheme
        self.host = host.lowercased()
        self.port = port ?? (scheme == .https ? 443 : 80)
    }

    /// Parses `https://host:port`; nil for any other text, and for one with a path, a query or a user.
    public init?(url: String) {
        let scheme: Scheme
        var rest: Substring
        if url.hasPrefix("https://") {
            (scheme, rest) = (.https, url.dropFirst(8))
        } else if url.hasPrefix("http://") {
            (scheme, rest) = (.http, url.dropFirst(7))
        } else {
            // RFC 3986, section 3.1: the letter case of a scheme makes no difference.
            let head = url.prefix { $0 != ":" }
            let folded = head.lowercased()
            guard folded != head, let endpoint = Self(url: folded + url[head.endIndex...]) else { return nil }
            self = endpoint
            return
        }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        var host = rest
        var port: Int?
        if rest.hasPrefix("["), let close = rest.firstIndex(of: "]") {
            host = rest[rest.index(after: rest.startIndex)..<close]
            rest = rest[rest.index(after: close)...]
            if rest.hasPrefix(":") { port = Int(rest.dropFirst()) }
            guard rest.isEmpty || port != nil, host.allSatisfy({ $0.isHexDigit || $0 == ":" || $0 == "." }) else {
                return nil
            }
        } else {
            if let colon = rest.firstIndex(of: ":") {
                host = rest[..<colon]
                port = Int(rest[rest.index(after: colon)...])
                guard port != nil else { return nil }
            }
            guard host.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "." || $0 == "-" || $0 == "_") })
            else { return nil }
        }
        guard !host.isEmpty, port.map({ (1...65535).contains($0) }) ?? true else { return nil }
        self.init(scheme: scheme, host: String(host), port: port)
    }

    /// Whether the endpoint is `https` on port 443 at a host below `domain`, such as `sg2p.notify.windows.com` below
    /// `notify.windows.com`.
    ///
    /// It compares whole labels in lower case, so that `evilnotify.windows.com` and `notify.windows.com.evil.test` do
    /// not count. The domain itself does not count either.
    public func isBelow(_ domain: String) -> Bool {
        scheme == .https && port == 443 && host.utf8.count > domain.utf8.count + 1
            && host.hasSuffix("." + domain.lowercased())
    }

    /// The `:authority` or `host` value; the port is left out when it is the scheme's default.
    public var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (scheme == .https ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// The endpoint as a URL without a path.
    public var description: String { "\(scheme.rawValue)://\(authority)" }
}
