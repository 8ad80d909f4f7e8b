import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

@Suite("chapar init", .timeLimit(.minutes(2)), .about("apns", "chabok"))
struct InitTests {
    /// A folder with a key as Apple gives it.
    private static func withKey(_ body: (URL) async throws -> Void) async throws {
        try await SandboxRig.run { rig in
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            let line = try #require(text.split(separator: "\n").first { $0.contains("key_file:") })
            let path = try #require(line.split(separator: "\"").dropFirst().first.map(String.init))
            let folder = try TestFolder()
            defer { folder.remove() }
            try FileManager.default.copyItem(atPath: path, toPath: folder.url.appending(path: "AuthKey.p8").path)
            try await body(folder.url)
        }
    }

    private static let apple = [
        "--backend", "ios=apns", "--set", "ios.team_id=ABCDE12345", "--set", "ios.key_id=KEY1234567", "--set",
        "ios.key_file=AuthKey.p8", "--set", "ios.topic=com.example.app",
    ]

    @Test("Flags make a file that check finds good, and a key that opens its gateway")
    func flags() async throws {
        try await Self.withKey { folder in
            let made = try await Program.run(
                ["init", "--port", "0", "--key-file", "admin.key"] + Self.apple,
                in: folder
            )
            #expect(made.status == 0, "\(made.errors)")
            let text = try String(contentsOf: folder.appending(path: "chapar.yaml"), encoding: .utf8)
            #expect(text.contains(folder.appending(path: "AuthKey.p8").path), "\(text)")
            #expect(try await Program.run(["check"], in: folder).status == 0)
            for name in ["chapar.yaml", "admin.key"] {
                let file = folder.appending(path: name).path
                let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
                #expect(mode == 0o600, "\(name)")
            }
            let child = try Child(["serve", "--json"], in: folder)
            defer { child.kill() }
            let line = try await Program.wait("listening") { child.output.hasSuffix("\n") ? child.output : nil }
            let url = try #require(try JSONValue(parsing: Array(line.utf8))["url"]?.stringValue)
            let key = ["--url", url, "--key-file", "admin.key"]
            #expect(try await Program.run(["backends"] + key, in: folder).status == 0)
            #expect(try await Program.run(["backends", "--url", url], in: folder).status == 2)
        }
    }

    @Test("A file that exists stays as it is")
    func keeps() async throws {
        try await Self.withKey { folder in
            let file = folder.appending(path: "chapar.yaml")
            try Data("mine".utf8).write(to: file)
            let result = try await Program.run(["init"] + Self.apple, in: folder)
            #expect(result.status == 2 && result.errors.contains("exists"), "\(result.errors)")
            #expect(try Data(contentsOf: file) == Data("mine".utf8))
            let key = try await Program.run(
                ["init", "-c", "other.yaml", "--key-file", "AuthKey.p8"] + Self.apple,
                in: folder
            )
            #expect(key.status == 2)
            #expect(!FileManager.default.fileExists(atPath: folder.appending(path: "other.yaml").path))
        }
    }

    @Test("A gateway without backends says so, gets some from init, and sends after a reload")
    func fills() async throws {
        try await Self.withKey { folder in
            let file = folder.appending(path: "chapar.yaml")
            let text =
                "# of the package\nserver: { port: 0 }\nauth: { keyless: true }\nbackends: {}   # none yet\nlog: { level: info }\n"
            try Data(text.utf8).write(to: file)
            let isRoot = geteuid() == 0
            let access: [FileAttributeKey: Int] =
                isRoot ? [.posixPermissions: 0o640, .groupOwnerAccountID: 4242] : [.posixPermissions: 0o640]
            try FileManager.default.setAttributes(access, ofItemAtPath: file.path)
            #expect(try await Program.run(["check"], in: folder).output.contains("no backends yet"))
            let doctor = try await Program.run(["doctor"], in: folder)
            #expect(doctor.status == 0 && doctor.output.contains("init --config chapar.yaml"), "\(doctor.output)")

            let child = try Child(["serve", "--json"], in: folder)
            defer { child.kill() }
            let line = try await Program.wait("listening") { child.output.hasSuffix("\n") ? child.output : nil }
            let url = try #require(try JSONValue(parsing: Array(line.utf8))["url"]?.stringValue)
            let client = try GatewayClient(try #require(HTTPEndpoint(url: url)), key: nil, connections: 1)
            #expect(child.errors.contains("no backends: every message is refused"))
            let empty = try await client.get("/readyz")
            #expect(empty.status == 503 && empty.json["status"]?.stringValue == "no_backends")
            let message: JSONValue = [
                "to": ["tokens": [["token": "abcdef12", "service": "ios-apns"]]], "content": ["body": "x"],
            ]
            #expect(try await client.post("/v1/notifications", message.bytes, idempotencyKey: "a").status == 422)

            for wrong in [["--port", "9"], ["--host", "::1"], ["--store", "x.db"]] {
                let refused = try await Program.run(["init"] + Self.apple + wrong, in: folder)
                #expect(refused.status == 2 && refused.errors.contains("says itself"), "\(refused.errors)")
            }
            let made = try await Program.run(["init"] + Self.apple, in: folder)
            #expect(made.status == 0 && made.output.contains("reload"), "\(made.errors)")
            let filled = try String(contentsOf: file, encoding: .utf8)
            #expect(
                filled.hasPrefix(
                    "# of the package\nserver: { port: 0 }\nauth: { keyless: true }\nbackends:\n  ios:\n    kind: apns\n"
                ),
                "\(filled)"
            )
            #expect(filled.hasSuffix("\nlog: { level: info }\n"))
            let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
            #expect(attributes[.posixPermissions] as? Int == 0o640)
            if isRoot { #expect(attributes[.groupOwnerAccountID] as? Int == 4242, "the service goes on reading it") }

            child.send(SIGHUP)
            try await Program.wait("the reload") { try await client.get("/readyz").status == 200 ? true : nil }
            #expect(try await client.post("/v1/notifications", message.bytes, idempotencyKey: "b").status == 202)
            await client.close()
            let again = try await Program.run(["init"] + Self.apple, in: folder)
            #expect(again.status == 2 && again.errors.contains("exists"), "what has backends is never replaced")
        }
    }

    @Test("A secret that is typed for a file of others can be read by those who read the file, and a key added")
    func sharedSecret() async throws {
        try await Self.withKey { folder in
            let file = folder.appending(path: "chapar.yaml")
            try Data("backends: {}\n".utf8).write(to: file)
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file.path)
            let made = try await Program.run(
                [
                    "init", "--ask", "--backend", "chabok", "--set", "chabok.app_id=shop", "--set",
                    "chabok.environment=sandbox", "--key-file", "admin.key",
                ],
                input: "a-token-of-the-panel\n",
                in: folder
            )
            #expect(made.status == 0, "\(made.errors)")
            let text = try String(contentsOf: file, encoding: .utf8)
            #expect(text.contains("auth:\n  api_keys:\n") && !text.contains("a-token-of-the-panel"), "\(text)")
            let secret = try #require(
                try FileManager.default.contentsOfDirectory(atPath: folder.path).first { $0.hasSuffix(".secret") }
            )
            let attributes = try FileManager.default.attributesOfItem(
                atPath: folder.appending(path: secret).path
            )
            #expect(attributes[.posixPermissions] as? Int == 0o640, "never for everybody")
            #expect(try await Program.run(["check"], in: folder).status == 0)
        }
    }

    @Test("A missing or wrong setting is named, and nothing is written")
    func missing() async throws {
        try await Self.withKey { folder in
            let missing = try await Program.run(["init", "--backend", "apns"], in: folder)
            #expect(missing.status == 3 && missing.errors.contains("backends.apns.key_file"), "\(missing.errors)")
            let wrong = try await Program.run(["init"] + Self.apple + ["--set", "ios.environment=moon"], in: folder)
            #expect(wrong.status == 3 && wrong.errors.contains("moon"), "\(wrong.errors)")
            for mistake in [
                ["--backend", "apnz"], ["--backend", "apns", "--set", "x=1"], ["--backend", "a b=apns"], [],
            ] {
                #expect(try await Program.run(["init"] + mistake, in: folder).status == 2, "\(mistake)")
            }
            #expect(!FileManager.default.fileExists(atPath: folder.appending(path: "chapar.yaml").path))
        }
    }

    @Test("It asks for what is missing until nothing is; a secret goes to a file of its own")
    func asks() async throws {
        try await Self.withKey { folder in
            let key = folder.appending(path: "AuthKey.p8").path
            // The order of the questions is that of the mistakes, so each answer is found by its question.
            let answers = [
                "team_id": "ABCDE12345", "key_id": "KEY1234567", "key_file": key, "topic": "com.example.app",
                "environment": "sandbox", "app_id": "shop", "access_token": "a-token-of-the-panel",
            ]
            var input = "apns chabok\n"
            var last: Program.Result?
            for _ in 0..<12 {
                let result = try await Program.run(["init", "--ask"], input: input, in: folder)
                last = result
                if result.status == 0 { break }
                let question = result.errors.split(separator: "\n").last { $0.hasSuffix(":") } ?? ""
                let word = try #require(question.split(separator: " ").first.map(String.init), "\(result.errors)")
                let name = try #require(word.split(separator: ".").last.map(String.init))
                input += try #require(answers[name], "\(question)") + "\n"
                let left = try FileManager.default.contentsOfDirectory(atPath: folder.path)
                #expect(left == ["AuthKey.p8"], "an answer that is missing leaves nothing behind")
            }
            #expect(last?.status == 0, "\(last?.errors ?? "")")
            let text = try String(contentsOf: folder.appending(path: "chapar.yaml"), encoding: .utf8)
            #expect(text.contains("${file:") && !text.contains("a-token-of-the-panel"), "\(text)")
            #expect(try await Program.run(["check"], in: folder).status == 0)
        }
    }
}
