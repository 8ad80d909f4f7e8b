/// The common beginning of a platform's addresses: its endpoint, and the path that its calls share.
///
/// It is made from a `base_url`, which may have a path. It compares addresses by their parts, never by their text, so
/// that `https://api.example.com.evil.test` does not count as under `https://api.example.com`.
public struct HTTPBaseURL: Hashable, Sendable, CustomStringConvertible {
    /// Scheme, host and port.
    public let endpoint: HTTPEndpoint
    /// The shared path, such as `/v1`: it begins with a slash and does not end with one; empty for none.
    public let path: String

    /// Makes an address; a slash at the path's end makes no difference.
    public init(_ endpoint: HTTPEndpoint, path: String = "") {
        self.endpoint = endpoint
        self.path = Self.normalized(path)
    }

    /// Parses `https://host:port/path/`; nil for any other text, and for one with a user, a query or a fragment.
    public init?(url: String) {
        guard let parts = Self.split(url), !parts.path.contains("?"), !url.contains("#") else { return nil }
        self.init(parts.endpoint, path: parts.path)
    }

    /// Returns the path of a call: the path of this address followed by `relative`, which may begin with a slash.
    ///
    /// It escapes nothing: use ``FormEncoding/path(_:)`` for segments that come from outside.
    public func path(_ relative: String) -> String {
        relative.hasPrefix("/") ? path + relative : "\(path)/\(relative)"
    }

    /// Whether a call to `path` at `endpoint` lies under this address.
    ///
    /// Scheme, host and port must be equal, and the path must be the shared one or continue it at a slash, after `.`
    /// and `..` are resolved.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool {
        guard endpoint == self.endpoint else { return false }
        let other = Self.normalized(path)
        return self.path.isEmpty || other == self.path || other.hasPrefix(self.path + "/")
    }

    /// Whether a whole address lies under this one; one that names a user never does.
    public func covers(url: String) -> Bool {
        guard let parts = Self.split(url) else { return false }
        return covers(parts.endpoint, path: parts.path)
    }

    /// The address as a URL that ends with a slash.
    public var description: String { "\(endpoint)\(path)/" }

    /// Splits an address into its origin and its path with query; scheme and host in any letter case.
    static func split(_ url: String) -> (endpoint: HTTPEndpoint, path: String)? {
        guard let mark = url.firstRange(of: "://") else { return nil }
        let scheme = url[..<mark.lowerBound].lowercased()
        let rest = url[mark.upperBound...]
        let end = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
        guard !rest[..<end].contains("@"), let endpoint = HTTPEndpoint(url: "\(scheme)://\(rest[..<end])") else {
            return nil
        }
        return (endpoint, String(rest[end...]))
    }

    /// Returns the path without its query and without a slash at its end, with `.` and `..` resolved as a server does.
    private static func normalized(_ path: String) -> String {
        var segments: [Substring] = []
        for segment in path.prefix(while: { $0 != "?" && $0 != "#" }).split(
            separator: "/",
            omittingEmptySubsequences: false
        ) {
            switch segment.replacing("%2e", with: ".").replacing("%2E", with: ".") {
            case ".", "": continue
            case "..": _ = segments.popLast()
            default: segments.append(segment)
            }
        }
        return segments.isEmpty ? "" : "/" + segments.joined(separator: "/")
    }
}
