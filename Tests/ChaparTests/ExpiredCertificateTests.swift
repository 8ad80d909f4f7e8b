import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// The dates of a certificate are no mistake of the file: they stop the one backend, not the gateway and not a reload.
@Suite("A client certificate that has expired", .timeLimit(.minutes(2)), .about("apns"))
struct ExpiredCertificateTests {
    /// Adds a backend with a client certificate to the sandbox's configuration.
    private static func add(_ name: String, issued: Date, to rig: SandboxRig) throws {
        let authority = try SandboxCertificateAuthority(now: issued)
        let identity = try authority.providerIdentity(
            APNsProviderCertificate(topics: ["com.example.courier"]),
            now: issued
        )
        for (text, file) in [(identity.certificatePEM, "\(name).pem"), (identity.privateKeyPEM, "\(name).key")] {
            try Data(text.utf8).write(to: rig.folder.appending(path: file))
        }
        let section =
            "  \(name): { kind: apns, certificate_file: \(name).pem, certificate_key_file: \(name).key, "
            + "topic: com.example.courier, base_url: \"https://127.0.0.1:1\" }\n"
        let text = try String(contentsOfFile: rig.config, encoding: .utf8)
        try text.replacing("backends:\n", with: "backends:\n" + section)
            .write(toFile: rig.config, atomically: true, encoding: .utf8)
    }

    private static func backends(_ gateway: ServedGateway) async throws -> [String: JSONValue] {
        let client = try gateway.client()
        let answer = try await client.get("/v1/backends")
        let all = answer.json["backends"]?.arrayValue ?? []
        await client.close()
        return Dictionary(uniqueKeysWithValues: all.map { ($0["name"]?.stringValue ?? "", $0) })
    }

    @Test("check warns, doctor fails, the gateway starts with the backend parked, sends with the others, and reloads")
    func parked() async throws {
        try await SandboxRig.run { rig in
            // It is made for a year.
            try Self.add("expired", issued: Date() - 400 * 86_400, to: rig)
            let check = try await Program.run(["check", "--config", rig.config])
            #expect(check.status == 0, "\(check.errors)")
            #expect(check.output.contains("backends.expired") && check.output.contains("expired on"))
            let json = try JSONValue(
                parsing: Array(try await Program.run(["check", "--config", rig.config, "--json"]).output.utf8)
            )
            #expect(json["ok"] == true && json["issues"] == [])
            #expect(json["warnings"]?.arrayValue?.first?["path"] == "backends.expired")
            let doctor = try await Program.run(["doctor", "--config", rig.config, "--timeout", "5"])
            #expect(doctor.status == 1 && doctor.output.contains("expired on"), "\(doctor.output)")

            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            try await Program.wait("the parking") {
                try await Self.backends(gateway)["expired"]?["worker"]?["parked"] == true ? true : nil
            }
            let expired = try await Self.backends(gateway)["expired"]
            #expect(expired?["worker"]?["pause_reason"] == "certificate_expired")
            #expect(expired?["health"]?["status"] == "down")
            #expect(expired?["health"]?["detail"]?.stringValue?.contains("Renew it") == true)
            let sent = try await Program.run(
                ["send", "--to", "ios-apns:\(SandboxRig.token(1))", "hi", "--backend", "ios", "--url", gateway.url]
            )
            #expect(sent.status == 0, "\(sent.output) \(sent.errors)")

            try Self.add("early", issued: Date() + 30 * 86_400, to: rig)
            gateway.child.send(SIGHUP)
            try await Program.wait("reload") { gateway.child.errors.contains("configuration reloaded") ? true : nil }
            try await Program.wait("the parking") {
                try await Self.backends(gateway)["early"]?["worker"]?["parked"] == true ? true : nil
            }
            let early = try await Self.backends(gateway)["early"]
            #expect(early?["worker"]?["pause_reason"] == "certificate_not_yet_valid")
        }
    }
}
