internal import Foundation
public import ChaparCore
public import ChaparSimulator

/// A custom service, as the backend `http` calls it: takes signed batches and answers with outcomes, strict, on a real
/// TLS socket, with faults.
///
/// Recipients whose address begins with a magic word get an outcome other than `accepted`:
///
/// | word | outcome |
/// | --- | --- |
/// | `gone-` | refused: the device token is dead |
/// | `busy-` | refused: the platform wants a pause of a second |
/// | `fault-` | refused: the message |
/// | `closed-` | refused: the account |
/// | `doubt-` | unknown |
/// | `silent-` | none: the answer leaves it out |
public final class ServiceSimulator: Sendable {
    /// The counts of the service's requests and messages.
    public struct Counters: Sendable, Hashable {
        /// Requests that were accepted.
        public var batches = 0
        /// Messages that were accepted, each once.
        public var messages = 0
        /// Messages that came again and were not accepted a second time.
        public var repeats = 0
        /// Messages of dry runs, which are only checked.
        public var dryRuns = 0
        /// Requests that were refused for their signature.
        public var unsigned = 0
        /// Requests that were refused for their form.
        public var malformed = 0
        /// The most recipients in a request.
        public var largestBatch = 0
    }

    /// The secret that requests must be signed with.
    public static let secret = "whsec_c2FuZGJveC1zZWNyZXQtb2YtdGhlLXNlcnZpY2U="
    /// The path that batches go to.
    public static let path = "/push"
    /// The name of the listener, for fault rules.
    public static let listener: SandboxListener = "service"

    /// The host of its listeners.
    public let host: SandboxWebHost
    private let handler: ServiceHandler
    private let port: Int

    /// Makes a service that does not listen yet.
    ///
    /// - Parameters:
    ///   - port: Its port; 0 for a free one.
    ///   - authority: The authority that signs its certificate; nil makes one.
    ///   - time: The clock.
    /// - Throws: When no certificate can be made.
    public init(
        port: Int = 0,
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        host = SandboxWebHost(.init(), authority: try authority ?? SandboxCertificateAuthority(), time: time)
        handler = ServiceHandler(secret: Self.secret)
        self.port = port
    }

    /// Starts a service, runs `body`, and shuts the service down, also after an error.
    public static func run<Value>(
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (ServiceSimulator) async throws -> Value
    ) async throws -> Value {
        try await ServiceSimulator(time: time).whileRunning(body)
    }

    /// Starts the listener; throws when the port is taken.
    public func start() async throws {
        try await host.start([.init(name: Self.listener, port: port, handler: handler)])
    }

    /// The address that batches go to.
    public var url: String { host.url(Self.listener) + Self.path }
    /// The counts of requests and messages so far.
    public var counters: Counters { handler.withState { $0.counters } }
    /// The messages that were accepted, in order: each a JSON object of `message` and `recipient`.
    public var taken: [JSONValue] { handler.withState { $0.taken } }
}

extension ServiceSimulator: WebSimulator {}
