import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// The gateway's own TLS and its socket in the file system, with a client that is not ours.
@Suite("The gateway's listener", .about("apns"), .timeLimit(.minutes(2)))
struct ServerTLSTests {
    /// Returns the output of curl, and its exit code.
    private func curl(_ arguments: [String]) async throws -> Program.Result {
        let executable = URL(fileURLWithPath: "/usr/bin/curl")
        return try await Child(["-sS", "--max-time", "20"] + arguments, executable: executable).end()
    }

    /// Writes a file into the rig's folder and gives its path.
    private func write(_ text: String, _ name: String, _ rig: SandboxRig) throws -> String {
        let path = rig.folder.appending(path: name).path
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    /// Puts further keys into the section `server`.
    private func configure(_ keys: String, _ rig: SandboxRig) throws {
        let text = try String(contentsOfFile: rig.config, encoding: .utf8)
        try text.replacing("server:\n", with: "server:\n\(keys)").write(
            toFile: rig.config,
            atomically: true,
            encoding: .utf8
        )
    }

    @Test("speaks TLS 1.2 or newer with its certificate, and with another one after a reload")
    func tls() async throws {
        try await SandboxRig.run { rig in
            let (old, new) = (try SandboxCertificateAuthority(), try SandboxCertificateAuthority())
            let oldTrust = try write(old.certificatePEM, "old-ca.pem", rig)
            let newTrust = try write(new.certificatePEM, "new-ca.pem", rig)
            let first = try old.serverIdentity()
            _ = try write(first.certificatePEM, "server.pem", rig)
            _ = try write(first.privateKeyPEM, "server.key", rig)
            try configure("  tls: { certificate_file: server.pem, key_file: server.key }\n", rig)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let url = "https://127.0.0.1:\(gateway.port)/healthz"
            #expect(gateway.child.errors.contains("https://127.0.0.1"))
            #expect(try await curl(["--cacert", oldTrust, url]).output.hasPrefix(#"{"status":"ok","#))
            #expect(try await curl(["--cacert", oldTrust, "--tls-max", "1.2", url]).status == 0)
            #expect(
                try await curl(["--cacert", oldTrust, "--tls-max", "1.1", "--ciphers", "ALL:@SECLEVEL=0", url]).status
                    != 0
            )
            #expect(try await curl(["http://127.0.0.1:\(gateway.port)/healthz"]).status != 0)

            let second = try new.serverIdentity()
            _ = try write(second.certificatePEM, "server.pem", rig)
            _ = try write(second.privateKeyPEM, "server.key", rig)
            gateway.child.send(SIGHUP)
            try await Program.wait("reload") { gateway.child.errors.contains("configuration reloaded") ? true : nil }
            #expect(try await curl(["--cacert", newTrust, url]).status == 0)
            #expect(try await curl(["--cacert", oldTrust, url]).status != 0)

            // As secret managers hold them; what is no key is named.
            _ = try write(Data(second.certificatePEM.utf8).base64EncodedString(), "server.pem", rig)
            _ = try write("'\(second.privateKeyPEM.replacing("\n", with: "\\n"))'", "server.key", rig)
            #expect(try await Program.run(["check", "--config", rig.config]).status == 0)
            _ = try write(second.certificatePEM, "server.key", rig)
            let swapped = try await Program.run(["check", "--config", rig.config])
            #expect((swapped.output + swapped.errors).contains("server.tls.key_file: is a certificate, not a key"))

            // A key that is another certificate's: nothing is reloaded.
            _ = try write(first.privateKeyPEM, "server.key", rig)
            gateway.child.send(SIGHUP)
            try await Program.wait("refusal") { gateway.child.errors.contains("nothing was reloaded") ? true : nil }
            #expect(try await curl(["--cacert", newTrust, url]).status == 0)
            let check = try await Program.run(["check", "--config", rig.config])
            let said = check.output + check.errors
            #expect(check.status == 3 && said.contains("server.tls.key_file: is the key of another certificate"))
            #expect(said.contains("server.key does not belong to server.pem"), "\(said)")
        }
    }

    @Test("tells when its certificate ends, which the doctor warns of for 30 days")
    func expiry() async throws {
        try await SandboxRig.run { rig in
            let authority = try SandboxCertificateAuthority()
            let trust = try write(authority.certificatePEM, "gateway-ca.pem", rig)
            try configure("  tls: { certificate_file: server.pem, key_file: server.key }\n", rig)
            // It is made for 30 days: 31 whole ones are left of the first, which is not valid yet, 29 of the second.
            for (later, verdict) in [(2 * 86_400, "ok"), (0, "warning")] as [(TimeInterval, String)] {
                let identity = try authority.serverIdentity(now: Date() - 60 + later)
                _ = try write(identity.certificatePEM, "server.pem", rig)
                _ = try write(identity.privateKeyPEM, "server.key", rig)
                let doctor = try await Program.run(["doctor", "--config", rig.config, "--json"])
                let findings = doctor.output.split(separator: "\n").compactMap {
                    try? JSONValue(parsing: Array($0.utf8))
                }
                let own = findings.first { $0["subject"] == "host" && $0["check"] == "certificate" }
                #expect(own?["verdict"] == .string(verdict), "\(doctor.output)")
                #expect((own?["fix"]?.stringValue != nil) == (verdict == "warning"))
            }
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let answer = try await curl(["--cacert", trust, "https://127.0.0.1:\(gateway.port)/v1/backends"])
            let json = try JSONValue(parsing: Array(answer.output.utf8))
            let end = try #require(json["credential_expiries"]?["server_certificate"]?.stringValue)
            let expected = RFC3339.string(Date() + 30 * 86_400 - 60)
            #expect(end.prefix(10) == expected.prefix(10))
        }
    }

    @Test("asks clients for a certificate of an authority that it names; one of another authority opens nothing")
    func clientCertificates() async throws {
        try await SandboxRig.run { rig in
            let authority = try SandboxCertificateAuthority()
            let trust = try write(authority.certificatePEM, "gateway-ca.pem", rig)
            let server = try authority.serverIdentity()
            _ = try write(server.certificatePEM, "server.pem", rig)
            _ = try write(server.privateKeyPEM, "server.key", rig)
            let client = try authority.providerIdentity(APNsProviderCertificate(topics: ["com.example.client"]))
            let certificate = try write(client.certificatePEM, "client.pem", rig)
            let key = try write(client.privateKeyPEM, "client.key", rig)
            try configure(
                "  tls: { certificate_file: server.pem, key_file: server.key, client_ca_file: gateway-ca.pem }\n",
                rig
            )
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let url = "https://127.0.0.1:\(gateway.port)/healthz"
            #expect(try await curl(["--cacert", trust, url]).status != 0)
            #expect(try await curl(["--cacert", trust, "--cert", certificate, "--key", key, url]).status == 0)
            let stranger = try SandboxCertificateAuthority().providerIdentity(
                APNsProviderCertificate(topics: ["com.example.client"])
            )
            let other = try write(stranger.certificatePEM, "other.pem", rig)
            let otherKey = try write(stranger.privateKeyPEM, "other.key", rig)
            let refused = try await curl(["--cacert", trust, "--cert", other, "--key", otherKey, url])
            #expect(refused.status != 0 && refused.output.isEmpty, "\(refused)")
        }
    }

    @Test("is a socket of the file system for its group, in the place of an old one")
    func unixSocket() async throws {
        try await SandboxRig.run { rig in
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
                .filter { !$0.hasPrefix("  host:") && !$0.hasPrefix("  port:") }.joined(separator: "\n")
            try lines.write(toFile: rig.config, atomically: true, encoding: .utf8)
            try configure("  unix_socket: api.sock\n", rig)
            let socket = rig.folder.appending(path: "api.sock").path
            for _ in 0..<2 {
                let child = try Child(["serve", "--config", rig.config])
                defer { child.kill() }
                try await Program.wait("listening") { child.errors.contains("unix_socket=") ? true : nil }
                let mode = try FileManager.default.attributesOfItem(atPath: socket)[.posixPermissions] as? Int
                #expect(mode == 0o660)
                let answer = try await curl(["--unix-socket", socket, "http://localhost/v1/backends"])
                #expect(answer.output.hasPrefix(#"{"backends":["#), "\(answer)")
                child.kill()  // Leaves the file.
                _ = try await child.end()
            }
        }
    }
}
