import ArgumentParser
import Foundation
import Logging
import PushCore
import PushGateway
import PushHTTP
import PushQueue
import ServiceLifecycle
import Synchronization
import UnixSignals

/// `chapar serve`: the gateway.
///
/// SIGHUP reloads the file, SIGTERM and SIGINT drain and end.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the gateway.",
        discussion: """
            SIGHUP reads the configuration again; a wrong file changes nothing and every mistake is logged.
            SIGTERM and SIGINT take no new requests, let what is under way end, and stop.
            """
    )

    @Flag(
        help: "Make a first API key, with the scope admin: prints it once and adds its hash to the configuration file."
    )
    var makeKey = false

    @OptionGroup var file: ConfigOption

    @Flag(
        name: .customLong("json"),
        help: "Write where it listens to stdout, as one JSON object; the log stays on stderr."
    )
    var isJSON = false

    func run() async throws {
        Allocator.configure()
        if makeKey { try FirstKey.make(in: file, asJSON: isJSON) }
        let log = LogOutput.Settings()
        let logger = log.logger()
        // Trapped before anything starts, so that no signal falls into the default, which would be the end.
        let hangUps = await UnixSignalsSequence(trapping: .sighup)
        let address = ListeningAddress(isPrinted: isJSON)
        let metrics = GatewayMetrics(build: GatewayProgram.current.build)
        metrics.registry.bootstrap()
        let assembly = try await GatewayAssembly(path: file.path, log: log, metrics: metrics) { [address] port in
            address.announce(port, logger)
        }
        let configuration = assembly.configuration
        address.prepare(configuration, assembly.gateway.state)
        let drain = configuration.queue.drain
        var options = ServiceGroupConfiguration(
            services: [
                .init(service: assembly.gateway, successTerminationBehavior: .gracefullyShutdownGroup),
                .init(service: Reloading(signals: hangUps, assembly: assembly)),
            ],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: Logger(label: "services") { _ in SwiftLogNoOpLogHandler() }
        )
        // Sends are given up after `drain`; what becomes of them is still to be written.
        options.maximumGracefulShutdownDuration = drain + .seconds(4)
        do {
            try await ServiceGroup(configuration: options).run()
        } catch {
            throw CommandFailure(Self.sentence(error, configuration.server))
        }
        await assembly.transport.shutdown(grace: .seconds(1))
        let store = await assembly.gateway.state.store.health()
        if store.isLost { throw CommandFailure("the gateway ended without its store: \(store.detail ?? "")") }
        logger.notice("stopped")
    }
}

extension ServeCommand {
    /// Why the gateway ended; the commonest reason in words that say what to do.
    private static func sentence(_ error: any Error, _ server: GatewayConfiguration.Server) -> String {
        let text = "\(error)"
        guard text.contains("errno: \(EADDRINUSE)") else { return "the gateway ended: \(text)" }
        return "cannot listen on \(server.host):\(server.port): the port is taken. "
            + "Stop what has it, or change server.port."
    }
}

/// Reloads at each SIGHUP until the program is to end.
private struct Reloading: Service {
    let signals: UnixSignalsSequence
    let assembly: GatewayAssembly

    func run() async throws {
        for await _ in signals.cancelOnGracefulShutdown() { await assembly.reload() }
    }
}

/// Says where the gateway listens and what it will do, once it does.
private final class ListeningAddress: Sendable {
    private let server = Mutex((GatewayConfiguration.Server(), "http"))
    private let state = Mutex<GatewayState?>(nil)
    private let isPrinted: Bool

    /// Makes one; `isPrinted` is whether stdout gets the address besides the log.
    init(isPrinted: Bool) { self.isPrinted = isPrinted }

    func prepare(_ configuration: GatewayConfiguration, _ gateway: GatewayState) {
        state.withLock { $0 = gateway }
        server.withLock { $0 = (configuration.server, configuration.tls == nil ? "http" : "https") }
    }

    func announce(_ port: Int, _ logger: Logger) {
        let (server, scheme) = server.withLock { $0 }
        if let path = server.unixSocket {
            logger.notice("listening", metadata: ["unix_socket": "\(path)", "pid": "\(getpid())"])
            if isPrinted { Shell.print(["unix_socket": .string(path), "pid": .integer(Int64(getpid()))]) }
        } else {
            let name = server.host.contains(":") ? "[\(server.host)]" : server.host
            let url = "\(scheme)://\(name):\(port)"
            logger.notice("listening", metadata: ["url": "\(url)", "port": "\(port)", "pid": "\(getpid())"])
            if isPrinted {
                Shell.print([
                    "url": .string(url), "port": .integer(Int64(port)), "pid": .integer(Int64(getpid())),
                ])
            }
            showDashboard(url)
        }
        ServiceManager.tell(ServiceManager.ready)
        if state.withLock({ $0?.snapshot.backends.isEmpty ?? false }) {
            logger.warning(
                "no backends: whatever is sent is refused; chapar init writes some into the configuration, then reload it"
            )
        }
    }

    /// Shows an operator at a terminal the dashboard's link, which a code opens in the place of the first key.
    ///
    /// A log gets none: other users may read it.
    private func showDashboard(_ url: String) {
        guard Shell.isErrorTerminal, let state = state.withLock({ $0 }),
            state.snapshot.configuration.apiKeys.contains(where: \.isFirst)
        else { return }
        let code = state.dashboard.makeCode(at: state.time.steady)
        let minutes = Int(clamping: DashboardAccess.codeLifetime / 60)
        Shell.complain("Dashboard: \(url)/#code=\(code.reveal())  (works once, for \(minutes) minutes)")
    }
}
