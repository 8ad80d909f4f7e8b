package import NIOCore
internal import NIOPosix
package import NIOSSL
internal import Synchronization

/// The listening sockets of one simulator: started together or not at all, each with TLS, all on one event loop.
///
/// A simulator owns one, directly or in its ``SandboxWebHost``. It handles addresses and connections, no protocol and
/// no fault rules. Everything here can be called from any thread.
package final class SandboxListeners: Sendable {
    /// One socket: its name, and its port (0 for a free one).
    package struct Socket: Sendable {
        package var name: SandboxListener
        package var port: Int

        package init(name: SandboxListener, port: Int) {
            self.name = name
            self.port = port
        }
    }

    private struct Running {
        var group: MultiThreadedEventLoopGroup
        var servers: [SandboxListener: SandboxServer]
    }

    package let authority: SandboxCertificateAuthority
    private let host: String
    private let running = Mutex<Running?>(nil)

    package init(host: String, authority: SandboxCertificateAuthority) {
        self.host = host
        self.authority = authority
    }

    /// Starts the sockets in order; `serve` binds one at an address and sets up its protocol.
    ///
    /// Throws when it runs already or when a port is taken; then nothing listens.
    package func start(
        _ sockets: [Socket],
        serve: (Socket, _ host: String, any EventLoop) async throws -> SandboxServer
    ) async throws {
        guard running.withLock({ $0 == nil }) else { throw SandboxError(description: "the simulator runs already") }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        var servers: [SandboxListener: SandboxServer] = [:]
        for socket in sockets {
            do {
                servers[socket.name] = try await serve(socket, host, group.next())
            } catch {
                await Self.stop(Running(group: group, servers: servers))
                throw SandboxError(
                    description: "cannot listen on \(host):\(socket.port) for \(socket.name.rawValue): \(error)"
                )
            }
        }
        let started = Running(group: group, servers: servers)
        running.withLock { $0 = started }
    }

    /// Closes all connections and sockets; a second call does nothing.
    package func shutdown() async {
        let stopped = running.withLock { current in
            defer { current = nil }
            return current
        }
        if let stopped { await Self.stop(stopped) }
    }

    /// Returns the port of a listener; 0 while the simulator does not run.
    package func port(_ listener: SandboxListener) -> Int { running.withLock { $0?.servers[listener]?.port } ?? 0 }

    /// Returns the base URL of a listener.
    package func url(_ listener: SandboxListener) -> String { "https://\(host):\(port(listener))" }

    /// Carries out the steps on open connections: all, those of one listener, or one.
    package func perform(_ steps: [SandboxStep], listener: SandboxListener?, connection: Int?) {
        let servers = running.withLock { $0?.servers ?? [:] }
        for (name, server) in servers where listener == nil || listener == name {
            server.perform(steps, on: connection.map { [$0] })
        }
    }

    /// Makes the server's TLS configuration: 1.2 or later, with a certificate of the authority.
    package func tls(
        _ certificate: SandboxCertificateAuthority.ServerCertificate,
        protocols: [String],
        asksForClientCertificate: Bool = false
    ) throws -> NIOSSLContext {
        let identity = try authority.serverIdentity(certificate)
        let chain = try NIOSSLCertificate.fromPEMBytes(Array(identity.certificatePEM.utf8))
        let key = try NIOSSLPrivateKey(bytes: Array(identity.privateKeyPEM.utf8), format: .pem)
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) },
            privateKey: .privateKey(key)
        )
        tls.minimumTLSVersion = .tlsv12
        tls.applicationProtocols = protocols
        if asksForClientCertificate {
            tls.certificateVerification = .optionalVerification
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(authority.certificatePEM.utf8)))
        }
        return try NIOSSLContext(configuration: tls)
    }

    private static func stop(_ running: Running) async {
        for server in running.servers.values { await server.shutdown() }
        // The group fails to shut down only when it is shut down already.
        try? await running.group.shutdownGracefully()
    }
}
