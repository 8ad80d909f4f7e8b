package import NIOCore

/// The other end of a connection, for limits: an IPv4 address, or the first 64 bits of an IPv6 address, since all
/// addresses with the same 64 bits belong to one customer of a provider.
package struct PeerAddress: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    /// The peer of every Unix socket, as these cannot be distinguished.
    package static let local = PeerAddress(high: 0, low: 0)

    private init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    package init(_ address: SocketAddress?) {
        guard let bytes = address?.addressBytes else {
            self = .local
            return
        }
        func number(_ part: ArraySlice<UInt8>) -> UInt64 { part.reduce(0) { $0 << 8 | UInt64(truncatingIfNeeded: $1) } }
        guard bytes.count == 16 else {
            self.init(v4: number(bytes[...]))
            return
        }
        let (high, low) = (number(bytes[..<8]), number(bytes[8...]))
        if high == 0, low >> 32 == 0xFFFF {
            self.init(v4: low & 0xFFFF_FFFF)  // ::ffff:a.b.c.d is the IPv4 address a.b.c.d.
        } else {
            self.init(high: high, low: high == 0 ? low : 0)
        }
    }

    /// Reads an address without a port, as in `X-Forwarded-For`; nil for anything else.
    package init?(_ text: Substring) {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        if text.first == "[", let end = text.firstIndex(of: "]") {
            text = text[text.index(after: text.startIndex)..<end]
        }
        guard text.utf8.count <= 45, let address = try? SocketAddress(ipAddress: String(text), port: 0) else {
            return nil
        }
        self.init(address)
    }

    private init(v4: UInt64) { self.init(high: 0, low: 0xFFFF << 32 | v4) }

    /// Returns a hash of an address and a time.
    package func stamp(_ time: Int64) -> UInt64 {
        var stamp: UInt64 = 0x9E37_79B9_7F4A_7C15  // The golden ratio: its multiples spread over all bits.
        for part in [high, low, UInt64(bitPattern: time)] { stamp = (stamp ^ part) &* 0x9E37_79B9_7F4A_7C15 }
        return stamp
    }

    /// Whether the address is in a network; both in the form above.
    package func isWithin(_ network: PeerNetwork) -> Bool {
        let (highMask, lowMask) = network.masks
        return high & highMask == network.address.high & highMask && low & lowMask == network.address.low & lowMask
    }
}

extension PeerAddress: CustomStringConvertible {
    /// The address in its usual notation; for IPv6 the network, and `local` for a Unix socket.
    package var description: String {
        if self == .local { return "local" }
        if high == 0, low >> 32 == 0xFFFF {
            return stride(from: 24, through: 0, by: -8).map { String(low >> $0 & 0xFF) }.joined(separator: ".")
        }
        let groups = (0..<4).map { String(high >> (48 - 16 * $0) & 0xFFFF, radix: 16) }
        return high == 0 ? "::\(String(low, radix: 16))" : groups.joined(separator: ":") + "::"
    }
}

/// The addresses with a common prefix: `10.0.0.0/8`, `2001:db8::/48`, or one address.
package struct PeerNetwork: Hashable, Sendable {
    fileprivate let address: PeerAddress
    /// The length of the prefix, in bits.
    private let bits: Int

    /// Reads an address, or an address and a number of bits; nil for anything else.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = PeerAddress(parts[0]) else { return nil }
        let isV6 = parts[0].contains(":")
        let most = isV6 ? 128 : 32
        guard let bits = parts.count == 1 ? most : Int(parts[1]), (0...most).contains(bits) else { return nil }
        self.address = address
        self.bits = isV6 ? bits : 96 + bits
    }

    fileprivate var masks: (high: UInt64, low: UInt64) {
        func mask(_ bits: Int) -> UInt64 { bits <= 0 ? 0 : bits >= 64 ? .max : ~(.max >> UInt64(clamping: bits)) }
        return (mask(bits), mask(bits - 64))
    }
}
