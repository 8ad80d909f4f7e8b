internal import HTTPTypes
internal import Hummingbird

/// What a request says of its caller.
struct CallerFields {
    /// The host that it was sent to.
    var authority: String?
    var authorization: String?
    var origin: String?
    /// `Sec-Fetch-Site`.
    var fetchSite: String?
    /// Whether a field says that a proxy passed the request on.
    var isForwarded = false
    /// The values of `X-Forwarded-For`.
    var forwardedFor: [String] = []
}

extension CallerFields {
    /// Reads them from a request.
    init(_ head: HTTPRequest) {
        authority = head.authority
        authorization = head.headerFields[.authorization]
        origin = head.headerFields[.origin]
        fetchSite = head.headerFields[.secFetchSite]
        isForwarded = head.headerFields.contains { Self.isOfProxy($0.name.rawName) }
        forwardedFor = head.headerFields[values: .xForwardedFor]
    }

    /// Whether a field of this name is written by proxies.
    static func isOfProxy(_ name: String) -> Bool {
        switch name.utf8.count {
        case 3: name.isField("via")
        case 9: name.isField("forwarded") || name.isField("x-real-ip")
        case 11...: name.hasFieldPrefix("x-forwarded")
        default: false
        }
    }
}

/// Keeps web pages of strangers away from a gateway without keys, which trusts whoever can reach its loopback address.
///
/// Two ways lead a page there: a name of its own that resolves to 127.0.0.1 (DNS rebinding), which the `Host` field shows, and
/// a request across sites, which `Origin` and `Sec-Fetch-Site` show.
struct OriginGuard: Sendable {
    private let boundHost: String

    /// How the origins of the gateway's own pages begin.
    private let scheme: String

    /// Makes a guard for a gateway that listens on `host`.
    init(host: String, isEncrypted: Bool) {
        boundHost = host.lowercased()
        scheme = isEncrypted ? "https://" : "http://"
    }

    /// Lets a request through, or says why not.
    func admit(_ fields: CallerFields) throws(Problem) {
        guard !fields.isForwarded else {
            throw .throughProxy
        }
        let authority = fields.authority ?? ""
        guard isOurs(Self.host(of: authority[...])) else {
            throw Problem(
                .forbidden,
                "host_not_allowed",
                "The request is for another host",
                detail:
                    "Without API keys only requests for localhost are answered. Configure auth.api_keys to be reached by other names."
            )
        }
        if let origin = fields.origin, !isSame(origin, authority) { throw Self.crossSite }
        if let site = fields.fetchSite, site == "cross-site" || site == "same-site" {
            throw Self.crossSite
        }
    }

    private static let crossSite = Problem(
        .forbidden,
        "cross_site",
        "The request comes from a page of another site",
        detail: "Without API keys pages of other sites are refused."
    )

    private func isOurs(_ host: Substring) -> Bool {
        if host == "localhost" || host == "127.0.0.1" { return true }
        let host = host.lowercased()
        if host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host.hasSuffix(".localhost") { return true }
        if host == boundHost || host == "[\(boundHost)]" { return !host.isEmpty }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
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

extension Problem {
    /// A proxy passed a request on to a gateway without keys.
    static let throughProxy = keysNeeded(
        "The request came through a proxy",
        "Whoever reaches the proxy would be let in."
    )

    /// A gateway without keys was reached by an address that others can reach as well.
    static let keysNeeded = keysNeeded("The gateway has no API keys", "Whoever reaches this address would be let in.")

    private static func keysNeeded(_ title: String, _ why: String) -> Problem {
        Problem(
            .forbidden,
            "keys_needed",
            title,
            detail: "Without API keys only requests that come straight from this machine are answered. \(why) "
                + "Make a key with \"chapar keys create\" and write it under auth.api_keys."
        )
    }
}
