import Foundation
import NIOCore
import NIOEmbedded
import NIOPosix
import NIOSSL
import NIOTLS
import ChaparCore
import Synchronization
import Testing

@testable import ChaparHTTP

/// A client certificate that the peer refuses: under TLS 1.3 it says so only when the client's handshake is over.
@Suite("A client certificate that is refused", .serialized, .timeLimit(.minutes(1)))
struct ClientCertificateTests {
    enum Reason: CaseIterable {
        case expired, unknownAuthority, none

        func certificate() throws -> HTTPPoolConfiguration.ClientCertificate? {
            let identity: TestAuthority.Identity
            switch self {
            case .expired:
                identity = try TestAuthority.shared.identity(
                    names: ["client"],
                    notValidAfter: .now - 3600,
                    isClient: true
                )
            case .unknownAuthority:
                identity = try TestAuthority.stranger.identity(names: ["client"], isClient: true)
            case .none: return nil
            }
            return .init(chainPEM: identity.certificatePEM, keyPEM: Secret(identity.keyPEM))
        }
    }

    /// Surely not sent, and for a certificate: that parks the backend until an operator acts.
    private func expectParked(_ failure: HTTPFailure?, _ reason: Any) {
        #expect(
            failure?.stage == .notProcessed && failure?.cause == .tls,
            "\(reason): \(failure?.description ?? "none")"
        )
        #expect(failure?.detail.contains("the peer refuses the client certificate") == true)
        guard case .refused(let refusal)? = failure?.outcome() else {
            Issue.record("\(reason) is no refusal")
            return
        }
        #expect(refusal.advice == .parkBackend && refusal.kind == .account)
    }

    @Test("HTTP/2: all calls fail as refused for the certificate", arguments: Reason.allCases)
    func http2(reason: Reason) async throws {
        try await withServer({ $0.clientTrustPEM = try TestAuthority.shared.certificatePEM }) { server in
            let certificate = try reason.certificate()
            try await withPool(port: server.port, { $0.clientCertificate = certificate }) { pool in
                let replies = await pool.replies(to: .posts(5))
                #expect(replies.failures.count == 5)
                for failure in replies.failures { expectParked(failure, reason) }
            }
        }
    }

    @Test("HTTP/1.1: the same, though the request has left already", arguments: Reason.allCases)
    func http1(reason: Reason) async throws {
        let trust = try TestAuthority.shared.certificatePEM
        let server = try await HTTP1Server.start(withTLS: true, clientTrustPEM: trust)
        let certificate = try reason.certificate()
        try await HTTP1Tests().withPool(server.url, { $0.clientCertificate = certificate }) { pool in
            let replies = await pool.replies(to: .posts(5))
            #expect(replies.failures.count == 5)
            for failure in replies.failures { expectParked(failure, reason) }
            #expect(server.requests == 0)
        }
        try await server.stop()
    }

    @Test("HTTP/2: a refusal that comes after the peer's SETTINGS, with calls on the connection", arguments: [0, 1])
    func late(answers: Int) async throws {
        let error = try await alert()
        let loop = EmbeddedEventLoop()
        let channel = EmbeddedChannel(loop: loop)
        let configuration = HTTPPoolConfiguration(endpoint: HTTPEndpoint(host: "127.0.0.1", port: 9), version: .http2)
        let tuning = HTTP2Tuning()
        let budget = AnswerBudget(limit: 1 << 20)
        let connector = Connector(
            configuration: configuration,
            tls: try configuration.tlsContext(protocols: ["h2"]),
            tuning: tuning,
            budget: budget
        )
        let engine = HTTP2Engine(configuration, connector: connector, loop: loop, tuning: tuning, logger: quiet)
        let connection = try #require(
            HTTP2Connection(
                endpoint: configuration.endpoint,
                configuration: configuration,
                tuning: tuning,
                budget: budget
            )
        )
        try channel.pipeline.syncOperations.addHandler(connection)
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 9), promise: nil)
        connection.adopt(by: engine)
        channel.pipeline.fireUserInboundEventTriggered(TLSUserEvent.handshakeCompleted(negotiatedProtocol: "h2"))
        // An empty SETTINGS frame opens it.
        try channel.writeInbound(ByteBuffer(bytes: [0, 0, 0, 4, 0, 0, 0, 0, 0]))
        #expect(connection.phase == .open)
        let replies = Replies()
        engine.submit(Batch(.posts(2), report: { replies.take($0) }))
        loop.run()
        #expect(connection.openStreams == 2)
        // HEADERS of stream 1 with END_STREAM: ":status: 200" of HPACK's static table.
        if answers > 0 { try channel.writeInbound(ByteBuffer(bytes: [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88])) }
        channel.pipeline.fireErrorCaught(error)
        loop.run()
        #expect(connection.phase == .closed)
        #expect(replies.statuses.count == answers)
        #expect(replies.failures.count == 2 - answers)
        if answers == 0 {
            for failure in replies.failures { expectParked(failure, Reason.expired) }
            #expect(engine.status.lastConnectFailure?.cause == .tls)
        } else {
            // A peer that has answered had taken the certificate: of the other call nothing is known.
            #expect(replies.failures.map(\.stage) == [.unknown])
        }
        engine.end(grace: .zero, nil)
        loop.run()
    }

    /// RFC 8446, section 6.2: what a peer says of a certificate that it does not take, or that is missing.
    @Test(
        "Each alert about a certificate parks the backend, in the handshake and behind it",
        arguments: [
            (42, "BAD_CERTIFICATE"), (43, "UNSUPPORTED_CERTIFICATE"), (44, "CERTIFICATE_REVOKED"),
            (45, "CERTIFICATE_EXPIRED"), (46, "CERTIFICATE_UNKNOWN"), (48, "UNKNOWN_CA"), (49, "ACCESS_DENIED"),
            (51, "DECRYPT_ERROR"), (116, "CERTIFICATE_REQUIRED"),
        ] as [(UInt8, String)]
    )
    func alerts(number: UInt8, name: String) throws {
        let error = try alert(number)
        #expect("\(error)".contains(name), "the words of the TLS library")
        let endpoint = HTTPEndpoint(host: "127.0.0.1", port: 9)
        expectParked(HTTPFailure(connecting: error, to: endpoint), name)
        expectParked(HTTPFailure.refusedCertificate(error, by: endpoint), name)
    }

    @Test(
        "An alert about something else says nothing about the certificate",
        arguments: [10, 20, 22, 40, 47, 50, 70, 71, 80, 86, 90, 109, 110, 112] as [UInt8]
    )
    func otherAlerts(number: UInt8) throws {
        let error = try alert(number)
        let endpoint = HTTPEndpoint(host: "127.0.0.1", port: 9)
        #expect(HTTPFailure.refusedCertificate(error, by: endpoint) == nil, "\(error)")
        let failure = HTTPFailure(connecting: error, to: endpoint)
        #expect(failure.cause == .tls && !failure.detail.contains("the peer refuses the client certificate"))
    }

    /// The error that a client gets from a peer that answers its first words with an alert.
    private func alert(_ number: UInt8) throws -> any Error {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.certificateVerification = .none
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandler(
            try NIOSSLClientHandler(context: try NIOSSLContext(configuration: tls), serverHostname: nil)
        )
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 9), promise: nil)
        do {
            // A record with a fatal alert, which needs no key at this point.
            try channel.writeInbound(ByteBuffer(bytes: [21, 3, 3, 0, 2, 2, number]))
        } catch {
            return error
        }
        throw HTTPFailure(.unknown, .badAnswer, "the alert \(number) is no error")
    }

    /// The error that a client gets from a peer that refuses its certificate.
    private func alert() async throws -> any Error {
        let trust = try TestAuthority.shared.certificatePEM
        let server = try await HTTP1Server.start(withTLS: true, clientTrustPEM: trust)
        let endpoint = try #require(HTTPEndpoint(url: server.url))
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.certificateVerification = .none
        let context = try NIOSSLContext(configuration: tls)
        let first = MultiThreadedEventLoopGroup.singleton.next().makePromise(of: (any Error).self)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        try NIOSSLClientHandler(context: context, serverHostname: nil)
                    )
                    try channel.pipeline.syncOperations.addHandler(FirstError(first))
                }
            }
            .connect(host: endpoint.host, port: endpoint.port).get()
        let error = try await first.futureResult.get()
        try? await channel.close()
        try await server.stop()
        return error
    }
}

/// Gives the first error of a connection.
private final class FirstError: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let promise: EventLoopPromise<any Error>
    private var isKnown = false

    init(_ promise: EventLoopPromise<any Error>) { self.promise = promise }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { tell(error) }

    func channelInactive(context: ChannelHandlerContext) { tell(ChannelError.eof) }

    private func tell(_ error: any Error) {
        guard !isKnown else { return }
        isKnown = true
        promise.succeed(error)
    }
}
