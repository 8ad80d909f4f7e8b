// The only file that distinguishes C libraries. Everything else gets the C library through Foundation, which exports
// its platform's, and calls functions that its own methods shadow as `Foundation.close`.
#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The parts that Glibc, Musl and Darwin spell, type or do differently.
package enum CLibrary {
    /// The type of a stream socket, for `socket` and `getaddrinfo`.
    package static var streamSocket: Int32 {
        #if canImport(Glibc)
            Int32(SOCK_STREAM.rawValue)
        #else
            SOCK_STREAM
        #endif
    }

    /// The type of a datagram socket.
    package static var datagramSocket: Int32 {
        #if canImport(Glibc)
            Int32(SOCK_DGRAM.rawValue)
        #else
            SOCK_DGRAM
        #endif
    }

    /// Sends bytes on a socket as `send` does, except that a closed peer is an error and no signal.
    package static func transmit(_ bytes: UnsafeRawBufferPointer, on socket: Int32) -> Int {
        #if canImport(Darwin)
            var on: Int32 = 1
            setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
            return send(socket, bytes.baseAddress, bytes.count, 0)
        #else
            send(socket, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        #endif
    }

    /// Waits until a file's content is on disk, though not all of its metadata; false when that failed.
    package static func synchronizeContent(of descriptor: Int32) -> Bool {
        #if canImport(Darwin)
            fcntl(descriptor, F_FULLFSYNC) == 0  // Its fsync leaves the content in the disk's own memory.
        #else
            fdatasync(descriptor) == 0
        #endif
    }

    /// The time since the machine was started, time asleep included; nil where the system does not count it.
    package static var uptime: Duration? {
        #if os(Linux)
            var time = timespec()
            guard clock_gettime(CLOCK_BOOTTIME, &time) == 0 else { return nil }
            return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
        #else
            return nil
        #endif
    }

    /// A limit of the system on the process.
    package enum Limit {
        /// The most descriptors that it may have.
        case openFiles
        /// The most bytes of its memory that a crash writes to a file.
        case coreDump

        /// The limit in force, and the highest value that the process may raise it to; nil when it cannot be read.
        package var values: (now: UInt64, most: UInt64)? {
            var limit = rlimit()
            guard getrlimit(resource, &limit) == 0 else { return nil }
            return (UInt64(clamping: limit.rlim_cur), UInt64(clamping: limit.rlim_max))
        }

        /// Sets the current limit, and the highest value to which the process may raise the limit; returns false when
        /// the system refused.
        package func set(now: UInt64, most: UInt64) -> Bool {
            var limit = rlimit(rlim_cur: rlim_t(clamping: now), rlim_max: rlim_t(clamping: most))
            return setrlimit(resource, &limit) == 0
        }

        #if canImport(Glibc)
            private var resource: __rlimit_resource_t {
                switch self {
                case .openFiles: __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
                case .coreDump: __rlimit_resource_t(RLIMIT_CORE.rawValue)
                }
            }
        #else
            private var resource: Int32 {
                switch self {
                case .openFiles: RLIMIT_NOFILE
                case .coreDump: RLIMIT_CORE
                }
            }
        #endif
    }
}
