internal import Foundation

/// The one rule for addresses that only processes of this machine can reach.
///
/// Settings use it to decide where cleartext, or a missing key, is no risk. Listeners use it for the addresses of their
/// sockets.
package enum Loopback {
    /// Whether an address, in the 4 bytes of IPv4 or the 16 of IPv6, is in 127.0.0.0/8 or is `::1`; IPv4 mapped into
    /// IPv6 counts as well.
    package static func contains(address: [UInt8]) -> Bool {
        if address.count == 4 { return address[0] == 127 }
        guard address.count == 16 else { return false }
        let isMapped = address[..<10].allSatisfy { $0 == 0 } && address[10] == 0xFF && address[11] == 0xFF
        return isMapped ? address[12] == 127 : address[..<15].allSatisfy { $0 == 0 } && address[15] == 1
    }

    /// Whether a host is on this machine: `localhost` in any letter case, or the text of such an IP address without
    /// brackets.
    ///
    /// Any other text is a name that anyone can register as a domain (`127.example.com`). `localhost.` does not count
    /// either: because of its dot, name servers resolve it.
    package static func contains(host: String) -> Bool {
        host.lowercased() == "localhost" || contains(address: bytes(of: host))
    }

    /// Returns the bytes of an IP address in its text form, as `inet_pton` reads it (four decimal numbers for IPv4); an
    /// empty array for a name.
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
    /// Whether it is on this machine, where cleartext is no risk.
    public var isLoopback: Bool { Loopback.contains(host: host) }
}
