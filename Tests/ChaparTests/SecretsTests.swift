import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@Suite("Planted secrets", .timeLimit(.minutes(2)), .about("apns"))
struct SecretsTests {
    @Test("No secret comes out of any command at the most talkative level")
    func nothingLeaks() async throws {
        try await SandboxRig.run { rig in
            let made = try await Program.run(["keys", "create", "--name", "shop", "--json"])
            let json = try JSONValue(parsing: Array(made.output.utf8))
            let key = try #require(json["key"]?.stringValue)
            let line = try #require(json["line"]?.stringValue)
            let keyFile = rig.folder.appending(path: "api-key").path
            try key.write(toFile: keyFile, atomically: true, encoding: .utf8)
            var config = try String(contentsOfFile: rig.config, encoding: .utf8)
            let pem = rig.sandbox.apns.key.pem
            let pemFile = try #require(config.split(separator: "\n").first { $0.contains("key_file:") })
            config = config.replacingOccurrences(of: pemFile, with: "    key: \"${PLANTED_PEM}\"")
            config.replace(/(?m)^auth:.*\n(?: .*\n)*/, with: "")
            config += "log: { level: trace, format: json }\nauth: { api_keys: [ \(line.dropFirst(2)) ] }\n"
            try config.write(toFile: rig.config, atomically: true, encoding: .utf8)
            let broken = rig.folder.appending(path: "broken.yaml").path
            let faulty = config.replacingOccurrences(of: "kind: apns", with: "kind: \"${PLANTED_PEM}\"") + "bogus: 1\n"
            try faulty.write(toFile: broken, atomically: true, encoding: .utf8)
            let variables = ["PLANTED_PEM": pem, "CHAPAR_KEY": key]
            let to = "ios-apns:\(SandboxRig.token(1))"

            let gateway = try await rig.serve(environment: variables)
            defer { gateway.child.kill() }
            var texts: [String] = []
            for arguments in [
                ["check", "-c", rig.config], ["check", "-c", broken], ["check", "-c", broken, "--json"],
                ["config", "print", "-c", rig.config], ["config", "print", "-c", rig.config, "--json"],
                ["backends", "-c", rig.config, "--json"], ["keys", "list", "-c", rig.config, "--json"],
                ["doctor", "-c", rig.config], ["send", "-c", rig.config, "--to", to, "hi"],
                ["send", "-c", rig.config, "--to", to, "hi", "--dry-run"],
                ["send", "--url", gateway.url, "--to", to, "hi"],
                ["send", "--url", gateway.url, "--key-file", keyFile, "--to", to, "hi", "--json"],
                ["send", "--url", gateway.url, "--key-file", rig.config, "--to", to, "hi"],
            ] {
                let result = try await Program.run(arguments, environment: variables)
                #expect(result.status != 2 || arguments.contains("--key-file"), "\(arguments) \(result.errors)")
                texts.append(result.output + result.errors)
            }
            gateway.child.send(SIGHUP)
            try await Program.wait("the reload") { gateway.child.errors.contains("reloaded") ? true : nil }
            gateway.child.send(SIGTERM)
            let served = try await gateway.child.end()
            #expect(served.status == 0)
            #expect(served.errors.contains("\"level\":\"debug\"") || served.errors.contains("\"level\":\"trace\""))
            texts.append(served.output + served.errors)

            let body = pem.split(separator: "\n").filter { !$0.hasPrefix("-----") }.map(String.init)
            #expect(!body.isEmpty)
            for text in texts {
                #expect(!text.contains(key), "an API key")
                #expect(!text.contains("eyJ"), "a provider token")
                for piece in body { #expect(!text.contains(piece.prefix(40)), "a signing key") }
            }
        }
    }
}
