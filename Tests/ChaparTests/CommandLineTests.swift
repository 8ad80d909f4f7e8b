import ArgumentParser
import Foundation
import Logging
import ChaparCore
import ChaparGateway
import Testing

@testable import ChaparCommands

@Suite("The command line", .timeLimit(.minutes(2)))
struct CommandLineTests {
    private static let endings: [([String], Int32)] = [
        (["--help"], 0), (["--version"], 0), (["help", "send"], 0), (["backends"], 0), (["completion", "bash"], 0),
        (["completion", "zsh"], 0), (["completion", "fish"], 0),
        (["bogus"], 2), (["--bogus"], 2), (["check", "--bogus"], 2), (["send", "hi"], 2),
        (["send", "--to", "no-colon", "hi"], 2), (["send", "--to", "ios-apnz:ab", "hi"], 2),
        (["send", "--to", "ios-apns:ab", "--data", "x", "hi"], 2),
        (["send", "--to", "ios-apns:ab", "--badge", "x"], 2),
        (["send", "--to", "ios-apns:ab", "hi", "--body", "ho"], 2), (["send", "--input", "-", "-"], 2),
        (["send", "--to", "ios-apns:ab", "hi", "--url", "localhost"], 2), (["completion", "tcsh"], 2),
        (["keys", "create", "--name", "two words"], 2), (["keys", "create"], 2), (["sandbox"], 2),
        (["sandbox", "--dir", "/tmp/x", "--port", "70000"], 2),
        (["sandbox", "--dir", "/tmp/x", "--platform", "apsn"], 2),
        (["check", "--config", "/nowhere.yaml"], 3), (["serve", "--config", "/nowhere.yaml"], 3),
        (["config", "print", "--config", "/nowhere.yaml"], 3), (["keys", "list", "--config", "/nowhere.yaml"], 3),
        (["backends", "--config", "/nowhere.yaml"], 3),
        (["send", "--to", "ios-apns:ab", "hi", "--config", "/nowhere.yaml"], 3),
        (["doctor", "--config", "/nowhere.yaml"], 1),
        (["backup"], 2), (["backup", "copy.db", "--config", "/nowhere.yaml"], 3),
        (["restore", "copy.db", "--config", "/nowhere.yaml"], 3), (["users", "erase", "ada"], 2),
        (["users", "erase", "ada", "--url", "http://127.0.0.1:1"], 75),
        (["devices", "list"], 2), (["devices", "put", "a b", "--url", "http://127.0.0.1:1"], 2),
        (["devices", "put", "a", "--token", "ios-apnz:x", "--url", "http://127.0.0.1:1"], 2),
        (["devices", "import", "/nowhere.csv", "--url", "http://127.0.0.1:1"], 2),
        (["devices", "export", "--url", "http://127.0.0.1:1"], 75),
        (["devices", "quarantined", "--url", "http://127.0.0.1:1"], 75),
        (["devices", "held", "--url", "http://127.0.0.1:1"], 75),
        (["send", "--to", "ios-apns:ab", "hi", "--url", "http://127.0.0.1:1"], 75),
    ]

    @Test("Every ending has its exit code", arguments: endings)
    func exitCode(arguments: [String], expected: Int32) async throws {
        let result = try await Program.run(arguments)
        #expect(result.status == expected, "\(arguments): \(result.errors)")
        if expected != 0 {
            #expect(!result.errors.isEmpty || arguments.first == "doctor")
            #expect(result.output.isEmpty || arguments.first == "doctor", "stdout is for results")
        }
    }

    @Test(
        "A misspelt command, and an option before its command, are told how to write them",
        arguments: [
            (["sned", "hi"], "Did you mean \"send\"?"), (["devices", "improt", "x.csv"], "Did you mean \"import\"?"),
            (["start"], "chapar has no command \"start\". Did you mean \"serve\"?"),
            (["frobnicate"], "chapar has no command \"frobnicate\". chapar --help lists all."),
            (["devices", "show", "a", "--json"], "Did you mean \"get\"?"),
            (["keys", "add"], "Did you mean \"create\"?"),
            (["plugin", "build"], "chapar plugin has no command \"build\". It has: new."),
            (["send", "--to", "apns:ab", "hi", "--url", "http://127.0.0.1:1"], "Did you mean \"ios-apns\"?"),
            (["check", "x.yaml"], "a configuration file is an option: chapar check --config x.yaml"),
            (["--json", "backends"], "--json stands after the command: chapar backends … --json"),
            (["--config", "x.yaml", "check"], "--config stands after the command: chapar check … --config"),
            (["-c", "x.yaml", "check"], "-c stands after the command: chapar check … -c"),
            (["send", "--text", "hi"], "Did you mean \"--body\"?"), (["send", "-m=hi"], "Did you mean \"--body\"?"),
            (["config", "check"], "It is: chapar check"),
            (["stop"], "serve ends with ctrl-c"), (["reload"], "kill -HUP"), (["version"], "chapar --version"),
            (["import", "x.csv"], "chapar devices import FILE"), (["keygen"], "chapar keys create"),
            (["health"], "chapar doctor"), (["logs"], "chapar deliveries"), (["list"], "chapar devices list"),
            (["sandbox", "--dir", "/tmp/x", "--platform", "firebase"], "Did you mean \"fcm\"?"),
        ]
    )
    func misspelt(arguments: [String], words: String) async throws {
        let result = try await Program.run(arguments)
        #expect(result.status == 2 && result.errors.contains(words), "\(result)")
    }

    @Test("The API key leaves this machine encrypted, or when that is asked for")
    func plainHTTP() async throws {
        let folder = try TestFolder()
        let key = try folder.write("key-that-nobody-reads", to: "key")
        for address in ["http://192.0.2.1:1", "http://push.example.com", "http://127.evil.example"] {
            let refused = try await Program.run(["devices", "export", "--url", address, "--key-file", key])
            #expect(refused.status == 2 && refused.errors.contains("--allow-plain-http"), "\(refused.errors)")
            let asked = ["--url", address, "--key-file", key, "--allow-plain-http"]
            #expect(try GatewayAddress.parse(asked).client() != nil)
        }
        for address in ["http://127.0.0.1:1", "https://192.0.2.1:1"] {
            #expect(try GatewayAddress.parse(["--url", address, "--key-file", key]).client() != nil)
        }
        #expect(
            try GatewayAddress.parse(["--url", "http://192.0.2.1:1"]).client() != nil,
            "without a key nothing is told"
        )
    }

    @Test(
        "A line of the log is one line that shows what there is",
        arguments: [GatewayConfiguration.Log.Format.text, .json]
    )
    func logLine(format: GatewayConfiguration.Log.Format) {
        var log = GatewayConfiguration.Log()
        log.format = format
        let output = LogOutput(label: "chapar", settings: LogOutput.Settings(log))
        let metadata: Logger.Metadata = ["name": "ali\u{202E}\u{9B}31m\n2026 error"]
        let event = LogEvent(
            level: .info,
            message: "a name",
            metadata: metadata,
            source: "test",
            file: "",
            function: "",
            line: 1
        )
        let line = output.line(event)
        #expect(line.contains(#"ali\u202e\u009b31m\n2026 error"#), "\(line)")
        #expect(!line.contains("\n"))
    }

    @Test("A line of the log in JSON has numbers, Booleans and lists as such, and every text as text")
    func typedLog() throws {
        var log = GatewayConfiguration.Log()
        log.format = .json
        let metadata: Logger.Metadata = [
            "pid": .stringConvertible(23571), "complete": .stringConvertible(true),
            "seconds": .stringConvertible(1.5), "backends": .array(["ios", "android"]), "device": "42",
            "more": .dictionary(["n": .stringConvertible(Int32(3))]), "huge": .stringConvertible(UInt64.max),
        ]
        let event = LogEvent(
            level: .info,
            message: "listening",
            metadata: metadata,
            source: "test",
            file: "",
            function: "",
            line: 1
        )
        let line = LogOutput(label: "chapar", settings: LogOutput.Settings(log)).line(event)
        let json = try JSONValue(parsing: Array(line.utf8))
        #expect(json["pid"] == 23571 && json["complete"] == true && json["seconds"] == 1.5, "\(line)")
        #expect(json["backends"] == ["ios", "android"] && json["more"] == ["n": 3], "\(line)")
        #expect(json["device"] == "42" && json["huge"] == "18446744073709551615", "\(line)")
    }

    static let healths: [(JSONValue, String)] = [
        (["health": ["status": "ok"], "worker": ["parked": false, "breaker": "closed"]], "ok"),
        (["health": ["status": "down", "detail": "refused"], "worker": [:]], "down: refused"),
        (["health": ["status": "ok"], "worker": ["parked": true, "pause_reason": "wrong_key"]], "parked: wrong_key"),
        (
            ["health": ["status": "ok"], "worker": ["invalidations_quarantined": true, "parked": true]],
            "stopped: too many dead tokens, see devices quarantined"
        ),
        (["health": ["status": "ok"], "worker": ["breaker": "open", "breaker_reason": "503"]], "breaker open: 503"),
        // As a gateway of an older version answers.
        (
            ["health": ["status": "ok"], "lane": ["invalidations_held": true, "parked": true]],
            "stopped: too many dead tokens, see devices quarantined"
        ),
    ]

    @Test("backends says what keeps a backend from sending", arguments: healths)
    func health(backend: JSONValue, expected: String) {
        #expect(BackendsListCommand.health(of: backend) == expected)
    }

    @Test("A sandbox of some platforms starts these and writes a configuration of these", .about("apns", "fcm"))
    func somePlatforms() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let words = ["sandbox", "--dir", folder.url.path, "--platform", "apns,FCM", "--gateway-port", "0"]
        let child = try Child(words)
        defer { child.kill() }
        try await Program.wait("the sandbox") { child.output.contains("next: ") ? true : nil }
        let names = child.output.split(separator: "\n").compactMap { $0.split(separator: " ").first.map(String.init) }
        #expect(Set(names).isDisjoint(with: ["hms", "onesignal", "altcraft", "chabok", "oauth2", "http"]), "\(names)")
        #expect(names.contains("apns") && names.contains("fcm") && names.contains("control"), "\(names)")
        let checked = try await Program.run(["check", "--config", folder.url.appending(path: "chapar.yaml").path])
        #expect(checked.output.contains("backends ios (apns), android (fcm);"), "\(checked)")
    }

    @Test("No command leaves a core dump")
    func dumps() async throws {
        // Wide, so that there would be one.
        var wide = rlimit(rlim_cur: 4096, rlim_max: 4096)
        _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &wide)
        let folder = try TestFolder()
        let child = try Child(["sandbox", "--dir", folder.url.path])
        defer { child.kill() }
        try await Program.wait("the sandbox's start") { child.output.isEmpty ? nil : true }
        let line = try child.limits().split(separator: "\n").first { $0.hasPrefix("Max core file size") } ?? ""
        #expect(line.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"], "\(line)")
    }

    @Test(
        "The program's memory comes from jemalloc, which can tell about it",
        .disabled(if: ProcessInfo.processInfo.environment["LD_PRELOAD"] != nil, "a sanitizer brings its own")
    )
    func allocator() async throws {
        let result = try await Program.run(["--version"], environment: ["MALLOC_CONF": "stats_print:true"])
        let line = try #require(result.errors.split(separator: "\n").first { $0.hasPrefix("Allocated: ") })
        let bytes = try #require(line.split(separator: ",").first.flatMap { Int($0.dropFirst("Allocated: ".count)) })
        #expect(bytes > 100_000)
    }

    @Test("The version stands alone in its line; commit, Swift and libraries follow")
    func version() async throws {
        let lines = try await Program.run(["--version"]).lines
        #expect(lines.first == BuildInfo.current.version)
        let parts = lines.dropFirst().map { $0.split(separator: " ", omittingEmptySubsequences: true).map(String.init) }
        #expect(parts.map(\.first) == ["commit", "Swift", "jemalloc", "libpq", "nghttp2", "SQLite"])
        #expect(parts.allSatisfy { $0.count == 2 }, "\(lines)")
        for part in parts.dropFirst(2) { #expect(part[1].wholeMatch(of: /[0-9]+(\.[0-9]+)+/) != nil, "\(part)") }
    }

    @Test("The configuration can come from the environment, and a flag wins over it")
    func configVariable() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write("bogus: 1", to: "a.yaml")
        let named = try await Program.run(["check"], environment: ["CHAPAR_CONFIG": file])
        #expect(named.status == 3)
        #expect(named.errors.contains("bogus: unknown key"))
        let other = try await Program.run(["check", "-c", "/nowhere.yaml"], environment: ["CHAPAR_CONFIG": file])
        #expect(other.errors.contains("cannot read /nowhere.yaml"))
    }

    @Test("check --json names every mistake with its place", .about("apns"))
    func checkJSON() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write(
            "server: { prot: 1 }\nbackends:\n  ios: { kind: apns, team_id: x, unknown_thing: 1 }\n",
            to: "a.yaml"
        )
        let result = try await Program.run(["check", "--json", "--config", file])
        #expect(result.status == 3)
        let json = try JSONValue(parsing: Array(result.output.utf8))
        #expect(json["ok"]?.boolValue == false)
        let issues = json["issues"]?.arrayValue ?? []
        let paths = issues.compactMap { $0["path"]?.stringValue }
        #expect(paths.contains("server.prot"))
        #expect(paths.contains("backends.ios.unknown_thing"))
        #expect(issues.first?["line"]?.integerValue == 1)
        #expect(issues.first?["fix"]?.stringValue == "Did you mean \"port\"?")
    }

    @Test("A key that was made is listed, found for revoking, and shown nowhere else", .about("apns"))
    func keys() async throws {
        try await SandboxRig.run { rig in
            let made = try await Program.run(["keys", "create", "--name", "shop", "--scope", "send", "--json"])
            let json = try JSONValue(parsing: Array(made.output.utf8))
            let key = try #require(json["key"]?.stringValue)
            let line = try #require(json["line"]?.stringValue)
            #expect(key.hasPrefix("chp_") && key.count > 40)
            try rig.append("auth:\n  api_keys:\n    \(line)\n")
            #expect(try await Program.run(["check", "--config", rig.config]).status == 0)
            let list = try await Program.run(["keys", "list", "--config", rig.config])
            #expect(list.output.contains("shop  send"))
            #expect(!list.output.contains(key))
            let revoke = try await Program.run(["keys", "revoke", "shop", "--config", rig.config])
            #expect(revoke.output.contains("auth.api_keys[0]"))
            #expect(revoke.output.contains("chapar cancel --key shop\n"), "what waits goes out, and what ends it")
            #expect(try await Program.run(["keys", "revoke", "shpo", "--config", rig.config]).status == 1)

            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let file = rig.folder.appending(path: "key").path
            try key.write(toFile: file, atomically: true, encoding: .utf8)
            let to = "ios-apns:\(SandboxRig.token(1))"
            let allowed = try await Program.run(
                ["send", "--to", to, "hi", "--url", gateway.url, "--key-file", file, "--wait", "0"])
            #expect(allowed.status == 0, "\(allowed.errors)")
            let refused = try await Program.run(["send", "--to", to, "hi", "--url", gateway.url])
            #expect(refused.status == 2)
        }
    }

    @Test("A key file is made for its owner alone and never replaces a file")
    func keyFile() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = folder.url.appending(path: "key").path
        let made = try await Program.run(["keys", "create", "--name", "shop", "--key-file", file])
        #expect(made.status == 0)
        let key = try String(contentsOfFile: file, encoding: .utf8)
        #expect(key.hasPrefix("chp_"))
        #expect(!made.output.contains(key.trimmingCharacters(in: .newlines)))
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(try await Program.run(["keys", "create", "--name", "shop", "--key-file", file]).status == 2)
    }

    @Test("Results that cannot be written are a failure; a reader that went away is none")
    func unwrittenResults() async throws {
        func run(_ script: String) async throws -> Program.Result {
            let child = try Child(["-c", script, Program.url.path], executable: URL(filePath: "/bin/bash"))
            defer { child.kill() }
            return try await child.end()
        }
        for command in ["help", "openapi", "--version"] {
            let full = try await run("exec \"$0\" \(command) >/dev/full")
            #expect(full.status == 1, "\(command): \(full)")
            #expect(full.errors.contains("cannot write the results: No space left on device"), "\(command): \(full)")
        }
        let closed = try await run("\"$0\" openapi | true; exit ${PIPESTATUS[0]}")
        #expect(closed.status == 0 && closed.errors.isEmpty, "\(closed)")
    }
}
