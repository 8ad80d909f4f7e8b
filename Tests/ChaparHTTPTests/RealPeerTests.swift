import Foundation
import ChaparCore
import Testing

@testable import ChaparHTTP

/// The client against HTTP/2 servers that other people wrote.
@Suite("Real peers", .serialized, .timeLimit(.minutes(1)))
struct RealPeerTests {
    static func isInstalled(_ program: String) -> Bool { PeerProcess.find(program) != nil }

    /// A folder with a page, a certificate and its key.
    private func makeFolder() throws -> TestFolder {
        let folder = try TestFolder()
        try folder.write("index.html", "hello")
        let identity = try TestAuthority.shared.identity()
        try folder.write("key.pem", identity.keyPEM)
        try folder.write("certificate.pem", identity.certificatePEM)
        return folder
    }

    /// Fetches the page a thousand times over one connection, then posts to it, which the peer may refuse as it likes.
    private func check(_ peer: PeerProcess) async throws {
        try await withPool(port: peer.port, host: "localhost", { $0.maximumConnections = 1 }) { pool in
            let calls = Array(repeating: HTTPCall(.get, path: "/index.html"), count: 1000)
            let replies = await pool.replies(to: calls)
            #expect(replies.failures == [])
            #expect(replies.statuses.filter { $0 == 200 }.count == 1000)
            let last = try #require(try replies.all[999]?.result.get())
            #expect(last.body == Array("hello".utf8))
            let posts = await pool.replies(
                to: .posts(300, bytes: 4000).map { call in
                    var call = call
                    call.path = "/index.html"
                    return call
                }
            )
            #expect(posts.failures == [])
            #expect(posts.all.count == 300)
        }
    }

    @Test("nghttpd answers on one connection", .enabled(if: isInstalled("nghttpd")))
    func nghttpd() async throws {
        let folder = try makeFolder()
        let peer = try await PeerProcess.start("nghttpd", in: folder) { port in
            ["--htdocs", folder.url.path, "\(port)", "key.pem", "certificate.pem"]
        }
        defer { peer.stop() }
        try await check(peer)
    }

    @Test(
        "nginx answers, and retires the connection after its own number of requests",
        .enabled(if: isInstalled("nginx"))
    )
    func nginx() async throws {
        let folder = try makeFolder()
        let peer = try await PeerProcess.start("nginx", in: folder) { port in
            let path = folder.url.path
            try folder.write(
                "nginx.conf",
                """
                daemon off; master_process off; worker_processes 1; pid \(path)/nginx.pid; error_log \(path)/error.log;
                events { worker_connections 64; }
                http {
                  access_log off; client_body_temp_path \(path)/body; proxy_temp_path \(path)/proxy;
                  fastcgi_temp_path \(path)/fastcgi; uwsgi_temp_path \(path)/uwsgi; scgi_temp_path \(path)/scgi;
                  server {
                    listen 127.0.0.1:\(port) ssl http2; server_name localhost; root \(path); keepalive_requests 400;
                    ssl_certificate \(path)/certificate.pem; ssl_certificate_key \(path)/key.pem;
                    error_page 405 =200 $uri;
                  }
                }
                """
            )
            return ["-p", path, "-c", "\(path)/nginx.conf", "-e", "\(path)/start.log"]
        }
        defer { peer.stop() }
        try await check(peer)
    }

    @Test("h2o answers on one connection", .enabled(if: isInstalled("h2o")))
    func h2o() async throws {
        let folder = try makeFolder()
        let peer = try await PeerProcess.start("h2o", in: folder) { port in
            let path = folder.url.path
            let configuration = """
                listen: { host: 127.0.0.1, port: \(port), ssl: { certificate-file: \(path)/certificate.pem, key-file: \(path)/key.pem } }
                num-threads: 1
                hosts: { default: { paths: { /: { file.dir: \(path) } } } }
                """
            return ["-c", try folder.write("h2o.conf", configuration + "\n")]
        }
        defer { peer.stop() }
        try await check(peer)
    }
}
