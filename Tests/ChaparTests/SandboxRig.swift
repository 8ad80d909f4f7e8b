import Foundation
import ChaparCore
import ChaparSandbox

@testable import ChaparCommands
@testable import chapar

/// Simulators in the test's own process, files for a gateway, and a gateway as a child process.
struct SandboxRig {
    let sandbox: Sandbox
    let folder: URL
    let config: String

    /// Runs `body` with a sandbox and a configuration that sends to it.
    static func run(
        _ configuration: Sandbox.Configuration = Sandbox.Configuration(),
        _ body: (SandboxRig) async throws -> Void
    ) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        try await Sandbox.run(configuration) { sandbox in
            let files = try Plugins.program.write(sandbox, to: folder.url, gatewayPort: 0)
            try await body(SandboxRig(sandbox: sandbox, folder: folder.url, config: files.configurationFile.path))
        }
    }

    /// Adds lines to the configuration; a section `auth` among them takes the place of the sandbox's own.
    func append(_ text: String) throws {
        if text.contains("auth:") { try removeAuth() }
        let old = try String(contentsOfFile: config, encoding: .utf8)
        try (old + text).write(toFile: config, atomically: true, encoding: .utf8)
    }

    /// Takes the sandbox's `auth: { keyless: true }` out of the configuration.
    func removeAuth() throws {
        let old = try String(contentsOfFile: config, encoding: .utf8)
        let new = old.replacing(/(?m)^auth:.*\n(?: .*\n)*/, with: "")
        try new.write(toFile: config, atomically: true, encoding: .utf8)
    }

    /// Starts a gateway and waits until it listens.
    func serve(environment: [String: String] = [:]) async throws -> ServedGateway {
        let child = try Child(["serve", "--config", config], environment: environment)
        do {
            let port = try await Program.wait("listening") { () -> Int? in
                Self.port(in: child.errors)
            }
            return ServedGateway(child: child, port: port)
        } catch {
            child.kill()
            throw Program.TooSlow(description: "\(error); stderr: \(child.errors)")
        }
    }

    /// The port that a gateway says it listens on; nil when it has not said so.
    static func port(in log: String) -> Int? {
        for mark in [" port=", "\"port\":"] {
            guard let place = log.range(of: mark) else { continue }
            let digits = log[place.upperBound...].prefix { $0.isNumber }
            let rest = log[place.upperBound...].dropFirst(digits.count)
            if !rest.isEmpty { return Int(digits) }
        }
        return nil
    }

    /// A device token that nothing else in a test has.
    static func token(_ number: Int, prefix: String = "ab") -> String {
        let digits = String(number, radix: 16)
        return prefix + String(repeating: "0", count: 64 - prefix.count - digits.count) + digits
    }
}

/// A gateway as a child process.
struct ServedGateway {
    let child: Child
    let port: Int

    var url: String { "http://127.0.0.1:\(port)" }

    func client(key: Secret? = nil) throws -> GatewayClient {
        guard let endpoint = HTTPEndpoint(url: url) else { throw Program.TooSlow(description: "no port") }
        return try GatewayClient(endpoint, key: key, connections: 16)
    }
}
