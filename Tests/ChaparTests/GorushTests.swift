import Foundation
import ChaparCore
import Testing

/// `chapar init --from` takes a configuration of gorush, and names what it cannot convert.
@Suite("From gorush", .timeLimit(.minutes(2)), .about("gorush", "apns", "fcm", "hms"))
struct GorushTests {
    /// A configuration as gorush's own example writes it, with keys of the sandbox.
    private static let sample = """
        core:
          address: ""
          port: "8088"
          shutdown_timeout: 40
          worker_num: 0
          sync: true
          feedback_hook_url: "https://shop.example.com/hook"
          feedback_header:
            - x-gorush-token:4e989115e09680f44a645519fed6a976
          http_proxy: "http://127.0.0.1:3128"
        grpc:
          enabled: true
          port: 9000
        api:
          push_uri: "/api/push"
        android:
          enabled: true
          key_path: "firebase.json"
        huawei:
          enabled: true
          appsecret: "planted-secret"
          appid: "100200300"
        queue:
          engine: "redis"
          redis: { addr: "127.0.0.1:6379", password: "planted-queue" }
        ios:
          enabled: true
          key_path: "AuthKey.p8"
          production: true
          key_id: "KEY1234567"
          team_id: "ABCDE12345"
          max_retry: 5
          max_rety: 5
        log: { format: json, access_log: stdout, hide_token: true }
        """

    /// Runs `body` with a folder that has the file and the keys that it names.
    private static func with(_ text: String, _ body: (URL) async throws -> Void) async throws {
        try await SandboxRig.run { rig in
            try rig.writeSampleFiles()
            try Data(text.utf8).write(to: rig.folder.appending(path: "gorush.yml"))
            try FileManager.default.removeItem(atPath: rig.config)
            try await body(rig.folder)
        }
    }

    private static let convert = ["init", "--from", "gorush.yml", "-c", "new.yaml"]

    @Test("A file becomes a configuration that check finds good, and what has no counterpart is named with its line")
    func converts() async throws {
        try await Self.with(Self.sample) { folder in
            let topic = ["--set", "ios.topic=com.example.app"]
            let made = try await Program.run(Self.convert + topic, in: folder)
            #expect(made.status == 0, "\(made.errors)")
            let text = try String(contentsOf: folder.appending(path: "new.yaml"), encoding: .utf8)
            #expect(text.contains("host: 127.0.0.1, port: 8088") || text.contains("host: \"127.0.0.1\", port: 8088"))
            #expect(text.contains("queue: { drain: 40 }") && text.contains("format: json"), "\(text)")
            let first = try #require(text.firstRange(of: "  ios:\n")),
                second = try #require(text.firstRange(of: "  ios-dev:\n"))
            #expect(first.lowerBound < second.lowerBound, "the production host goes first, as in the file")
            #expect(text.matches(of: /topic: "?com\.example\.app"?/).count == 2, "\(text)")
            #expect(
                text.contains("kind: fcm") && text.contains("kind: hms") && text.contains("environment: development")
            )
            #expect(!text.contains("planted") && !made.errors.contains("planted") && !made.output.contains("planted"))
            for (line, key) in [
                (2, "core.address"), (7, "core.feedback_hook_url"), (12, "grpc.enabled"),
                (24, "queue.engine"), (32, "ios.max_retry"), (33, "ios.max_rety"),
            ] {
                let mark = "not converted: gorush.yml:\(line):"
                let isNamed = made.errors.split(separator: "\n").contains {
                    $0.hasPrefix(mark) && $0.contains(" \(key): ")
                }
                #expect(isNamed, "\(key): \(made.errors)")
            }
            #expect(!made.errors.contains("core.worker_num") && !made.errors.contains("api.push_uri"))
            let door =
                "gorush: { ios: { production: ios, development: ios-dev, default: production }, android: android, "
                + "huawei: huawei, sync: true, hide_tokens: true }"
            #expect(text.contains(door) && !made.errors.contains("core.sync"), "\(text)")
            let checked = try await Program.run(["check", "-c", "new.yaml"], in: folder)
            #expect(checked.status == 0, "\(checked.errors)")
            let again = try await Program.run(Self.convert + topic, in: folder)
            #expect(again.status == 2 && again.errors.contains("exists"), "\(again.errors)")
        }
    }

    @Test("With a key it listens where gorush did, and a secret in base64 goes to a file of its own")
    func keyed() async throws {
        try await Self.with("") { folder in
            let key = try Data(contentsOf: folder.appending(path: "AuthKey.p8")).base64EncodedString()
            let text = """
                core: { port: 9090 }
                android: { enabled: false }
                ios: { enabled: true, key_type: p8, key_base64: "\(key)", key_id: KEY1234567, team_id: ABCDE12345 }
                """
            try Data(text.utf8).write(to: folder.appending(path: "gorush.yml"))
            let missing = try await Program.run(Self.convert, in: folder)
            #expect(missing.status == 3 && missing.errors.contains("--set ios.topic="), "\(missing.errors)")
            #expect(!FileManager.default.fileExists(atPath: folder.appending(path: "ios.p8").path))
            let options = ["--set", "ios.topic=com.example.app", "--key-file", "admin.key"]
            let made = try await Program.run(Self.convert + options, in: folder)
            #expect(made.status == 0, "\(made.errors)")
            let written = try String(contentsOf: folder.appending(path: "new.yaml"), encoding: .utf8)
            #expect(
                written.contains("0.0.0.0") && written.contains("port: 9090") && !written.contains(key),
                "\(written)"
            )
            let file = folder.appending(path: "ios.p8").path
            #expect(try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o600)
            #expect(try await Program.run(["check", "-c", "new.yaml"], in: folder).status == 0)
        }
    }

    @Test(
        "A certificate stays one; ssl's files become tls, unless Let's Encrypt gave them, which is named",
        arguments: [false, true]
    )
    func certificates(isAutomatic: Bool) async throws {
        let automatic = isAutomatic ? ", auto_tls: { enabled: true, host: push.example.com }" : ""
        let text = """
            core: { address: 127.0.0.1, ssl: true, cert_path: server.pem, key_path: server.key\(automatic) }
            android: { enabled: false }
            ios: { enabled: true, key_path: push.pem, production: true }
            """
        try await Self.with(text) { folder in
            let parts = try ["server.pem", "server.key"].map {
                try String(contentsOf: folder.appending(path: $0), encoding: .utf8)
            }
            try parts.joined().write(to: folder.appending(path: "push.pem"), atomically: true, encoding: .utf8)
            let made = try await Program.run(Self.convert + ["--set", "ios.topic=com.example.app"], in: folder)
            #expect(made.status == 0, "\(made.errors)")
            let isNamed = made.errors.contains(/gorush\.yml:1:\d+: core\.auto_tls\.enabled: no certificate is fetched/)
            #expect(isNamed == isAutomatic, "\(made.errors)")
            let written = try String(contentsOf: folder.appending(path: "new.yaml"), encoding: .utf8)
            #expect(written.matches(of: /certificate_file: ".*push\.pem"/).count == 2, "\(written)")
            #expect(written.contains(/tls: \{ certificate_file: ".*server\.pem"/) != isAutomatic, "\(written)")
            #expect(try await Program.run(["check", "-c", "new.yaml"], in: folder).status == 0)
        }
    }

    @Test("The limits and paths of gorush's API are those of the door")
    func door() async throws {
        let text = """
            core: { address: 127.0.0.1, max_notification: 50 }
            api: { push_uri: /send, metric_uri: /metrics, stat_app_uri: /api/stat/app }
            huawei: { enabled: true, appid: "1001", appsecret: planted-secret }
            android: { enabled: false }
            """
        try await Self.with(text) { folder in
            let made = try await Program.run(Self.convert, in: folder)
            #expect(made.status == 0 && !made.errors.contains("not converted"), "\(made.errors)")
            let written = try String(contentsOf: folder.appending(path: "new.yaml"), encoding: .utf8)
            let door = "gorush: { huawei: huawei, max_notification: 50, paths: { push: \"/send\" } }"
            #expect(written.contains(door), "\(written)")
            #expect(try await Program.run(["check", "-c", "new.yaml"], in: folder).status == 0)
        }
    }

    @Test(
        "A credential that cannot be used ends the conversion, with the way out, and nothing is written",
        arguments: [
            ("ios: { enabled: true, key_path: key.p12 }", "gorush.yml:2:", "openssl pkcs12"),
            ("ios: { enabled: true, key_path: key.pem, password: planted }", "gorush.yml:2:", "openssl pkey"),
            ("ios: { enabled: true, key_type: ../x, key_base64: planted }", "gorush.yml:2:", "is neither"),
            ("android: { apikey: planted }", "gorush.yml:2:", "android.key_path"),
            ("android: { enabled: false }", "gorush.yml", "no platform is enabled"),
        ]
    )
    func stops(section: String, place: String, words: String) async throws {
        let off = section.hasPrefix("android") ? "" : "\nandroid: { enabled: false }"
        try await Self.with("core: { port: 8088 }\n\(section)\(off)\n") { folder in
            let result = try await Program.run(
                Self.convert,
                environment: ["GOOGLE_APPLICATION_CREDENTIALS": ""],
                in: folder
            )
            #expect(
                result.status == 3 && result.errors.contains(place) && result.errors.contains(words),
                "\(result.errors)"
            )
            #expect(!result.errors.contains("planted"))
            #expect(!FileManager.default.fileExists(atPath: folder.appending(path: "new.yaml").path))
        }
    }

    @Test(
        "check, serve and doctor say of such a file that it is gorush's, and of no other file",
        arguments: ["check", "serve", "doctor"]
    )
    func recognized(command: String) async throws {
        try await Self.with(Self.sample) { folder in
            let result = try await Program.run([command, "-c", "gorush.yml"], in: folder)
            #expect(result.status != 0)
            let words = result.output + result.errors
            #expect(
                words.contains("is a configuration of gorush") && words.contains("init --from gorush.yml"),
                "\(words)"
            )
            #expect(!words.contains("unknown key"), "\(words)")
            try Data("core: {}\nserver: { prot: 1 }\nbackends: {}\n".utf8).write(
                to: folder.appending(path: "other.yaml")
            )
            let other = try await Program.run([command, "-c", "other.yaml"], in: folder)
            #expect(!(other.output + other.errors).contains("of gorush"), "\(other.errors)")
        }
    }

    @Test("One platform's section is enough")
    func onePlatform() async throws {
        let text = "huawei: { enabled: true, appid: \"100200300\", appsecret: planted-secret }\n"
        try await Self.with(text) { folder in
            let result = try await Program.run(
                Self.convert,
                environment: ["GOOGLE_APPLICATION_CREDENTIALS": ""],
                in: folder
            )
            let made = try? String(contentsOf: folder.appending(path: "new.yaml"), encoding: .utf8)
            #expect(made?.contains("kind: hms") == true, "\(result.output)\(result.errors)")
            #expect(!(result.output + result.errors).contains("planted"))
        }
    }

    @Test(
        "A file that is not gorush's is not converted",
        arguments: ["backends: {}\ncore: {}\nios: {}\n", "core: {}\n"]
    )
    func foreign(text: String) async throws {
        try await Self.with(text) { folder in
            let result = try await Program.run(Self.convert, in: folder)
            #expect(
                result.status == 3 && result.errors.contains("is not a configuration of gorush"),
                "\(result.errors)"
            )
        }
    }
}
