import Foundation
import PushCore
import Testing

@testable import PushHTTP

/// The client against HTTP/2 servers that other people wrote.
@Suite("Real peers", .timeLimit(.minutes(1)))
struct RealPeerTests {
    @Test("nghttpd answers a thousand calls on one connection", .enabled(if: PeerProcess.find("nghttpd") != nil))
    func nghttpd() async throws {
        let folder = try TestFolder()
        try folder.write("index.html", "hello")
        let identity = try TestAuthority.shared.identity()
        let key = try folder.write("key.pem", identity.keyPEM)
        let certificate = try folder.write("certificate.pem", identity.certificatePEM)
        let peer = try await PeerProcess.start("nghttpd", in: folder) { port in
            ["--htdocs", folder.url.path, "\(port)", key, certificate]
        }
        defer { peer.stop() }
        try await withPool(port: peer.port, { $0.maximumConnections = 1 }) { pool in
            let calls = Array(repeating: HTTPCall(.get, path: "/index.html"), count: 1000)
            let replies = await pool.replies(to: calls)
            #expect(replies.failures == [])
            #expect(replies.statuses.filter { $0 == 200 }.count == 1000)
            #expect(replies.all[999].flatMap { try? $0.result.get().body } == Array("hello".utf8))
            #expect(pool.status.connectionsOpened == 1)
        }
    }
}
