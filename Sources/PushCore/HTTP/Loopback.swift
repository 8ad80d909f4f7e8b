internal import Foundation

/// Which addresses only processes of this machine reach: the one place that decides it.
///
/// Settings ask it where cleartext, or no key, is no risk; listeners ask it about the addresses of their sockets.
package enum Loopback {
    /// Whether an address, in the 4 bytes of IPv4 or the 16 of IPv6, is of 127.0.0.0/8 or `::1`, also one of IPv4 that
    /// is mapped into IPv6.
    package static func contains(address: [UInt8]) -> Bool {
        if address.count == 4 { return address[0] == 127 }
        guard address.count == 16 else { return false }
        let isMapped = address[..<10].allSatisfy { $0 == 0 } && address[10] == 0xFF && address[11] == 0xFF
        return isMapped ? address[12] == 127 : address[..<15].allSatisfy { $0 == 0 } && address[15] == 1
    }

    /// Whether the host of an address is such a one: `localhost` in any letter case, or the text of such an IP address
    /// without brackets.
    ///
    /// Any other text is a name that any owner of a domain can register (`127.example.com`). So is `localhost.`:
    /// because of its dot the name servers resolve it.
    package static func contains(host: String) -> Bool {
        host.lowercased() == "localhost" || contains(address: bytes(of: host))
    }

    /// The bytes of an IP address in its text form, as `inet_pton` reads it: four decimal numbers for IPv4; none for a
    /// name.
    private static func bytes(of host: String) -> [UInt8] {
        guard !host.utf8.contains(0) else { return [] }  // C would read no further.
        for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
            var bytes = [UInt8](repeating: 0, count: count)
            if inet_pton(family, host, &bytes) == 1 { return bytes }
        }
        return []
    }
}

extension HTTPEndpoint {
    /// Whether it is this machine: the one place where cleartext is no risk.
    public var isLoopback: Bool { Loopback.contains(host: host) }
}
