import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import Testing

@Suite("Chapar's own client against the simulator", .timeLimit(.minutes(1)))
struct OwnClientTests {
    @Test("A thousand calls at connect time wait for the first stream, and none is refused")
    func queuesAtConnect() async throws {
        try await APNsSimulator.run(.demonstration) { simulator in
            let endpoint = try #require(HTTPEndpoint(url: simulator.url(.production)))
            var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http2)
            configuration.extraTrustPEM = simulator.authority.certificatePEM
            configuration.maximumConnections = 1
            let transport = NIOTransport(logger: Logger(label: "test"))
            let pool = try transport.pool(configuration)
            let jwt = try simulator.key.providerToken(issuedAt: Date())
            let template = HTTPCallTemplate(
                method: "POST",
                headers: [HTTPHeader("authorization", "bearer \(jwt)"), HTTPHeader("apns-topic", Sandbox.topic)]
            )
            let calls = (0..<1000).map { number in
                HTTPCall(template, path: "/3/device/a1\(1000 + number)", body: Array(#"{"n":\#(number)}"#.utf8))
            }
            await pool.send(calls) { _ in }
            #expect(simulator.counters.accepted == 1000)
            #expect(simulator.counters.streamsRefused == 0)
            #expect(simulator.counters.duplicateContents == 0)
            #expect(simulator.counters.connectionsOpened == 1)
            await transport.shutdown(grace: .seconds(1))
        }
    }
}
