public import Foundation

/// The address that a backend sends to: the platform's own, a simulator's, or another one such as a relay's.
///
/// A text that is no address throws. So a mistake in the text never sends to the platform itself.
public struct PlatformAddress: Sendable, Hashable, CustomStringConvertible {
    private let other: HTTPEndpoint?

    private init(other: HTTPEndpoint?) { self.other = other }

    /// The platform's own address, with real devices behind it.
    public static let platform = PlatformAddress(other: nil)

    /// Returns the address of a simulator on this machine, such as `https://127.0.0.1:8443`.
    ///
    /// - Throws: ``InvalidAddress`` for a text that is no such address, or is the address of another machine.
    public static func simulator(_ url: String) throws(InvalidAddress) -> PlatformAddress {
        let endpoint = try HTTPEndpoint(url)
        guard endpoint.isLoopback else {
            throw InvalidAddress("is not on this machine: write PlatformAddress(…) for a simulator elsewhere")
        }
        return PlatformAddress(endpoint)
    }

    /// Makes the address of a relay, or of a simulator on another machine, such as `https://relay.example.com:8443`.
    ///
    /// - Throws: ``InvalidAddress`` for a text that is no such address, and for cleartext to another machine.
    public init(_ url: String) throws(InvalidAddress) {
        let endpoint = try HTTPEndpoint(url)
        guard endpoint.scheme == .https || endpoint.isLoopback else {
            throw InvalidAddress("is not encrypted: write https://; http:// is for this machine only")
        }
        self.init(endpoint)
    }

    /// Makes the address of an endpoint.
    public init(_ endpoint: HTTPEndpoint) { self.init(other: endpoint) }

    /// Whether it is the platform's own.
    public var isPlatform: Bool { other == nil }

    /// Returns the endpoint, for a platform whose own is `platform`.
    public func endpoint(platform: HTTPEndpoint) -> HTTPEndpoint { other ?? platform }

    /// The scheme; nil for the platform's own address.
    package var scheme: HTTPEndpoint.Scheme? { other?.scheme }

    /// `platform`, or the endpoint as a URL.
    public var description: String { other?.description ?? "platform" }
}

/// The error for a text that is no address.
///
/// Its description says what is wrong and never repeats the text, which may hold a password.
public struct InvalidAddress: LocalizedError, Hashable, CustomStringConvertible {
    /// The fault, with its fix.
    public let description: String

    /// Makes an error; `problem` follows the words "the address".
    init(_ problem: String) { description = "the address " + problem }

    /// The description.
    public var errorDescription: String? { description }

    /// Returns what is wrong with a text that is no address.
    static func problem(of url: String, mayHavePath: Bool) -> InvalidAddress {
        guard let mark = url.firstRange(of: "://") else {
            return InvalidAddress("has no scheme: write https:// before it")
        }
        if !["http", "https"].contains(url[..<mark.lowerBound].lowercased()) {
            return InvalidAddress("does not begin with https:// or http://")
        }
        let rest = url[mark.upperBound...]
        let host = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        if host.contains("@") { return InvalidAddress("has a user: leave it out") }
        if rest.contains("?") || rest.contains("#") { return InvalidAddress("has a query or a fragment: leave it out") }
        if !mayHavePath, host.endIndex < rest.endIndex, rest[host.endIndex...] != "/" {
            return InvalidAddress("has a path, which is not possible here: write scheme, host and port only")
        }
        return InvalidAddress("has no host, or a host or port that cannot be: write https://host:port")
    }
}

extension HTTPEndpoint {
    /// Makes the endpoint of a URL without a path, such as `https://host:port`.
    ///
    /// - Throws: ``InvalidAddress``, which says what is wrong.
    public init(_ url: String) throws(InvalidAddress) {
        guard let endpoint = HTTPEndpoint(url: url) else { throw .problem(of: url, mayHavePath: false) }
        self = endpoint
    }
}

extension HTTPBaseURL {
    /// Makes the address of a URL that may have a path, such as `https://host:port/path`.
    ///
    /// - Throws: ``InvalidAddress``, which says what is wrong.
    public init(_ url: String) throws(InvalidAddress) {
        guard let address = HTTPBaseURL(url: url) else { throw .problem(of: url, mayHavePath: true) }
        self = address
    }
}
