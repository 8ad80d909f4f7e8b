import Foundation
import Testing

#if canImport(Glibc)
    import CNIOLinux  // Its headers define the addresses where a file beside this one imports NIO.
    import Glibc
#else
    import Darwin
#endif

/// A client that sends a request and reads nothing of the answer, on a connection with a small receive buffer.
final class UnreadClient {
    private let descriptor: Int32

    init(_ port: Int, _ request: String) throws {
        #if canImport(Glibc)
            descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        try #require(descriptor >= 0)
        var size: Int32 = 2048
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(connected == 0)
        let bytes = Array(request.utf8)
        try #require(write(descriptor, bytes, bytes.count) == bytes.count)
    }

    deinit { close(descriptor) }
}
