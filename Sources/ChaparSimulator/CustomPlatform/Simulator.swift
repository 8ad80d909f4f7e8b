internal import Foundation
public import ChaparCore

/// A custom platform on a real TLS socket of this machine, with the failures that every backend must handle.
///
/// ```swift
/// try await Simulator.run(PagerService()) { simulator in
///     let backend = …  // Sends to simulator.url, trusts simulator.certificatePEM.
///     simulator.disturb(.lostAnswer)
/// }
/// ```
public final class Simulator<Service: SimulatedService>: Sendable {
    /// The platform's rules and state.
    public let service: Service
    /// The host of its listener.
    public let host: SandboxWebHost
    private let port: Int

    /// Makes a simulator that does not listen yet.
    ///
    /// - Parameters:
    ///   - service: The platform's rules.
    ///   - port: Its port; 0 for a free one.
    ///   - authority: The authority that signs its certificate; nil makes one.
    ///   - time: The clock.
    /// - Throws: When no certificate can be made.
    public init(
        _ service: Service,
        port: Int = 0,
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        self.service = service
        self.port = port
        host = SandboxWebHost(.init(), authority: try authority ?? SandboxCertificateAuthority(), time: time)
    }

    /// Starts a simulator, runs `body`, and shuts the simulator down, also after an error.
    public static func run<Value>(
        _ service: Service,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (Simulator<Service>) async throws -> Value
    ) async throws -> Value {
        try await Simulator(service).whileRunning(body)
    }

    /// Starts the listener; throws when the port is taken.
    public func start() async throws {
        try await host.start([.init(name: listener, port: port, handler: SimulatedHandler(service: service))])
    }

    /// Its address, such as `https://127.0.0.1:8443`.
    public var url: String { host.url(listener) }
    /// The number of requests that have arrived.
    public var requests: Int { host.counters.requests }

    /// Returns a backend's section that sends here.
    ///
    /// - Parameter caFile: The path of the file with `certificatePEM`, as the section names it.
    /// - Returns: The keys with their values, `kind` first.
    public func section(caFile: String) -> JSONObject {
        var section: JSONObject = ["kind": .string(service.kind.rawValue)]
        for (name, value) in service.section(url: url) { section[name] = value }
        section["ca_file"] = .string(caFile)
        return section
    }

    /// Makes the platform fail in this way from now on; nil ends that.
    public func disturb(_ trouble: FaultRule.Trouble?) {
        removeFaults()
        if let trouble { add(FaultRule.trouble(trouble)) }
    }

    /// Makes the platform fail in a way of `ChaparTesting`'s conformance kit:
    /// `disturb: { try simulator.disturb($0.rawValue) }`.
    ///
    /// - Throws: When the word stands for no trouble.
    public func disturb(_ word: String) throws {
        guard let trouble = FaultRule.Trouble(rawValue: word) else {
            throw SandboxError(description: "\"\(word)\" is no trouble of a simulator")
        }
        disturb(trouble)
    }

    fileprivate var listener: SandboxListener { SandboxListener(rawValue: service.kind.rawValue) }
}

extension Simulator: WebSimulator {}

extension Simulator: SimulatedPlatform {
    package var name: String { service.kind.rawValue }

    package var listeners: [(name: String, url: String)] { [(name, url)] }

    package var files: [SandboxFile] { [] }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [SandboxBackend(name: name, keys: section(caFile: folder.ca).map { (key: $0.name, value: $0.value) })]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try ServiceControl(simulator: self).route(request)
    }
}

/// The control API of a custom platform's simulator.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where it listens, and how many messages it has taken |
/// | `GET /counters` | what happened on its connections |
/// | and | those of ``HostControl`` |
private struct ServiceControl<Service: SimulatedService>: SimulatorControl {
    let simulator: Simulator<Service>

    var common: HostControl {
        HostControl(
            host: simulator.host,
            words: FaultVocabulary(listeners: [simulator.listener], foldsTokens: false)
        )
    }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): ["url": .string(simulator.url), "taken": .integer(Int64(simulator.service.taken))]
        case ("GET", "/counters"): .object(simulator.host.counters.json)
        default: nil
        }
    }
}

extension SimulatedService {
    /// Makes the simulator of these rules in a sandbox.
    package func simulator(
        _ authority: SandboxCertificateAuthority,
        _ time: any TimeSource
    ) throws -> any SimulatedPlatform {
        try Simulator(self, authority: authority, time: time)
    }
}

/// Passes requests on to the rules of a service.
private struct SimulatedHandler<Service: SimulatedService>: SandboxHandler {
    let service: Service

    func subject(of request: SandboxRequest) -> SandboxSubject { SandboxSubject() }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        fault.plain(now: now)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        let answer = service.answer(
            SimulatedRequest(
                method: request.method,
                path: request.path,
                query: request.query,
                headers: request.headers,
                body: request.body
            )
        )
        return SandboxReply(
            answer: SandboxAnswer(status: answer.status, headers: answer.headers, body: answer.body)
        )
    }
}
