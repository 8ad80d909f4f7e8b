internal import Foundation
internal import ChaparCore
internal import NIOCore

/// The address of an endpoint, read strictly.
package struct WebhookURL: Sendable, Hashable {
    /// Whether the connection is encrypted.
    package let isEncrypted: Bool
    /// The host without brackets, in lower case.
    package let host: String
    package let port: Int
    /// The path with its query, which begins with a slash.
    package let target: String
    /// The value of the header `Host`.
    package let authority: String

    /// Why a text is no address for an endpoint.
    package struct Mistake: Error, Sendable, Hashable {
        /// The code for programs.
        package let code: String
        /// The sentence with the fix.
        package let detail: String

        init(_ code: String, _ detail: String) { (self.code, self.detail) = (code, detail) }
    }

    /// The most bytes of an address.
    package static let maximumBytes = 2_048

    /// Reads an address.
    ///
    /// - Throws: The mistake, which does not repeat the address: it may hold a password.
    package init(_ text: String) throws(Mistake) {
        guard text.utf8.count <= Self.maximumBytes, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            let parts = URLComponents(string: text), let scheme = parts.scheme?.lowercased(),
            // Foundation decodes `host`: a name in Punycode would be one in Unicode.
            let found = parts.encodedHost, !found.isEmpty
        else {
            throw Mistake("bad_url", "Write an address such as https://example.com/hooks, in ASCII without blanks.")
        }
        guard scheme == "https" || scheme == "http" else {
            throw Mistake("bad_scheme", "Write https://: webhooks are sent over HTTPS.")
        }
        guard parts.user == nil, parts.password == nil else {
            throw Mistake("userinfo", "Leave user and password out: requests are signed.")
        }
        guard parts.fragment == nil else { throw Mistake("fragment", "Leave the part after # out.") }
        isEncrypted = scheme == "https"
        var name = found.lowercased()
        if name.hasPrefix("["), name.hasSuffix("]") { name = String(name.dropFirst().dropLast()) }
        guard name.utf8.allSatisfy(Self.isHostByte) else {
            throw Mistake("bad_url", "The host has characters that no host name has.")
        }
        host = name
        let usual = isEncrypted ? 443 : 80
        let written = Self.writtenPort(text)
        guard let number = written.isEmpty ? usual : Int(written), (1...65_535).contains(number) else {
            throw Mistake("bad_port", "Write a port from 1 to 65535.")
        }
        port = number
        let path = parts.percentEncodedPath
        target = (path.isEmpty ? "/" : path) + (parts.percentEncodedQuery.map { "?\($0)" } ?? "")
        let shown = name.contains(":") ? "[\(name)]" : name
        authority = port == usual ? shown : "\(shown):\(port)"
    }

    /// Returns the digits of the port in an address; none without a port.
    ///
    /// Foundation returns no port when the number is too large.
    private static func writtenPort(_ text: String) -> Substring {
        guard let start = text.range(of: "://")?.upperBound else { return "" }
        let authority = text[start...].prefix { !"/?#".contains($0) }
        guard let colon = authority.lastIndex(of: ":") else { return "" }
        let digits = authority[authority.index(after: colon)...]
        return digits.allSatisfy(\.isNumber) ? digits : ""  // The last colon may be in the brackets of an address.
    }

    private static func isHostByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
            UInt8(ascii: "."), UInt8(ascii: ":"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    /// Whether the host is an IPv6 address, or consists of digits and full stops only.
    var isNumeric: Bool { host.contains(":") || host.utf8.allSatisfy { $0 < UInt8(ascii: ":") } }
}

/// The addresses with a common prefix, in 4 or 16 bytes: `10.0.0.0/8`, `fd00::/8`, or one address.
package struct WebhookNetwork: Sendable, Hashable {
    private let address: [UInt8]
    private let bits: Int

    /// Reads an address, or an address and a number of bits; nil for anything else.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = Self.bytes(String(parts[0])) else { return nil }
        let most = address.count * 8
        guard let bits = parts.count == 1 ? most : Int(parts[1]), (0...most).contains(bits) else { return nil }
        (self.address, self.bits) = (address, bits)
    }

    private static func bytes(_ text: String) -> [UInt8]? {
        (try? SocketAddress(ipAddress: text, port: 0))?.addressBytes
    }

    /// Whether an address is in the network.
    func contains(_ other: [UInt8]) -> Bool {
        guard other.count == address.count else { return false }
        for place in 0..<address.count {
            let left = bits - place * 8
            guard left > 0 else { return true }
            let mask: UInt8 = left >= 8 ? 0xFF : ~(0xFF >> UInt8(truncatingIfNeeded: left))
            guard address[place] & mask == other[place] & mask else { return false }
        }
        return true
    }
}

/// The rule for the addresses that webhooks are sent to: no address may be inside the gateway's own networks.
///
/// It is asked before every attempt, with the addresses that the connection would use: a name may change after an
/// endpoint was added.
package struct WebhookGuard: Sendable {
    /// `allow_networks`: networks that are allowed although they are not public.
    let allowed: [WebhookNetwork]
    /// `allow_ports`: ports that are allowed besides 443.
    let ports: Set<Int>
    /// The port that the gateway itself listens on; nil for a Unix socket.
    let ownPort: Int?

    /// Reads the settings; networks that cannot be read are left out, which the configuration reports.
    package init(_ configuration: GatewayConfiguration) {
        allowed = configuration.webhooks.allowedNetworks.compactMap(WebhookNetwork.init)
        ports = Set(configuration.webhooks.allowedPorts).union([443])
        ownPort = configuration.server.unixSocket == nil ? configuration.server.port : nil
    }

    /// Allows every address, for requests to an address of the configuration.
    package static let everywhere = WebhookGuard()

    private init() {
        allowed = ["0.0.0.0/0", "::/0"].compactMap(WebhookNetwork.init)
        ports = []
        ownPort = nil
    }

    /// The networks that webhooks are not sent to.
    ///
    /// Source: svix-server, `is_allowed`; Stripe's Smokescreen, `classifyAddr`; the special-purpose registries of IANA.
    private static let refused: [WebhookNetwork] = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        // Of IPv6 only 2000::/3 is public: outside it are loopback, local networks, multicast, and IPv4 that is
        // translated (64:ff9b::, ::ffff:0:0:0). Inside it: protocols and tunnels (Teredo, 6to4), documentation.
        "::/3", "4000::/2", "8000::/1", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    ].compactMap(WebhookNetwork.init)

    /// Returns the IPv4 address that is mapped into an IPv6 address; other addresses as they are.
    private static func plain(_ address: [UInt8]) -> [UInt8] {
        let isMapped =
            address.count == 16 && address[..<10].allSatisfy { $0 == 0 } && address[10] == 0xFF && address[11] == 0xFF
        return isMapped ? Array(address[12...]) : address
    }

    /// Whether an address is in a network that the configuration allows.
    func isAllowed(_ address: [UInt8]) -> Bool {
        let plain = Self.plain(address)
        return allowed.contains { $0.contains(plain) }
    }

    /// Whether an address is public, or in a network that the configuration allows.
    package func admits(_ address: [UInt8]) -> Bool {
        let plain = Self.plain(address)
        guard plain.count == 4 || plain.count == 16 else { return false }
        return isAllowed(plain) || !Self.refused.contains { $0.contains(plain) }
    }

    /// Returns why a request to an address may not be sent, given all addresses of its host; nil when it may.
    ///
    /// One address that is not allowed is enough to refuse, since the next connection may use it.
    package func refusal(of url: WebhookURL, at addresses: [[UInt8]], own: [[UInt8]]) -> WebhookURL.Mistake? {
        guard !addresses.isEmpty else { return WebhookURL.Mistake("unknown_host", "The host has no address.") }
        guard addresses.allSatisfy(admits) else {
            return WebhookURL.Mistake(
                "internal_address",
                "The host has an address that is not public. An operator can allow its network: webhooks.allow_networks."
            )
        }
        let isInside = addresses.allSatisfy(isAllowed)
        if let ownPort, url.port == ownPort {
            let isOwn = addresses.contains { address in
                let plain = Self.plain(address)
                return Loopback.contains(address: plain) || own.contains { Self.plain($0) == plain }
            }
            if isOwn { return WebhookURL.Mistake("own_address", "This is the address of the gateway itself.") }
        }
        guard !isInside else { return nil }
        guard url.isEncrypted else {
            return WebhookURL.Mistake(
                "not_encrypted",
                "Write https://. Cleartext goes only to networks of webhooks.allow_networks."
            )
        }
        guard ports.contains(url.port) else {
            return WebhookURL.Mistake(
                "bad_port",
                "Use the port 443. An operator can allow others: webhooks.allow_ports."
            )
        }
        return Self.refusal(ofName: url)
    }

    /// Returns why a name is none of the public Internet's.
    private static func refusal(ofName url: WebhookURL) -> WebhookURL.Mistake? {
        guard !url.isNumeric else { return nil }
        let name = url.host.hasSuffix(".") ? String(url.host.dropLast()) : url.host
        let isInternal =
            !name.contains(".")
            || [".local", ".internal", ".localhost", ".localdomain"].contains { name.hasSuffix($0) }
        guard isInternal else { return nil }
        return WebhookURL.Mistake("internal_name", "Write a full name of the public Internet, such as example.com.")
    }
}
