import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// An event of a scripted server's connection, for its script.
enum ServerEvent: Sendable {
    /// TLS and the client's preface are done.
    case opened
    /// A request's fields are complete.
    case headers(Int32)
    /// Bytes of a body.
    case data(Int32, Int)
    /// A request is complete.
    case request(Int32)
    case reset(Int32, UInt32)
    case settingsAcknowledged
    case ping
}

/// An HTTP/2 server that does exactly what a test tells it, also what no decent server would do.
///
/// It runs on one event loop, where the script is called for each event. By itself it acknowledges SETTINGS, sends
/// `settings` at once unless they are nil, and answers pings unless told not to.
final class ScriptedServer: Sendable {
    struct Rules: Sendable {
        var settings: [(UInt16, UInt32)]? = [(3, 100)]
        var answersPings = true
        var identity: TestAuthority.Identity?
        var protocols = ["h2"]
        var clientTrustPEM: String?
        var script: @Sendable (ServerConnection, ServerEvent) -> Void = { connection, event in
            if case .request(let id) = event { connection.answer(id) }
        }
    }

    struct Request: Sendable {
        let connection: Int
        let stream: Int32
        let fields: [String: String]
    }

    private struct Log {
        var connections: [ServerConnection] = []
        var requests: [Request] = []
        var resets: [(stream: Int32, code: UInt32)] = []
        var violations: [String] = []
    }

    let rules: Rules
    private let log = Mutex(Log())
    private let listener = Mutex<(any Channel)?>(nil)
    let loop = MultiThreadedEventLoopGroup.singleton.next()

    private init(_ rules: Rules) { self.rules = rules }

    static func start(_ rules: Rules = Rules(), port: Int = 0) async throws -> ScriptedServer {
        let server = ScriptedServer(rules)
        let identity = try rules.identity ?? TestAuthority.shared.identity()
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(identity.certificatePEM.utf8))
                .map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(identity.keyPEM.utf8), format: .pem))
        )
        tls.applicationProtocols = rules.protocols
        if let pem = rules.clientTrustPEM {
            tls.certificateVerification = .noHostnameVerification
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8)))
        }
        let context = try NIOSSLContext(configuration: tls)
        let channel = try await ServerBootstrap(group: server.loop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let connection = server.log.withLock { log in
                        let connection = ServerConnection(server: server, number: log.connections.count + 1)
                        log.connections.append(connection)
                        return connection
                    }
                    try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
                    try channel.pipeline.syncOperations.addHandler(connection)
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        server.listener.withLock { $0 = channel }
        return server
    }

    var port: Int { listener.withLock { $0?.localAddress?.port ?? 0 } }
    var requests: [Request] { log.withLock { $0.requests } }
    var resets: [(stream: Int32, code: UInt32)] { log.withLock { $0.resets } }
    /// The client's violations of the limits that it had acknowledged.
    var violations: [String] { log.withLock { $0.violations } }
    var connections: [ServerConnection] { log.withLock { $0.connections } }

    func note(_ request: Request) { log.withLock { $0.requests.append(request) } }
    func note(reset stream: Int32, _ code: UInt32) { log.withLock { $0.resets.append((stream, code)) } }
    func note(violation: String) { log.withLock { $0.violations.append(violation) } }

    /// Runs `action` on the loop for every connection.
    func onEach(_ action: @escaping @Sendable (ServerConnection) -> Void) {
        loop.execute { for connection in self.connections { action(connection) } }
    }

    /// Closes the listener and every connection.
    func stop() async throws {
        let channel = listener.withLock { $0 }
        try await channel?.close()
        onEach { $0.close() }
    }
}

/// Runs `body` with a server that follows `script`.
func withServer<Result>(
    _ change: (inout ScriptedServer.Rules) throws -> Void = { _ in },
    script: (@Sendable (ServerConnection, ServerEvent) -> Void)? = nil,
    _ body: (ScriptedServer) async throws -> Result
) async throws -> Result {
    var rules = ScriptedServer.Rules()
    if let script { rules.script = script }
    try change(&rules)
    let server = try await ScriptedServer.start(rules)
    do {
        let result = try await body(server)
        try await server.stop()
        return result
    } catch {
        try await server.stop()
        throw error
    }
}
