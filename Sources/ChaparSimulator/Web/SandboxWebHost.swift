internal import Foundation
internal import ChaparCore

/// Runs the listeners of one simulated web service: TLS, HTTP/2 and HTTP/1.1, fault rules, counters.
///
/// A simulator owns one, gives it a ``SandboxHandler`` for each listener, and passes its users' calls on. It runs on
/// one event loop; everything here can be called from any thread.
final class SandboxWebHost: SimulatorHost {
    /// The configuration of the listeners.
    struct Configuration: Sendable {
        /// The address to listen on.
        var host = "127.0.0.1"
        /// The most open streams of an HTTP/2 connection.
        var maximumStreams = 100
        /// The longest time that a connection may be idle before it is ended; nil for no limit.
        var idleTimeout: Duration? = .seconds(600)
        /// The offset of the server's clock from the time source; positive is ahead.
        var clockOffset: Duration = .zero
        /// The protocols that ALPN may negotiate.
        var protocols = ["h2", "http/1.1"]
        /// The kind of certificate that the listeners show.
        var serverCertificate = SandboxCertificateAuthority.ServerCertificate.valid
        /// The seed of all randomness; nil draws one.
        var seed: UInt64?
    }

    /// A listener: its name, its port (0 for a free one) and its handler.
    struct Listener: Sendable {
        var name: SandboxListener
        var port: Int
        var handler: any SandboxHandler
    }

    let state: SandboxWebState
    private let configuration: Configuration
    private let listeners: SandboxListeners

    init(_ configuration: Configuration, authority: SandboxCertificateAuthority, time: any TimeSource) {
        self.configuration = configuration
        listeners = SandboxListeners(host: configuration.host, authority: authority)
        state = SandboxWebState(seed: configuration.seed, clockOffset: configuration.clockOffset, time: time)
    }

    /// Starts the listeners in order.
    ///
    /// Throws when a port is taken; then nothing listens. A handler that needs its own address reads it from
    /// ``url(_:)`` when it is first called.
    func start(_ listeners: [Listener]) async throws {
        let tls = try self.listeners.tls(configuration.serverCertificate, protocols: configuration.protocols)
        let handlers = Dictionary(listeners.map { ($0.name, $0.handler) }) { _, last in last }
        try await self.listeners.start(listeners.map { .init(name: $0.name, port: $0.port) }) { socket, host, loop in
            guard let handler = handlers[socket.name] else { throw SandboxError(description: "it has no handler") }
            return try await SandboxWebServer.start(
                on: loop,
                host: host,
                port: socket.port,
                tls: tls,
                options: SandboxHTTP2Options(idleLimit: configuration.idleTimeout),
                requestPipeline: SandboxPipeline(
                    listener: socket.name,
                    handler: handler,
                    state: state,
                    maximumStreams: configuration.maximumStreams
                )
            )
        }
    }

    /// Closes all connections and listeners.
    ///
    /// A second call does nothing.
    func shutdown() async { await listeners.shutdown() }

    /// The authority that clients must trust.
    var authority: SandboxCertificateAuthority { listeners.authority }

    /// Returns the port of a listener; 0 while the simulator does not run.
    func port(_ listener: SandboxListener) -> Int { listeners.port(listener) }

    /// Returns the base URL of a listener.
    func url(_ listener: SandboxListener) -> String { listeners.url(listener) }

    /// The offset of the server's clock from the time source; positive is ahead.
    var clockOffset: Duration {
        get { state.clockOffset }
        set { state.clockOffset = newValue }
    }

    /// The counts of connections and requests.
    var counters: SandboxWebCounters { state.withValues { $0.counters } }

    /// Adds fault rules after the existing ones.
    func add(_ rules: [FaultRule]) {
        let now = state.now
        state.withValues { values in
            for rule in rules { values.faults.add(rule, at: now) }
        }
    }

    /// Removes the fault rules with this name, all of them when nil, and returns how many there were.
    func removeRules(named name: String?) -> Int { state.withValues { $0.faults.remove(named: name) } }

    /// The fault rules, with the number of times each has applied.
    var rules: [(rule: FaultRule, fired: Int)] { state.withValues { $0.faults.rules } }

    /// Clears faults and counters; connections stay.
    func reset() {
        state.withValues { values in
            values.faults = FaultEngine()
            let open = values.counters.connectionsOpen
            values.counters = SandboxWebCounters()
            values.counters.connectionsOpen = open
        }
    }

    /// Carries out the steps on open connections: all, those of one listener, or one.
    func perform(_ steps: [SandboxStep], listener: SandboxListener?, connection: Int?) {
        listeners.perform(steps, listener: listener, connection: connection)
    }
}
