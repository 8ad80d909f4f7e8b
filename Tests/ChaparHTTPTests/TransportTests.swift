import ChaparCore
import Testing

@testable import ChaparHTTP

/// The requests that a transport refuses before it opens a connection.
@Suite("Transport", .serialized, .timeLimit(.minutes(1)))
struct TransportTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let change: @Sendable (inout HTTPPoolConfiguration) -> Void
    }

    static let mistakes = [
        Mistake(testDescription: "cleartext") { $0.endpoint = HTTPEndpoint(scheme: .http, host: "localhost") },
        Mistake(testDescription: "trust that is no PEM") { $0.extraTrustPEM = "no certificate" },
        Mistake(testDescription: "key that is no PEM") {
            $0.clientCertificate = .init(chainPEM: "no chain", keyPEM: Secret("PLANTED"))
        },
        Mistake(testDescription: "https proxy") { $0.proxy = HTTPEndpoint(host: "proxy.example") },
        Mistake(testDescription: "no connections") { $0.maximumConnections = 0 },
        Mistake(testDescription: "no time") { $0.requestTimeout = .zero },
    ]

    private var transport: NIOTransport {
        NIOTransport(logger: quiet)
    }

    @Test("A configuration that cannot work is refused when the pool is made", arguments: mistakes)
    func refused(_ mistake: Mistake) {
        var configuration = HTTPPoolConfiguration(endpoint: HTTPEndpoint(host: "localhost"), version: .http2)
        mistake.change(&configuration)
        let error = #expect(throws: HTTPPoolError.self) { try transport.pool(configuration) }
        #expect(error?.description.contains("PLANTED") == false)
    }

    @Test("A client certificate that does not belong to its key is refused, and the key is not shown")
    func wrongKey() throws {
        let first = try TestAuthority.shared.identity(isClient: true)
        let second = try TestAuthority.shared.identity(isClient: true)
        var configuration = HTTPPoolConfiguration(endpoint: HTTPEndpoint(host: "localhost"), version: .http2)
        configuration.clientCertificate = .init(chainPEM: first.certificatePEM, keyPEM: Secret(second.keyPEM))
        #expect(throws: HTTPPoolError.self) { try transport.pool(configuration) }
    }

    @Test("Shutting the transport down ends its pools; afterwards it makes none")
    func shutdown() async throws {
        let transport = transport
        let configuration = HTTPPoolConfiguration(
            endpoint: HTTPEndpoint(scheme: .http, host: "127.0.0.1", port: 9),
            version: .http1
        )
        let pool = try transport.pool(configuration)
        await transport.shutdown(grace: .zero)
        #expect(await pool.failure(of: HTTPCall(.get, path: "/"))?.cause == .cancelled)
        #expect(throws: HTTPPoolError.self) { try transport.pool(configuration) }
    }
}
