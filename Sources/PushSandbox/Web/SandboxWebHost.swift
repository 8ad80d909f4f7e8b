internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import NIOSSL
internal import PushCore
internal import Synchronization

/// Runs the listeners of one simulated web service: TLS, HTTP/2 and HTTP/1.1, fault rules, counters.
///
/// A simulator owns one, gives it a ``SandboxHandler`` for each listener, and passes the calls of its users on. All of it runs on
/// one event loop; everything here can be called from any thread.
final class SandboxWebHost: Sendable {
    /// How the listeners are set up.
    struct Configuration: Sendable {
        /// The address to listen on.
        var host = "127.0.0.1"
        /// How many streams an HTTP/2 connection may have open.
        var maximumStreams = 100
        /// How long a connection may be idle before it is ended; nil for ever.
        var idleTimeout: Duration? = .seconds(600)
        /// The server's clock, compared with the given time source: positive is ahead.
        var clockOffset: Duration = .zero
        /// What ALPN may agree on.
        var protocols = ["h2", "http/1.1"]
        /// The kind of certificate that the listeners show.
        var serverCertificate = SandboxCertificateAuthority.ServerCertificate.valid
        /// The seed of everything random; nil draws one.
        var seed: UInt64?
    }

    /// One listener: its name, its port (0 for a free one) and what it answers.
    struct Listener: Sendable {
        var name: SandboxListener
        var port: Int
        var handler: any SandboxHandler
    }

    private struct Running {
        var group: MultiThreadedEventLoopGroup
        var servers: [SandboxListener: SandboxServer]
    }

    let authority: SandboxCertificateAuthority
    let state: SandboxWebState
    private let configuration: Configuration
    private let running = Mutex<Running?>(nil)

    init(_ configuration: Configuration, authority: SandboxCertificateAuthority, time: any TimeSource) {
        self.configuration = configuration
        self.authority = authority
        state = SandboxWebState(seed: configuration.seed, clockOffset: configuration.clockOffset, time: time)
    }

    /// Starts the listeners in order.
    ///
    /// Throws when a port is taken; then nothing listens. A handler may need to know its own address, which it learns
    /// from ``url(_:)`` when it is first asked.
    func start(_ listeners: [Listener]) async throws {
        guard running.withLock({ $0 == nil }) else { throw SandboxError(description: "the simulator runs already") }
        let tls = try makeTLS()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        var servers: [SandboxListener: SandboxServer] = [:]
        do {
            for listener in listeners { servers[listener.name] = try await listen(listener, tls, group.next()) }
        } catch {
            for server in servers.values { await server.shutdown() }
            try? await group.shutdownGracefully()
            throw error
        }
        let started = Running(group: group, servers: servers)
        running.withLock { $0 = started }
    }

    /// Closes all connections and listeners.
    ///
    /// Doing it twice is no mistake.
    func shutdown() async {
        let stopped = running.withLock { current in
            defer { current = nil }
            return current
        }
        guard let stopped else { return }
        for server in stopped.servers.values { await server.shutdown() }
        // The group fails to shut down only when that has been done already.
        try? await stopped.group.shutdownGracefully()
    }

    /// The port of a listener, 0 while the simulator does not run.
    func port(_ listener: SandboxListener) -> Int { running.withLock { $0?.servers[listener]?.port } ?? 0 }

    /// The base URL of a listener.
    func url(_ listener: SandboxListener) -> String { "https://\(configuration.host):\(port(listener))" }

    /// What was seen of connections and requests.
    var counters: SandboxWebCounters { state.withValues { $0.counters } }

    /// Adds fault rules behind those that are there.
    func add(_ rules: [FaultRule]) {
        let now = state.now
        state.withValues { values in
            for rule in rules { values.faults.add(rule, at: now) }
        }
    }

    /// Removes the fault rules with this name, all of them when nil, and says how many there were.
    func removeRules(named name: String?) -> Int { state.withValues { $0.faults.remove(named: name) } }

    /// The fault rules with how often each has applied.
    var rules: [(rule: FaultRule, fired: Int)] { state.withValues { $0.faults.rules } }

    /// Forgets faults and counters; connections stay.
    func reset() {
        state.withValues { values in
            values.faults = FaultEngine()
            let open = values.counters.connectionsOpen
            values.counters = SandboxWebCounters()
            values.counters.connectionsOpen = open
        }
    }

    /// Does the steps on open connections: all, or those of one listener, or one.
    func perform(_ steps: [SandboxStep], listener: SandboxListener?, connection: Int?) {
        let servers = running.withLock { $0?.servers ?? [:] }
        for (name, server) in servers where listener == nil || listener == name {
            server.perform(steps, on: connection.map { [$0] })
        }
    }

    private func listen(
        _ listener: Listener,
        _ tls: NIOSSLContext,
        _ loop: any EventLoop
    ) async throws -> SandboxServer {
        do {
            return try await SandboxWebServer.start(
                on: loop,
                host: configuration.host,
                port: listener.port,
                tls: tls,
                options: SandboxHTTP2Options(idleLimit: configuration.idleTimeout),
                requestPipeline: SandboxPipeline(
                    listener: listener.name,
                    handler: listener.handler,
                    state: state,
                    maximumStreams: configuration.maximumStreams
                )
            )
        } catch {
            let place = "\(configuration.host):\(listener.port)"
            throw SandboxError(description: "cannot listen on \(place) for \(listener.name.rawValue): \(error)")
        }
    }

    private func makeTLS() throws -> NIOSSLContext {
        let identity = try authority.serverIdentity(configuration.serverCertificate)
        let chain = try NIOSSLCertificate.fromPEMBytes(Array(identity.certificatePEM.utf8))
        let key = try NIOSSLPrivateKey(bytes: Array(identity.privateKeyPEM.utf8), format: .pem)
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) },
            privateKey: .privateKey(key)
        )
        tls.minimumTLSVersion = .tlsv12
        tls.applicationProtocols = configuration.protocols
        return try NIOSSLContext(configuration: tls)
    }
}
