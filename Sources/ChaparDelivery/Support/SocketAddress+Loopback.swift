package import NIOCore
internal import ChaparCore

extension SocketAddress {
    /// The bytes of an IPv4 address, 4, or of an IPv6 address, 16; nil for a Unix socket.
    ///
    /// Read from their places in `sockaddr_in` and `sockaddr_in6`.
    var addressBytes: [UInt8]? {
        switch self {
        case .v4: withSockAddr { address, _ in Array(UnsafeRawBufferPointer(start: address, count: 8)[4...]) }
        case .v6: withSockAddr { address, _ in Array(UnsafeRawBufferPointer(start: address, count: 24)[8...]) }
        case .unixDomainSocket: nil
        }
    }

    /// Whether only processes of this machine can reach the address: one of 127.0.0.0/8, also mapped into IPv6, `::1`,
    /// or a Unix socket, which the mode of its file protects.
    package var isLoopback: Bool {
        addressBytes.map { Loopback.contains(address: $0) } ?? true
    }
}
