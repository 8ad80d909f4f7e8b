import Crypto
import Foundation
import NIOSSL
import ChaparCore
import ChaparSandbox
import Testing

@Suite("The sandbox as a whole", .timeLimit(.minutes(1)))
struct SandboxTests {
    @Test("It writes an authority, a secret key and a configuration file that name each other")
    func files() async throws {
        try await Sandbox.run { sandbox in
            try await Shell.withDirectory { parent in
                let directory = parent.appendingPathComponent("new")
                let description = try sandbox.writeFiles(to: directory, gatewayPort: 9090)
                #expect(
                    description.files.map(\.lastPathComponent) == [
                        "ca.pem", "AuthKey_CHAPARKEY1.p8", "firebase.json", "altcraft.pem", "webpush-vapid.pem",
                        "webpush-subscription.json", "Versions-EN.plist", "Versions-FA.json", "chapar.yaml",
                    ]
                )
                let ca = try String(contentsOf: description.files[0], encoding: .utf8)
                #expect(try NIOSSLCertificate.fromPEMBytes(Array(ca.utf8)).count == 1)
                #expect(try NIOSSLCertificate.fromPEMBytes(Array((ca + ca).utf8)).count == 2, "files put together")
                let texts = try description.files.map { try String(contentsOf: $0, encoding: .utf8) }
                let documents = texts.filter { $0.hasPrefix("-----BEGIN ") }
                #expect(documents.count == 4)
                #expect(documents.allSatisfy { $0.hasSuffix("-----\n") }, "a PEM document ends with a line break")
                let key = try String(contentsOf: description.files[1], encoding: .utf8)
                #expect(key.hasPrefix("-----BEGIN PRIVATE KEY-----"))
                #expect(
                    try P256.Signing.PrivateKey(pemRepresentation: key).publicKey.pemRepresentation
                        == sandbox.apns.key.publicKeyPEM
                )
                let mode = try FileManager.default.attributesOfItem(atPath: description.files[1].path)[
                    .posixPermissions
                ]
                #expect(mode as? Int == 0o600)
                let yaml = try String(contentsOf: description.configurationFile, encoding: .utf8)
                for line in [
                    "  port: 9090", "    kind: apns", "    team_id: \"CHAPARTEAM\"", "    key_id: \"CHAPARKEY1\"",
                    "    key_file: \"\(description.files[1].path)\"", "    ca_file: \"\(description.files[0].path)\"",
                    "    base_url: \"\(sandbox.apns.url(.production))\"", "    topic: \"\(Sandbox.topic)\"",
                ] {
                    #expect(yaml.contains(line + "\n"))
                }
                _ = try sandbox.writeFiles(to: directory)
                #expect(description.description.contains("\(sandbox.apns.seed)"), "the seed is printed")
            }
        }
    }

    @Test("Of platforms and sections that a gateway does not know nothing is written")
    func knownOnly() async throws {
        try await Sandbox.run { sandbox in
            try await Shell.withDirectory { directory in
                let kinds: Set<BackendKind> = ["hms", "onesignal", "idpush", "mine"]
                let whole = try sandbox.writeFiles(to: directory, kinds: kinds, sections: [])
                #expect(whole.kinds == ["hms", "onesignal", "idpush"])
                let fewer = kinds.subtracting(["onesignal"])
                let description = try sandbox.writeFiles(to: directory, kinds: fewer, sections: [])
                #expect(description.kinds == ["hms"], "IDPush sends through OneSignal")
                #expect(description.files.map(\.lastPathComponent) == ["ca.pem", "chapar.yaml"])
                let yaml = try String(contentsOf: description.configurationFile, encoding: .utf8)
                let found = yaml.split(separator: "\n").filter { $0.hasPrefix("    kind: ") }
                #expect(found == ["    kind: hms"] && !yaml.contains("release_notes") && !yaml.contains("onesignal"))
            }
        }
    }

    @Test("A folder that cannot be written is named, with the system's reason")
    func unwritable() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("chapar-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data().write(to: file)
        try await Sandbox.run { sandbox in
            for (folder, reason) in [(file, "File exists"), (file.appending(path: "x"), "Not a directory")] {
                let error = #expect(throws: SandboxError.self) { try sandbox.writeFiles(to: folder) }
                let words = "cannot write files into \(folder.path): \(reason). Name a folder"
                #expect(error?.description.hasPrefix(words) == true, "\(String(describing: error))")
            }
        }
    }

    @Test("A port that is taken is an error that names it, and nothing keeps listening")
    func takenPort() async throws {
        try await APNsSimulator.run { first in
            var configuration = APNsSimulatorConfiguration()
            configuration.ports[.productionManagement] = first.port(.production)
            let second = try APNsSimulator(configuration)
            let error = await #expect(throws: SandboxError.self) { try await second.start() }
            #expect(error?.description.contains("\(first.port(.production))") == true)
            #expect(second.port(.production) == 0)
            await second.shutdown()
        }
    }

    @Test("Starting twice is an error, and does no harm")
    func startedTwice() async throws {
        try await APNsSimulator.run { simulator in
            await #expect(throws: SandboxError.self) { try await simulator.start() }
            let client = try await RawClient.connect(to: simulator)
            #expect(await client.first { if case .settings = $0 { true } else { nil } } == true)
            await client.close()
        }
    }

    @Test("The same seed gives the same ids")
    func seed() async throws {
        var ids: [[String]] = []
        for _ in 0..<2 {
            var configuration = APNsSimulatorConfiguration.demonstration
            configuration.seed = 42
            try await APNsSimulator.run(configuration) { simulator in
                let client = try await RawClient.connect(to: simulator)
                let jwt = try simulator.key.providerToken(issuedAt: Date())
                for stream: Int32 in [1, 3] {
                    client.push(stream, to: "aa", jwt: jwt)
                    #expect(await client.answer(stream)?.status == "200")
                }
                ids.append(simulator.inbox.map(\.apnsID))
                #expect(simulator.seed == 42)
                await client.close()
            }
        }
        #expect(ids[0] == ids[1])
        #expect(Set(ids[0]).count == 2)
    }

    @Test("Waiting for counters ends with the condition or with the deadline")
    func waiting() async throws {
        try await APNsSimulator.run { simulator in
            #expect(await simulator.wait { $0.accepted == 0 })
            #expect(await !simulator.wait(atMost: .milliseconds(5)) { $0.accepted == 1 })
        }
    }
}
