import ArgumentParser
import Foundation
import Logging
import ChaparCore
import ChaparGateway
import ChaparHTTP
import ChaparQueue
import ServiceLifecycle
import Synchronization
import UnixSignals

/// `chapar serve`: runs the gateway.
///
/// SIGHUP reloads the file; SIGTERM and SIGINT drain and end.
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
        // Trapped before anything starts, so that no signal meets the default action, which ends the program.
        let hangUps = await UnixSignalsSequence(trapping: .sighup)
        let ends = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        let log = LogOutput.Settings()
        let ending = Ending(log.logger())
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { await ending.watch(ends) }
            defer { tasks.cancelAll() }
            try await serve(log, hangUps, ending)
        }
    }

    private func serve(_ log: LogOutput.Settings, _ hangUps: UnixSignalsSequence, _ ending: Ending) async throws {
        let logger = log.logger()
        if makeKey { try FirstKey.make(in: file, asJSON: isJSON) }
        let address = ListeningAddress(isPrinted: isJSON)
        let metrics = GatewayMetrics(build: GatewayProgram.current.build)
        metrics.registry.bootstrap()
        let assembly: GatewayAssembly
        do {
            assembly = try await GatewayAssembly(
                path: file.path,
                log: log,
                metrics: metrics,
                mayGoOn: ending.mayGoOn
            ) { [address] port in address.announce(port, logger) }
        } catch is StartEnded {
            return logger.notice("stopped")
        }
        guard ending.mayGoOn() else {
            await assembly.gateway.state.store.close()
            return logger.notice("stopped")
        }
        let configuration = assembly.configuration
        address.prepare(configuration, assembly.gateway)
        let drain = configuration.queue.drain
        var options = ServiceGroupConfiguration(
            services: [
                .init(service: assembly.gateway, successTerminationBehavior: .gracefullyShutdownGroup),
                .init(service: Reloading(signals: hangUps, assembly: assembly)),
            ],
            logger: Logger(label: "services") { _ in SwiftLogNoOpLogHandler() }
        )
        // Sends are abandoned after `drain`; their outcomes are still written after that.
        options.maximumGracefulShutdownDuration = drain + .seconds(4)
        do {
            try await ending.run(ServiceGroup(configuration: options))
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
    /// Returns the reason why the gateway ended; for a taken port with the fix.
    private static func sentence(_ error: any Error, _ server: GatewayConfiguration.Server) -> String {
        CommandFailure.portTaken(error, at: "\(server.host):\(server.port)", fix: "change server.port.")
            ?? "the gateway ended: \(error)"
    }
}

/// Ends the program in order at SIGTERM or SIGINT, from the first moment on.
///
/// A start asks, once the store is open, whether it may go on. If it does not get there in time, because tables are
/// brought up to date or a database does not answer, the process exits at once: no run has begun.
private final class Ending: Sendable {
    private struct State {
        var hasCome = false
        /// Whether something is open that must end in order.
        var isOpen = false
        var group: ServiceGroup?
    }

    /// The longest wait, after the signal, for a start that has no store yet.
    private static let shortWait = Duration.seconds(3)
    /// The longest wait, after ``shortWait``, for a start with a store until its services run.
    private static let longWait = Duration.seconds(30)

    private let state = Mutex(State())
    private let logger: Logger

    init(_ logger: Logger) { self.logger = logger }

    /// Ends the program at each of these signals, until the task is cancelled.
    func watch(_ signals: UnixSignalsSequence) async { for await _ in signals { await come() } }

    private func come() async {
        let group = state.withLock { state in
            state.hasCome = true
            return state.group
        }
        if let group { return await group.triggerGracefulShutdown() }
        do { try await Task.sleep(for: Self.shortWait) } catch { return }
        if !state.withLock({ $0.isOpen }) {
            logger.notice("stopped")
            _exit(ExitStatus.success.rawValue)
        }
        do { try await Task.sleep(for: Self.longWait) } catch { return }
        if state.withLock({ $0.group == nil }) { _exit(ExitStatus.failure.rawValue) }
    }

    /// Returns whether the start may go on; from now on something is open.
    func mayGoOn() -> Bool {
        state.withLock { state in
            state.isOpen = true
            return !state.hasCome
        }
    }

    /// Runs the services until a signal, or until they end.
    func run(_ group: ServiceGroup) async throws {
        let hasCome = state.withLock { state in
            state.group = group
            return state.hasCome
        }
        if hasCome { await group.triggerGracefulShutdown() }
        try await group.run()
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

/// Reports where the gateway listens and what it sends, once it listens.
private final class ListeningAddress: Sendable {
    private let server = Mutex((GatewayConfiguration.Server(), "http"))
    private let gateway = Mutex<(state: GatewayState, api: APIState)?>(nil)
    private let isPrinted: Bool

    /// Makes one; `isPrinted` is whether the address also goes to stdout, besides the log.
    init(isPrinted: Bool) { self.isPrinted = isPrinted }

    func prepare(_ configuration: GatewayConfiguration, _ gateway: Gateway) {
        // Not the gateway itself, whose server keeps this one.
        self.gateway.withLock { $0 = (gateway.state, gateway.api) }
        server.withLock { $0 = (configuration.server, configuration.tls == nil ? "http" : "https") }
    }

    func announce(_ port: Int, _ logger: Logger) {
        let (server, scheme) = server.withLock { $0 }
        if let path = server.unixSocket {
            logger.notice("listening", metadata: ["unix_socket": "\(path)", "pid": .stringConvertible(getpid())])
            if isPrinted { Shell.print(["unix_socket": .string(path), "pid": .integer(Int64(getpid()))]) }
        } else {
            let name = server.host.contains(":") ? "[\(server.host)]" : server.host
            let url = "\(scheme)://\(name):\(port)"
            logger.notice(
                "listening",
                metadata: ["url": "\(url)", "port": .stringConvertible(port), "pid": .stringConvertible(getpid())]
            )
            if isPrinted {
                Shell.print([
                    "url": .string(url), "port": .integer(Int64(port)), "pid": .integer(Int64(getpid())),
                ])
            }
            showDashboard(url)
        }
        ServiceManager.tell(ServiceManager.ready)
        if gateway.withLock({ $0?.state.snapshot.backends.isEmpty ?? false }) {
            logger.warning(
                "no backends: every message is refused; add backends with chapar init, then reload"
            )
        }
    }

    /// Shows an operator at a terminal the dashboard's link with a one-time code in place of the first key.
    ///
    /// The log gets no link: other users may read it.
    private func showDashboard(_ url: String) {
        guard Shell.isErrorTerminal, let (state, api) = gateway.withLock({ $0 }),
            state.snapshot.configuration.apiKeys.contains(where: \.isFirst)
        else { return }
        let code = api.dashboard.makeCode(at: state.time.steady)
        let seconds = Int(clamping: DashboardAccess.codeLifetime)
        Shell.complain("Dashboard: \(url)/#code=\(code.reveal())  (works once, for \(seconds) seconds)")
    }
}
