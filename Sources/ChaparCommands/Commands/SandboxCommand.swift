import ArgumentParser
import Foundation
import ChaparCore
import ChaparSandbox

/// `chapar sandbox`: runs the simulators alone, with the files a gateway needs to send to them.
struct SandboxCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "sandbox",
            abstract: "Start local simulators of the platforms and write credentials and a ready configuration.",
            discussion: """
                Then, elsewhere: \(GatewayProgram.current.name) serve --config DIR/chapar.yaml
                The simulators hold the platforms' rules on real sockets, need no account, and stay up until interrupted.
                """
        )
    }

    @Option(help: "Where to write the authority's certificate, the key and chapar.yaml.", completion: .directory)
    var dir: String

    @Option(
        name: .customLong("platform"),
        help: "Only these platforms, by their kinds with commas between them, such as apns,fcm. Default: all."
    )
    var platforms: String?

    @Option(name: .customLong("port"), help: "The port of the APNs production simulator; 0 takes a free one.")
    var port = 0

    @Option(name: .customLong("development-port"), help: "The port of the APNs development simulator.")
    var developmentPort = 0

    @Option(name: .customLong("control-port"), help: "The port of the control API: faults, inbox, counters.")
    var controlPort = 0

    @Option(name: .customLong("gateway-port"), help: "The gateway's port in the written configuration.")
    var gatewayPort = 8080

    @OptionGroup var form: OutputForm

    func validate() throws {
        for port in [port, developmentPort, controlPort, gatewayPort] where !(0...65535).contains(port) {
            throw ValidationError("\(port) is not a port: 0 to 65535.")
        }
        let backends = GatewayProgram.current.backends
        let kinds = backends.map(\.kind.rawValue)
        for kind in chosen ?? [] where !kinds.contains(kind) {
            let other = backends.first { Suggestion.same(as: kind, among: $0.otherNames) != nil }
            let meant = other?.kind.rawValue ?? Suggestion.nearest(to: kind, among: kinds)
            let hint = meant.map { "Did you mean \"\($0)\"? " } ?? ""
            throw ValidationError("\"\(kind)\" is no platform. \(hint)There are \(kinds.joined(separator: ", ")).")
        }
        if chosen?.isEmpty == true { throw ValidationError("Name a platform: --platform apns,fcm.") }
    }

    /// The kinds of `--platform`; nil for all.
    private var chosen: [String]? {
        platforms?.split(whereSeparator: { $0 == "," || $0.isWhitespace }).map { $0.lowercased() }
    }

    func run() async throws {
        var configuration = GatewayProgram.current.sandbox
        configuration.apns.ports = [.production: port, .development: developmentPort]
        configuration.controlPort = controlPort
        // IDPush stands in front of OneSignal, and is a part of its simulator.
        configuration.platforms = chosen.map { Set($0.map { $0 == "idpush" ? "onesignal" : $0 }) }
        let isWhole = chosen == nil
        let interruption = await Interruption()
        do {
            try await Sandbox.run(configuration) { sandbox in
                let written = try GatewayProgram.current.write(
                    sandbox,
                    to: URL(filePath: dir),
                    gatewayPort: gatewayPort,
                    isWhole: isWhole
                )
                show(written)
                await interruption.wait()
            }
        } catch let error as SandboxError {
            throw CommandFailure(error.description)
        }
    }

    /// The warning that a sandbox's configuration needs no API key; `demo` prints it as well.
    static let keylessWarning =
        "warning: the gateway's configuration says auth.keyless: every program on this machine may use it without a key, for trying only"

    private func show(_ description: SandboxDescription) {
        Shell.complain(Self.keylessWarning)
        guard !form.isJSON else {
            let listeners = description.listeners.reduce(into: JSONObject()) { $0[$1.name] = .string($1.url) }
            Shell.print([
                "listeners": .object(listeners), "config": .string(description.configurationFile.path),
                "files": .array(description.files.map { .string($0.path) }), "seed": .string("\(description.seed)"),
            ])
            return
        }
        Shell.print(description.description)
        Shell.print("")
        Shell.print("next: \(GatewayProgram.current.name) serve --config \(description.configurationFile.path)")
        Shell.print("      (stop with ctrl-c)")
    }
}
