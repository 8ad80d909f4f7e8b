import Foundation
import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("The gateway that commands talk to", .timeLimit(.minutes(2)), .about("apns"))
struct GatewayAddressTests {
    @Test("CHAPAR_URL stands for --url, of every kind of command; --url and --config go before it")
    func variable() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let here = ["CHAPAR_URL": gateway.url]
            let put = try await Program.run(
                ["devices", "put", "phone-1", "--user", "ali", "--token", "ios-apns:\(SandboxRig.token(1))"],
                environment: here
            )
            #expect(put.status == 0, "\(put.errors)")
            let sent = try await Program.run(["send", "--user", "ali", "--json", "hello"], environment: here)
            #expect(sent.status == 0, "\(sent.errors)")
            #expect(try JSONValue(parsing: Array(sent.output.utf8))["outcome"] == "sent")
            let backends = try await Program.run(["backends", "--json"], environment: here)
            #expect(backends.output.contains("\"worker\""), "\(backends.output)\(backends.errors)")
            #expect(try await Program.run(["users", "erase", "ali"], environment: here).status == 0)

            let elsewhere = ["CHAPAR_URL": "http://127.0.0.1:1"]
            let to = ["--to", "ios-apns:\(SandboxRig.token(2))", "hello"]
            #expect(try await Program.run(["send"] + to, environment: elsewhere).status == 75)
            let named = try await Program.run(["send", "--url", gateway.url] + to, environment: elsewhere)
            #expect(named.status == 0, "\(named.errors)")
            let direct = try await Program.run(["send", "--config", rig.config] + to, environment: elsewhere)
            #expect(direct.status == 0, "\(direct.errors)")
        }
    }

    @Test("A wrong CHAPAR_URL is named, and bench does not use it")
    func wrong() async throws {
        let result = try await Program.run(["devices", "list"], environment: ["CHAPAR_URL": "localhost"])
        #expect(result.status == 2 && result.errors.contains("CHAPAR_URL"), "\(result.errors)")
        let bench = try await Program.run(
            ["bench", "--messages", "10", "--json"],
            environment: ["CHAPAR_URL": "http://127.0.0.1:1"]
        )
        #expect(bench.status == 0 && bench.output.contains("in process"), "\(bench.errors)")
    }

    @Test("serve --json says where it listens")
    func listening() async throws {
        try await SandboxRig.run { rig in
            let child = try Child(["serve", "--config", rig.config, "--json"])
            defer { child.kill() }
            let line = try await Program.wait("listening") { child.output.hasSuffix("\n") ? child.output : nil }
            let url = try #require(try JSONValue(parsing: Array(line.utf8))["url"]?.stringValue)
            #expect(try await Program.run(["backends", "--url", url]).status == 0)
        }
    }

    @Test(
        "A password in an address that is none is not shown",
        arguments: [
            "user:SECRET@127.0.0.1:9", "//user:SECRET@h", "http:/user:SECRET@h", "http://user:SEC RET@h",
            "https://u:p@h/?token=SECRET", "https://h/?token=SECRET",
        ]
    )
    func secretOfAddress(address: String) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let config = try folder.write(
            "backends: { ios: { kind: apns, proxy: \"\(address)\", base_url: \"\(address)\" } }\n",
            to: "chapar.yaml"
        )
        for arguments in [
            ["check", "-c", config], ["config", "print", "-c", config], ["doctor", "-c", config],
            ["serve", "-c", config],
            ["devices", "list", "--url", address],
        ] {
            let result = try await Program.run(arguments)
            let shown = result.output + result.errors
            #expect(result.status != 0 && shown.contains("is not an address"), "\(arguments): \(shown)")
            #expect(!shown.contains("SEC") && !shown.contains("RET@"), "\(arguments): \(shown)")
        }
    }

    @Test("A proxy's password is not in the log of a reload, and the gateway goes on as it was")
    func secretAtReload() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let child = gateway.child
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            // A proxy with a password is an address; these are none.
            let addresses = [
                "user:SECRET@proxy.example:3128", "//user:SECRET@proxy.example", "http:/user:SECRET@proxy.example",
            ]
            for (number, address) in addresses.enumerated() {
                let changed = text.replacing(
                    "    kind: apns\n",
                    with: "    kind: apns\n    proxy: \"\(address)\"\n",
                    maxReplacements: 1
                )
                try #require(changed != text)
                try changed.write(toFile: rig.config, atomically: true, encoding: .utf8)
                child.send(SIGHUP)
                try await Program.wait("the end of reload \(number)") {
                    child.errors.components(separatedBy: "nothing was reloaded").count > number + 1 ? true : nil
                }
                let mistakes = child.errors.components(separatedBy: "is not the address of an HTTP proxy").count - 1
                #expect(mistakes == number + 1, "\(address): \(child.errors)")
            }
            #expect(!child.errors.contains("SEC") && !child.errors.contains("RET@"), "\(child.errors)")
            let token = "ios-apns:\(SandboxRig.token(1))"
            let sent = try await Program.run(["send", "--url", gateway.url, "--to", token, "hello"])
            #expect(sent.status == 0 && !child.errors.contains("SECRET"), "\(sent)")
        }
    }
}
