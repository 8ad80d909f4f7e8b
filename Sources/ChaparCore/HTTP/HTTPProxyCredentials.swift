internal import Foundation

/// The user and the password that a proxy asks for, sent as `Proxy-Authorization: Basic` (RFC 7617).
public struct HTTPProxyCredentials: Sendable, Hashable {
    /// The user.
    public let user: String
    /// The password.
    public let password: Secret

    /// Makes credentials; nil for a user with a colon, and for control characters, which no header field can carry.
    public init?(user: String, password: Secret) {
        let isPlain = [user, password.reveal()].allSatisfy { text in
            text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        }
        guard isPlain, !user.contains(":") else { return nil }
        self.user = user
        self.password = password
    }

    /// The credentials in base64, as they stand after the word `Basic`.
    package var basic: Secret { Secret(Data("\(user):\(password.reveal())".utf8).base64EncodedString()) }

    /// Divides the address of a proxy, such as `http://user:password@host:port`; nil for any other text.
    ///
    /// User and password may be percent-encoded. The last `@` ends the password, so that a password with `@` or `/` is
    /// read as well.
    package static func divide(_ url: String) -> (endpoint: HTTPEndpoint, credentials: HTTPProxyCredentials?)? {
        guard let scheme = url.firstRange(of: "://"), let at = url.lastIndex(of: "@"), at >= scheme.upperBound else {
            return HTTPEndpoint(url: url).map { ($0, nil) }
        }
        guard let endpoint = HTTPEndpoint(url: String(url[..<scheme.upperBound] + url[url.index(after: at)...])) else {
            return nil
        }
        let written = url[scheme.upperBound..<at]
        let colon = written.firstIndex(of: ":") ?? written.endIndex
        let credentials = HTTPProxyCredentials(
            user: decoded(written[..<colon]),
            password: Secret(decoded(written[colon...].dropFirst()))
        )
        return credentials.map { (endpoint, $0) }
    }

    private static func decoded(_ text: Substring) -> String { text.removingPercentEncoding ?? String(text) }
}
