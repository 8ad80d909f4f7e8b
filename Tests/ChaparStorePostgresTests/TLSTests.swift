import Foundation
import ChaparSandbox
import Testing

@testable import ChaparStorePostgres

/// A server that takes encrypted connections.
@Suite("TLS to PostgreSQL", .serialized, .timeLimit(.minutes(1)))
struct TLSTests {
    /// This machine in a spelling that no check takes for it: like the name of another machine that happens to be this
    /// one.
    private static let otherName = "0x7f000001"

    /// Runs `body` with the port of a server that has a certificate, and the file of the authority that signed it.
    private func withServer(
        _ certificate: SandboxCertificateAuthority.ServerCertificate,
        _ body: (_ port: Int, _ authority: String) async throws -> Void
    ) async throws {
        let files = FileManager.default
        let folder = files.temporaryDirectory.appending(path: "chapar-tls-\(UUID().uuidString)").path
        try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? files.removeItem(atPath: folder) }
        let authority = try SandboxCertificateAuthority()
        let identity = try authority.serverIdentity(certificate)
        for (name, text) in [
            ("ca", authority.certificatePEM), ("other", try SandboxCertificateAuthority().certificatePEM),
            ("server", identity.certificatePEM), ("key", identity.privateKeyPEM),
        ] {
            try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/\(name).pem"))
        }
        // The server wants a key that no other user can read; it does not run as root.
        try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: "\(folder)/key.pem")
        if geteuid() == 0 {
            try files.setAttributes([.ownerAccountName: "postgres"], ofItemAtPath: "\(folder)/key.pem")
        }
        let port = try TestServer.freePort()
        let server = TestServer([
            "port=\(port)", "ssl=on", "ssl_cert_file=\(folder)/server.pem", "ssl_key_file=\(folder)/key.pem",
        ])
        _ = try await server.folder()
        do {
            try await body(port, "\(folder)/ca.pem")
        } catch {
            try await server.end()
            throw error
        }
        try await server.end()
    }

    /// Opens a store: whether its connections are encrypted, or why it cannot be opened.
    private func open(_ host: String, _ port: Int, _ keywords: String) async throws -> String {
        let options = try PostgresOptions(url: "postgres://chapar@\(host):\(port)/postgres?\(keywords)")
        do {
            let store = try await PostgresStore.open(options)
            let isEncrypted = try await store.count("SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            await store.close()
            return isEncrypted == 1 ? "encrypted" : "plain"
        } catch {
            return "\(error)"
        }
    }

    @Test(
        "A server is used whose certificate an authority of one's own has signed, and refused where another one is named"
    )
    func authorities() async throws {
        try await withServer(.valid) { port, authority in
            let checked = "sslmode=verify-full&sslrootcert=\(authority)"
            #expect(try await open("localhost", port, checked) == "encrypted")
            #expect(try await open(Self.otherName, port, "sslrootcert=\(authority)") == "encrypted", "by default")
            let other = authority.replacing("ca.pem", with: "other.pem")
            let missing = authority.replacing("ca.pem", with: "none.pem")
            for (host, keywords) in [
                ("localhost", "sslmode=verify-full&sslrootcert=\(other)"), ("localhost", "sslmode=verify-full"),
                ("localhost", "sslmode=verify-ca&sslrootcert=\(other)"),
                (Self.otherName, "sslrootcert=\(other)"), (Self.otherName, ""),
            ] {
                let sentence = try await open(host, port, keywords)
                #expect(sentence.contains("SSL error: "), "\(host) \(keywords): \(sentence)")
                #expect(sentence.contains("?sslrootcert= in store.url"), "\(host) \(keywords): \(sentence)")
            }
            let sentence = try await open("localhost", port, "sslmode=verify-full&sslrootcert=\(missing)")
            #expect(sentence.contains("none.pem\" does not exist") && sentence.contains("provide the file"))
        }
    }

    @Test("A server with a certificate of another name is refused")
    func otherHost() async throws {
        try await withServer(.wrongHost) { port, authority in
            for (host, keywords) in [
                ("localhost", "sslmode=verify-full&"), ("127.0.0.1", "sslmode=verify-full&"), (Self.otherName, ""),
            ] {
                let sentence = try await open(host, port, "\(keywords)sslrootcert=\(authority)")
                #expect(
                    sentence.contains("\"elsewhere.example\"")
                        && sentence.contains("does not match host name \"\(host)\""),
                    "\(sentence)"
                )
                #expect(sentence.contains("write a name into store.url that the server's certificate has"))
            }
            #expect(try await open("localhost", port, "sslmode=verify-ca&sslrootcert=\(authority)") == "encrypted")
        }
    }

    @Test("A server whose certificate's time is over is refused")
    func expired() async throws {
        try await withServer(.expired) { port, authority in
            let sentence = try await open("localhost", port, "sslmode=verify-full&sslrootcert=\(authority)")
            #expect(sentence.contains("certificate verify failed") && sentence.contains("renew the certificate"))
        }
    }

    @Test("A host that is not called this machine is checked by default: a server without TLS is refused")
    func withoutTLS() async throws {
        let port = try TestServer.freePort()
        let server = TestServer(["port=\(port)"])
        _ = try await server.folder()
        let options = try PostgresOptions(url: "postgres://chapar@\(Self.otherName):\(port)/postgres")
        #expect(options.parameters["sslmode"] == "verify-full")
        let sentence = try await open(Self.otherName, port, "")
        #expect(sentence.contains("server does not support SSL"), "\(sentence)")
        #expect(sentence.contains("set ssl = on at the server"), "\(sentence)")
        #expect(try await open(Self.otherName, port, "sslmode=disable") == "plain")
        #expect(try await open("127.0.0.1", port, "") == "plain")
        try await server.end()
    }
}
