internal import Foundation
internal import NIOCore
internal import NIOPosix
import ChaparCore

/// Resolves a host's name to addresses, in the bytes of IPv4 and IPv6.
typealias AddressResolver = @Sendable (String) async throws -> [[UInt8]]

/// The resolver of the operating system, on threads that may block.
enum SystemResolver {
    /// The most addresses of a host that are looked at.
    private static let mostAddresses = 64

    /// Returns every address of a host; throws when there is none.
    @Sendable static func addresses(of host: String) async throws -> [[UInt8]] {
        try await NIOThreadPool.singleton.runIfActive {
            var hints = addrinfo()
            hints.ai_socktype = CLibrary.streamSocket
            var list: UnsafeMutablePointer<addrinfo>?
            let status = getaddrinfo(host, nil, &hints, &list)
            guard status == 0 else {
                let words = gai_strerror(status).map { String(cString: $0) } ?? "no address"
                throw HTTPFailure(.notProcessed, .connect, "\(host): name resolution: \(words)")
            }
            defer { freeaddrinfo(list) }
            var found: [[UInt8]] = []
            var next = list
            while let entry = next, found.count < mostAddresses {
                if let address = entry.pointee.ai_addr, let bytes = bytes(of: address) { found.append(bytes) }
                next = entry.pointee.ai_next
            }
            return found
        }
    }

    private static func bytes(of address: UnsafePointer<sockaddr>) -> [UInt8]? {
        switch Int32(clamping: address.pointee.sa_family) {
        case AF_INET:
            UnsafeRawPointer(address).withMemoryRebound(to: sockaddr_in.self, capacity: 1) { address in
                withUnsafeBytes(of: address.pointee.sin_addr) { Array($0) }
            }
        case AF_INET6:
            UnsafeRawPointer(address).withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { address in
                withUnsafeBytes(of: address.pointee.sin6_addr) { Array($0) }
            }
        default: nil
        }
    }
}
