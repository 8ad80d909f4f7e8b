/// A whole address: where to connect, and the path with its query.
///
/// It is for platforms whose recipients are addresses, such as Web Push and WNS. Such an address is as secret as a
/// device token, so it prints without its path.
public struct HTTPAddress: Hashable, Sendable, CustomStringConvertible {
    /// The most bytes of an address.
    public static let maximumBytes = 4_096

    /// Scheme, host and port.
    public let endpoint: HTTPEndpoint
    /// The path with its query; it begins with `/`.
    public let path: String

    /// Parses `https://host:port/path?query`, with scheme and host in any letter case.
    ///
    /// Nil for any other text, for one with a user, a fragment, a space or a character outside ASCII, and for more than
    /// ``maximumBytes``.
    public init?(url: String) {
        guard url.utf8.count <= Self.maximumBytes, url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !url.contains("#"),
            let parts = HTTPBaseURL.split(url)
        else { return nil }
        endpoint = parts.endpoint
        path = parts.path.hasPrefix("/") ? parts.path : "/" + parts.path
    }

    /// The address in its one form: scheme and host in lower case, no port where it is the scheme's own.
    public var url: String { "\(endpoint)\(path)" }

    /// The endpoint: the rest is secret.
    public var description: String { "\(endpoint)" }
}
