internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import ChaparCore

/// The resolver of the operating system for webhooks, on threads of its own.
///
/// A name whose servers do not answer blocks a thread for as long as the system asks them, with some settings half a
/// minute. So a name uses at most one thread, however many requests wait for it. Names that were slow, and names that
/// are checked when an endpoint is added, share a separate pool of few threads, so that they do not delay other names.
/// Addresses in numbers need no thread. The threads start with the first name and live as long as the process.
final class WebhookResolver: Sendable {
    /// Looks a host up and blocks the thread meanwhile; with `isNumber` it reads numbers only, which does not block.
    typealias Lookup = @Sendable (_ host: String, _ port: Int, _ isNumber: Bool) throws -> [SocketAddress]

    /// The resolver of the process.
    static let shared = WebhookResolver(lookUp: system)

    /// The time of a lookup from which its name counts as slow.
    private static let slow = Duration.seconds(1)
    /// The most names that count as slow, and the most lookups that wait for the few threads.
    private static let maximumNames = 1_024
    private static let maximumWaiting = 256

    private static let threads = pool(of: 16)
    private static let slowThreads = pool(of: 4)

    private struct Key: Hashable {
        var host: String
        var port: Int
        /// Whether it is looked up by one of the few threads.
        var isSlow: Bool
    }

    private struct Contents {
        /// The calls that wait for each lookup, in progress or queued.
        var waiting: [Key: [CheckedContinuation<[SocketAddress], any Error>]] = [:]
        var slow: Set<String> = []
    }

    private let lookUp: Lookup
    private let contents = Mutex(Contents())

    init(lookUp: @escaping Lookup) { self.lookUp = lookUp }

    private static func pool(of count: Int) -> NIOThreadPool {
        let pool = NIOThreadPool(numberOfThreads: count)
        pool.start()  // It lives as long as the process, like NIO's own pool.
        return pool
    }

    /// Returns the addresses of a host: those of a lookup that began before the call, where one is in progress.
    ///
    /// - Parameters:
    ///   - host: A name or a number in any form.
    ///   - port: The port of the addresses.
    ///   - isAttempt: Whether a request waits for it; false for the check of an address that is added.
    /// - Returns: The addresses.
    /// - Throws: The error of the lookup: the host has no address, or too many lookups wait.
    func addresses(of host: String, _ port: Int, isAttempt: Bool) async throws -> [SocketAddress] {
        if let found = try? lookUp(host, port, true) { return found }
        return try await withCheckedThrowingContinuation { continuation in
            let begun = contents.withLock { contents -> Result<Key, WebhookUnresolved>? in
                let key = Key(host: host, port: port, isSlow: !isAttempt || contents.slow.contains(host))
                if contents.waiting[key] != nil {
                    contents.waiting[key]?.append(continuation)
                    return nil
                }
                let others = contents.waiting.keys.count { $0.isSlow }
                guard !key.isSlow || others < Self.maximumWaiting else { return .failure(WebhookUnresolved()) }
                contents.waiting[key] = [continuation]
                return .success(key)
            }
            switch begun {
            case nil: break
            case .failure(let error): continuation.resume(throwing: error)
            case .success(let key):
                (key.isSlow ? Self.slowThreads : Self.threads).submit { [self] _ in finish(key) }
            }
        }
    }

    /// Looks a host up on the calling thread, and answers all that wait.
    private func finish(_ key: Key) {
        let start = ContinuousClock.now
        let result = Result { try lookUp(key.host, key.port, false) }
        let isSlow = start.duration(to: .now) >= Self.slow
        let waiting = contents.withLock { contents in
            if !isSlow {
                contents.slow.remove(key.host)
            } else {
                if contents.slow.count >= Self.maximumNames { contents.slow.removeAll() }
                contents.slow.insert(key.host)
            }
            return contents.waiting.removeValue(forKey: key) ?? []
        }
        for continuation in waiting { continuation.resume(with: result) }
    }

    /// Asks the system, which reads all numeric forms.
    private static let system: Lookup = { host, port, isNumber in
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = CLibrary.streamSocket
        if isNumber { hints.ai_flags = AI_NUMERICHOST }
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &list) == 0 else { throw WebhookUnresolved() }
        defer { freeaddrinfo(list) }
        var found: [SocketAddress] = []
        var next = list
        while let info = next?.pointee {
            defer { next = info.ai_next }
            guard let address = info.ai_addr else { continue }
            switch info.ai_family {
            case AF_INET:
                found.append(
                    SocketAddress(address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { $0.pointee })
                )
            case AF_INET6:
                found.append(
                    SocketAddress(address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee })
                )
            default: break
            }
        }
        return found
    }
}

/// A host has no address.
struct WebhookUnresolved: Error {}
