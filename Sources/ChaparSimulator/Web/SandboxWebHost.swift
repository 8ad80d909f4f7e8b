package import Foundation
package import ChaparCore

/// Runs the listeners of one simulated web service: TLS, HTTP/2 and HTTP/1.1, fault rules, counters.
///
/// A simulator owns one and gives it a handler for each listener; ``WebSimulator`` passes its users' calls on. It runs
/// on one event loop; everything here can be called from any thread.
public final class SandboxWebHost: SimulatorHost {
    /// The configuration of the listeners.
    package struct Configuration: Sendable {
        /// The address to listen on.
        package var host: String
        /// The most open streams of an HTTP/2 connection.
        package var maximumStreams: Int
        /// The longest time that a connection may be idle before it is ended; nil for no limit.
        package var idleTimeout: Duration?
        /// The offset of the server's clock from the time source; positive is ahead.
        package var clockOffset: Duration
        /// The protocols that ALPN may negotiate.
        package var protocols: [String]
        /// The kind of certificate that the listeners show.
        package var serverCertificate: SandboxCertificateAuthority.ServerCertificate
        /// The seed of all randomness; nil draws one.
        package var seed: UInt64?

        package init(
            host: String = "127.0.0.1",
            maximumStreams: Int = 100,
            idleTimeout: Duration? = .seconds(600),
            clockOffset: Duration = .zero,
            protocols: [String] = ["h2", "http/1.1"],
            serverCertificate: SandboxCertificateAuthority.ServerCertificate = .valid,
            seed: UInt64? = nil
        ) {
            self.host = host
            self.maximumStreams = maximumStreams
            self.idleTimeout = idleTimeout
            self.clockOffset = clockOffset
            self.protocols = protocols
            self.serverCertificate = serverCertificate
            self.seed = seed
        }
    }

    /// A listener: its name, its port (0 for a free one) and its handler.
    package struct Listener: Sendable {
        package var name: SandboxListener
        package var port: Int
        package var handler: any SandboxHandler

        package init(name: SandboxListener, port: Int, handler: any SandboxHandler) {
            self.name = name
            self.port = port
            self.handler = handler
        }
    }

    private let state: SandboxWebState
    private let configuration: Configuration
    private let listeners: SandboxListeners

    package init(_ configuration: Configuration, authority: SandboxCertificateAuthority, time: any TimeSource) {
        self.configuration = configuration
        listeners = SandboxListeners(host: configuration.host, authority: authority)
        state = SandboxWebState(seed: configuration.seed, clockOffset: configuration.clockOffset, time: time)
    }

    /// Starts the listeners in order.
    ///
    /// Throws when a port is taken; then nothing listens. A handler that needs its own address reads it from
    /// ``url(_:)`` when it is first called.
    package func start(_ listeners: [Listener]) async throws {
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
    package func shutdown() async { await listeners.shutdown() }

    /// The authority that clients must trust.
    package var authority: SandboxCertificateAuthority { listeners.authority }

    /// Returns the port of a listener; 0 while the simulator does not run.
    package func port(_ listener: SandboxListener) -> Int { listeners.port(listener) }

    /// Returns the base URL of a listener.
    package func url(_ listener: SandboxListener) -> String { listeners.url(listener) }

    /// The seed of all randomness.
    package var seed: UInt64 { state.seed }

    /// The server's clock.
    package var now: Date { state.now }

    /// The offset of the server's clock from the time source; positive is ahead.
    package var clockOffset: Duration {
        get { state.clockOffset }
        set { state.clockOffset = newValue }
    }

    /// The counts of connections and requests.
    package var counters: SandboxWebCounters { state.withValues { $0.counters } }

    /// Adds fault rules after the existing ones.
    package func add(_ rules: [FaultRule]) {
        let now = state.now
        state.withValues { values in
            for rule in rules { values.faults.add(rule, at: now) }
        }
    }

    /// Removes the fault rules with this name, all of them when nil, and returns how many there were.
    package func removeRules(named name: String?) -> Int { state.withValues { $0.faults.remove(named: name) } }

    /// The fault rules, with the number of times each has applied.
    package var rules: [(rule: FaultRule, fired: Int)] { state.withValues { $0.faults.rules } }

    /// Clears faults and counters; connections stay.
    package func reset() {
        state.withValues { values in
            values.faults = FaultEngine()
            let open = values.counters.connectionsOpen
            values.counters = SandboxWebCounters()
            values.counters.connectionsOpen = open
        }
    }

    /// Carries out the steps on open connections: all, those of one listener, or one.
    package func perform(_ steps: [SandboxStep], listener: SandboxListener?, connection: Int?) {
        listeners.perform(steps, listener: listener, connection: connection)
    }
}
