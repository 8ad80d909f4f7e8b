/// The one rule for addresses of the public internet.
///
/// A call whose host comes from outside may go only to such an address. Sources: the special-purpose registries of IANA
/// (RFC 6890) as svix-server and Smokescreen refuse them, read 2026-11.
package enum PublicAddress {
    /// A network: its first bytes, and how many bits of them count.
    private struct Network: Sendable {
        let bytes: [UInt8]
        let bits: Int

        init(_ bytes: [UInt8], _ bits: Int) {
            self.bytes = bytes
            self.bits = bits
        }

        func contains(_ address: ArraySlice<UInt8>) -> Bool {
            for bit in 0..<bits {
                let (place, mask) = (bit / 8, UInt8(0x80) >> (bit % 8))
                guard place < bytes.count else { return true }
                if (address[address.startIndex + place] ^ bytes[place]) & mask != 0 { return false }
            }
            return true
        }
    }

    /// Networks of IPv4 that are not public: private ones, shared ones, examples, multicast and the rest.
    private static let closedV4 = [
        Network([0], 8), Network([10], 8), Network([100, 64], 10), Network([127], 8), Network([169, 254], 16),
        Network([172, 16], 12), Network([192, 0, 0], 24), Network([192, 0, 2], 24), Network([192, 88, 99], 24),
        Network([192, 168], 16), Network([198, 18], 15), Network([198, 51, 100], 24), Network([203, 0, 113], 24),
        Network([224], 4), Network([240], 4),
    ]

    /// Networks of IPv6 within 2000::/3 that are not public: those that wrap an IPv4 address or stand for examples.
    private static let closedV6 = [
        Network([0x20, 0x01, 0, 0], 32), Network([0x20, 0x01, 0x0D, 0xB8], 32), Network([0x20, 0x02], 16),
        Network([0x3F, 0xFF, 0x00], 20),
    ]
    /// The part of IPv6 that is given out to networks.
    private static let openV6 = Network([0x20], 3)

    /// Whether an address, in the 4 bytes of IPv4 or the 16 of IPv6, is public.
    ///
    /// For IPv4 mapped into IPv6 the rule for IPv4 applies.
    package static func contains(_ address: [UInt8]) -> Bool {
        if address.count == 4 { return !closedV4.contains { $0.contains(address[...]) } }
        guard address.count == 16 else { return false }
        if address[..<10].allSatisfy({ $0 == 0 }), address[10] == 0xFF, address[11] == 0xFF {
            return contains(Array(address[12...]))
        }
        return openV6.contains(address[...]) && !closedV6.contains { $0.contains(address[...]) }
    }
}
