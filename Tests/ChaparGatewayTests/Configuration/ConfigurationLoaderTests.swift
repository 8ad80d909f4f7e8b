import Foundation
import ChaparCore
import ChaparComposition
import ChaparGateway
import Testing

@Suite("Loading a configuration", .timeLimit(.minutes(1)))
struct ConfigurationLoaderTests {
    private static let fixtures = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fixtures")

    private static let broken = [
        "many-mistakes", "duplicate-key", "not-yaml", "interpolation", "keys", "wrong-shapes", "empty", "routes",
        "token-priority", "apps",
    ]

    @Test("Every mistake of a broken file is named, with its place and the nearest name", arguments: broken)
    func golden(name: String) throws {
        let text = try Data(contentsOf: Self.fixtures.appending(path: "\(name).yaml"))
        let expected = try String(contentsOf: Self.fixtures.appending(path: "\(name).expected"), encoding: .utf8)
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load(text: Array(text), name: "\(name).yaml", folder: "/nowhere") {
                .sample($0)
            }
        }
        #expect((error?.description ?? "") + "\n" == expected)
    }

    @Test(
        "A timeout that is not shorter than the lease is refused, with both keys",
        arguments: [
            ("", "{}", false), ("timeout: 119", "{}", false), ("timeout: 120", "{}", true), ("", "{ lease: 20 }", true),
        ]
    )
    func timeoutAndLease(timeout: String, queue: String, isRefused: Bool) throws {
        let timed = BackendFactory("timed", summary: "One with a timeout.") { section, _ in
            _ = section.seconds("timeout", in: 1...300, default: .seconds(20))
            return SampleBackend(audience: BackendAudience(services: [.iOSAPNs]), token: nil, label: "")
        }
        let loader = ConfigurationLoader(registry: try BackendRegistry([timed]))
        let text = "{ queue: \(queue), backends: { ios: { kind: timed, \(timeout) } } }"
        guard isRefused else {
            _ = try loader.load(text)
            return
        }
        let error = #expect(throws: ConfigurationError.self) { try loader.load(text) }
        #expect(error?.issues.map(\.path) == ["backends.ios.timeout"])
        #expect(error?.description.contains("queue.lease") == true)
    }

    @Test("A route can be for devices of a platform of one's own, whatever the service of their tokens")
    func ownPlatform() throws {
        let route = "{ match: { platform: x-windows, service: ios-apns }, use: ios }"
        let text = "{ backends: { ios: { kind: sample, token: x, label: y } }, routes: [\(route)] }"
        _ = try ConfigurationLoader.sample().load(text)
        let wrong = text.replacing("x-windows", with: "x-Windows")
        #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load(wrong) }
    }

    @Test("Only the apps that say so send receipts, each with its rate")
    func receipts() throws {
        let apps = "{ default: { receipts: true, receipts_per_second: 7 }, shop: { receipts: true }, forum: {} }"
        let text = "{ apps: \(apps), backends: { ios: { kind: sample, token: x, label: y } } }"
        let receipts = try ConfigurationLoader.sample().load(text).configuration.receipts
        #expect(receipts.mapValues(\.perSecond) == [.default: 7, AppName(rawValue: "shop"): 500])
    }

    @Test("A backend is the same as long as its kind, address and credentials are")
    func identity() throws {
        func identity(_ more: String) throws -> String {
            let loaded = try ConfigurationLoader.sample().load("backends: { ios: { kind: sample, \(more) } }")
            return try #require(loaded.backends.first?.identity)
        }
        let plain = try identity("token: x, label: y")
        #expect(try identity("label: y, token: x, max_in_flight: 7, rate_limit: 9, breaker: { failures: 2 }") == plain)
        #expect(try identity("token: z, label: y") != plain)
        #expect(try identity("token: x") != plain)
    }

    private static func withFallback(queue: String, use: String) -> String {
        """
        queue: { \(queue) }
        backends: { ios: { kind: sample, token: x }, two: { kind: sample, token: y } }
        routes: [ { use: { fallback: [ios, two], \(use) } } ]
        """
    }

    @Test(
        "A key is read under its old name too, and shown under the present one",
        arguments: ["fallback_after", "patience"]
    )
    func formerName(name: String) throws {
        let loaded = try ConfigurationLoader.sample().load(Self.withFallback(queue: "\(name): 60", use: "\(name): 5"))
        #expect(loaded.configuration.queue.fallbackAfter == .seconds(60))
        #expect(loaded.configuration.routes.first?.plan.fallbackAfter == .seconds(5))
        #expect(loaded.settings.contains { $0.path == "queue.fallback_after" && $0.value == "60" })
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load(Self.withFallback(queue: "\(name): -1", use: ""))
        }
        #expect(error?.issues.map(\.path) == ["queue.\(name)"], "the mistake is named as the file has it")
    }

    @Test("A route has retries of its own, which take from the queue's what they do not say")
    func ownRetries() throws {
        let queue = "first_retry: 2, max_retry: 60, max_attempts: 9"
        let rows: [(String, RetryPolicy?)] = [
            ("on_unknown: stop", nil),
            (
                "max_attempts: 3",
                RetryPolicy(firstWait: .seconds(2), longestWait: .seconds(60), maximumAttempts: 3)
            ),
            (
                "first_retry: 1, max_retry: 5",
                RetryPolicy(firstWait: .seconds(1), longestWait: .seconds(5), maximumAttempts: 9)
            ),
        ]
        for (use, retry) in rows {
            let loaded = try ConfigurationLoader.sample().load(Self.withFallback(queue: queue, use: use))
            let plan = try #require(loaded.configuration.routes.first?.plan)
            #expect(plan.retry == retry, "\(use)")
            #expect(DeliveryPlan(storedForm: plan.storedForm) == plan, "\(use)")
        }
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load(Self.withFallback(queue: queue, use: "max_retry: 1"))
        }
        #expect(error?.issues.map(\.path) == ["routes[0].use.max_retry"])
    }

    @Test("A route that fans out is a plan of all its backends")
    func fanOut() throws {
        let text = Self.withFallback(queue: "", use: "max_attempts: 3")
            .replacingOccurrences(of: "fallback:", with: "fan_out:")
        let route = try #require(try ConfigurationLoader.sample().load(text).configuration.routes.first)
        #expect(route.plan.backends == ["ios", "two"] && route.plan.need == .any && route.isFanOut)
        #expect(route.plan.retry?.maximumAttempts == 3)
    }

    @Test("A key's old name beside the present one is refused, with both names and what to do")
    func bothNames() throws {
        let both = "fallback_after: 60, patience: 60"
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load(Self.withFallback(queue: both, use: both))
        }
        #expect(Set(error?.issues.map(\.path) ?? []) == ["queue.patience", "routes[0].use.patience"])
        #expect(error?.issues.allSatisfy { $0.problem.contains("fallback_after") } == true)
        #expect(error?.issues.allSatisfy { $0.fix == "Leave patience out." } == true)
    }

    @Test("An old name is a warning with its place, its present name and its end; a present name is none")
    func formerNameWarning() throws {
        let old = try ConfigurationLoader.sample().load(Self.withFallback(queue: "patience: 60", use: "patience: 5"))
        #expect(old.warnings.map(\.path) == ["queue.patience", "routes[0].use.patience"])
        #expect(old.warnings.map(\.origin.line) == [1, 3])
        #expect(old.warnings.first?.origin.column == 10)
        for warning in old.warnings {
            #expect(warning.problem == "is the old name of fallback_after and ends with the next minor version")
            #expect(warning.fix == "Write fallback_after.")
        }
        let present = Self.withFallback(queue: "fallback_after: 60", use: "fallback_after: 5")
        #expect(try ConfigurationLoader.sample().load(present).warnings.isEmpty)
    }

    @Test(
        "A key overrides one of a merged map, also when one of the two has the old name",
        arguments: [
            ("patience: 3", "<<: *u, fallback_after: 4", 4), ("fallback_after: 3", "<<: *u, patience: 4", 4),
            ("patience: 3", "<<: *u", 3), ("patience: 3", "<<: [{ fallback_after: 5 }, *u]", 5),
            ("fallback_after: 3", "<<: [{ patience: 5 }, *u]", 5),
            ("patience: 3", "<<: { <<: *u, fallback_after: 6 }", 6),
        ] as [(String, String, Int)]
    )
    func mergedFormerName(anchor: String, use: String, expected: Int) throws {
        let text = """
            backends: { ios: { kind: sample, token: x }, two: { kind: sample, token: y } }
            routes:
              - { match: { platform: ios }, use: &u { fallback: [ios, two], \(anchor) } }
              - { use: { \(use) } }
            """
        let routes = try ConfigurationLoader.sample().load(text).configuration.routes
        #expect(routes.map(\.plan.fallbackAfter) == [.seconds(3), .seconds(expected)])
    }

    @Test("Both names in one merged map are refused, as they are in its own place")
    func mergedBothNames() throws {
        let text = """
            backends: { ios: { kind: sample, token: x }, two: { kind: sample, token: y } }
            routes: [ { use: { <<: { patience: 3, fallback_after: 4 }, fallback: [ios, two] } } ]
            """
        let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load(text) }
        #expect(error?.issues.map(\.path) == ["routes[0].use.patience"])
    }

    @Test("Defaults stand when the file says nothing but a backend")
    func defaults() throws {
        let loaded = try ConfigurationLoader.sample().load("backends: { ios: { kind: sample, token: x } }")
        #expect(loaded.configuration.server == .init())
        #expect(loaded.configuration.queue == .init())
        #expect(loaded.configuration.log == .init())
        #expect(loaded.configuration.store == .init())
        #expect(loaded.backends.map(\.name) == ["ios"])
        let origins = Set(loaded.settings.filter { $0.path.hasPrefix("queue.") }.map(\.origin))
        #expect(origins == [.builtIn])
    }

    @Test("Every key reaches the setting it is named after")
    func everyKey() throws {
        let hash = String(repeating: "0a", count: 32)
        let loaded = try ConfigurationLoader.sample().load(
            """
            version: 1
            server: { host: 0.0.0.0, port: 0, max_body_bytes: 2048, max_requests: 7 }
            store: { kind: sqlite, path: data/x.db, durability: normal, min_free_bytes: 5, max_waiting: 6, retention: 3600 }
            queue:
              default_ttl: 60
              first_retry: 0.5
              max_retry: 4
              max_attempts: 3
              lease: 30
              drain: 2
              idempotency_window: 90000
              payload_check: strict
            backends:
              ios: { kind: sample, token: x, max_in_flight: 9, rate_limit: 11 }
              two: { kind: sample, token: y }
            routes:
              - { name: main, match: { platform: ios }, use: { fallback: [ios, two], on_unknown: next } }
              - { match: { service: ios-apns }, use: two }
            auth: { api_keys: [ { name: shop, hash: "sha256:\(hash.uppercased())", scopes: [send, read] } ] }
            log: { level: debug, format: json }
            token_priority: [ios-huawei, android-huawei]
            """,
            folder: "/srv/push"
        )
        let configuration = loaded.configuration
        #expect(configuration.server.host == "0.0.0.0")
        #expect(configuration.server.port == 0)
        #expect(configuration.server.maximumBodyBytes == 2048)
        #expect(configuration.server.maximumRequests == 7)
        #expect(configuration.store.path == "/srv/push/data/x.db")
        #expect(configuration.store.durability == .normal)
        #expect(configuration.store.minimumFreeBytes == 5)
        #expect(configuration.store.maximumWaiting == 6)
        #expect(configuration.store.retention == .seconds(3600))
        #expect(configuration.queue.defaultTimeToLive == .seconds(60))
        #expect(configuration.queue.firstRetry == .milliseconds(500))
        #expect(configuration.queue.maximumRetry == .seconds(4))
        #expect(configuration.queue.maximumAttempts == 3)
        #expect(configuration.queue.lease == .seconds(30))
        #expect(configuration.queue.drain == .seconds(2))
        #expect(configuration.queue.idempotencyWindow == .seconds(90000))
        #expect(configuration.queue.payloadCheck == .strict)
        #expect(configuration.routes.count == 2)
        #expect(configuration.routes.first?.name == "main")
        #expect(configuration.routes.first?.platform == "ios")
        #expect(configuration.routes.first?.plan == DeliveryPlan(["ios", "two"], onUnknown: .next))
        #expect(configuration.routes.last?.service == .iOSAPNs)
        #expect(configuration.apiKeys == [.init(name: "shop", hashes: [hash], scopes: [.send, .read])])
        #expect(
            configuration.tokenPriority == [
                .iOSHuawei, .androidHuawei, .iOSAPNs, .iOSFirebase, .androidFirebase, .androidRuStore,
                .androidRuStoreUniversal, .harmonyHuawei, .webFirebase,
                .webPush,
            ]
        )
        #expect(configuration.log.level == "debug")
        #expect(configuration.log.format == .json)
        #expect(loaded.backends.map(\.maximumInFlight) == [9, nil])
        #expect(loaded.backends.map { $0.pacing?.perSecond } == [11, nil])
    }

    @Test("JSON is read like YAML")
    func json() throws {
        let loaded = try ConfigurationLoader.sample().load(
            "{\n\t\"server\": {\"port\": 81},\n\t\"backends\": {\"ios\": {\"kind\": \"sample\", \"token\": \"x\"}}\n}"
        )
        #expect(loaded.configuration.server.port == 81)
    }

    @Test("A file that is not there is one mistake that says what to do")
    func missingFile() throws {
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load("/nowhere/chapar.yaml") { .sample($0) }
        }
        let text = error?.description ?? ""
        #expect(text.hasPrefix("cannot read /nowhere/chapar.yaml: no such file or directory. "))
        #expect(text.contains("--config"))
    }

    @Test(
        "Listening beyond this machine needs keys",
        arguments: [
            ("127.0.0.1", true), ("127.8.9.10", true), ("localhost", true), ("::1", true), ("0.0.0.0", false),
            ("::", false), ("127.0.0.1.example.com", false), ("10.0.0.1", false),
        ]
    )
    func loopback(host: String, isFine: Bool) throws {
        let text = "server: { host: \"\(host)\" }\nbackends: { ios: { kind: sample, token: x } }"
        let loader = try ConfigurationLoader.sample()
        if isFine {
            #expect(try loader.load(text).configuration.server.host == host)
        } else {
            #expect(throws: ConfigurationError.self) { try loader.load(text) }
            let error = #expect(throws: ConfigurationError.self) { try loader.load(text + "\nauth: { api_keys: [] }") }
            #expect(error?.description.contains("server.host: listening beyond this machine needs API keys") ?? false)
        }
    }

    @Test(
        "auth.keyless is for a loopback address or a socket, and stands beside no keys",
        arguments: [
            ("", nil), ("server: { host: localhost }", nil), ("server: { unix_socket: s.sock }", nil),
            ("server: { host: 0.0.0.0 }", "auth.keyless: means a loopback address or server.unix_socket only"),
            ("server: { host: 10.0.0.1 }", "auth.keyless: means a loopback address or server.unix_socket only"),
        ] as [(String, String?)]
    )
    func keyless(server: String, problem: String?) throws {
        let loader = try ConfigurationLoader.sample()
        let text = "backends: { ios: { kind: sample, token: x } }\n\(server)\nauth: { keyless: true"
        if let problem {
            let error = #expect(throws: ConfigurationError.self) { try loader.load(text + " }") }
            #expect(error?.description.contains(problem) ?? false)
            #expect(error?.issues.count == 1, "said once")
        } else {
            #expect(try loader.load(text + " }").configuration.isKeyless)
        }
        let error = #expect(throws: ConfigurationError.self) { try loader.load(text + ", api_keys: [] }") }
        #expect(error?.description.contains("auth.keyless: stands beside api_keys") ?? false)
    }

    @Test(
        "A host with brackets is read; one with a port, a scheme or a path is refused with what to write",
        arguments: [
            ("[::1]", "::1", nil), ("::1", "::1", nil), ("localhost", "localhost", nil),
            ("127.0.0.1:8080", nil, "Write host: \"127.0.0.1\" and port: 8080."),
            ("[::1]:9000", nil, "Write host: \"::1\" and port: 9000."),
            (":8080", nil, "Write host: \"0.0.0.0\" and port: 8080."),
            ("http://localhost", nil, "Write host: localhost, and the port under port."),
            ("https://localhost:8080/", nil, "Write host: \"localhost\" and port: 8080."),
            ("127.0.0.1/24", nil, "Write host: 127.0.0.1, and the port under port."),
            ("*", nil, "Write 0.0.0.0 to listen on every address."),
            ("unix:/run/chapar.sock", nil, "Write unix_socket: /run/chapar.sock, and leave out host and port."),
            ("127.0.0.1 ", nil, "Write it without blanks."),
            ("256.1.1.1", nil, "An address of IPv4 has four numbers from 0 to 255, such as 127.0.0.1."),
            ("127.1", nil, "An address of IPv4 has four numbers from 0 to 255, such as 127.0.0.1."),
        ] as [(String, String?, String?)]
    )
    func hosts(text: String, host: String?, fix: String?) throws {
        let file = """
            server: { host: "\(text)" }
            backends: { ios: { kind: sample, token: x } }
            auth: { api_keys: [ { name: a, hash: "sha256:\(String(repeating: "a", count: 64))", scopes: [send] } ] }
            """
        let loader = try ConfigurationLoader.sample()
        guard let host else {
            let error = #expect(throws: ConfigurationError.self) { try loader.load(file) }
            #expect(error?.issues.map(\.path) == ["server.host"])
            #expect(error?.issues.first?.fix == fix, "\(error as Any)")
            // Without keys it is judged by the address that is meant.
            let alone = "server: { host: \"\(text)\" }\nbackends: {}"
            let second = #expect(throws: ConfigurationError.self) { try loader.load(alone) }
            #expect((second?.issues.count == 1) == (fix?.contains("0.0.0.0") == false), "\(second as Any)")
            return
        }
        #expect(try loader.load(file).configuration.server.host == host)
    }

    @Test("Scopes, platforms, services and kinds are read in any letter case")
    func letterCase() throws {
        let loaded = try ConfigurationLoader.sample().load(
            """
            backends: { ios: { kind: Sample, token: x } }
            token_priority: [IOS-Firebase]
            routes: [ { match: { platform: iOS, service: ios-APNS }, use: ios } ]
            auth: { api_keys: [ { name: a, hash: "sha256:\(String(repeating: "a", count: 64))", scopes: [Send] } ] }
            log: { level: WARNING, format: JSON }
            """
        )
        #expect(loaded.configuration.apiKeys.first?.scopes == [.send])
        #expect(loaded.configuration.tokenPriority.first == .iOSFirebase)
        #expect(loaded.configuration.log.level == "warning" && loaded.configuration.log.format == .json)
    }

    @Test(
        "A value that looks like a variable's name or a template is a warning, which does not show it",
        arguments: [
            ("$PLANTED_NAME", true), ("$(PLANTED_NAME)", true), ("'{{ planted }}'", true), ("$planted", false),
            ("$5", false), ("a$PLANTED", false), ("'$$PLANTED'", false), ("\"${SAMPLE_TOKEN}\"", false),
            ("'%PLANTED%'", true), ("'@PLANTED@'", true), ("'%{PLANTED}'", true), ("'#{PLANTED}#'", true),
            ("'{$PLANTED}'", true), ("__PLANTED__", true), ("$env:PLANTED", true), ("<PLANTED_NAME>", true),
            ("'<%= planted %>'", true), ("op://planted/item", true), ("'vault:planted/x#y'", true),
            ("arn:aws:secretsmanager:eu-1:1:secret:planted", true), ("'%planted%'", false), ("'100%'", false),
            ("<planted>", false), ("__", false), ("'@PLANTED'", false),
        ]
    )
    func unfilled(value: String, isWarned: Bool) throws {
        let loaded = try ConfigurationLoader.sample().load("backends:\n  ios: { kind: sample, token: \(value) }")
        #expect(loaded.warnings.map(\.path) == (isWarned ? ["backends.ios.token"] : []))
        #expect(loaded.warnings.allSatisfy { $0.origin.line == 2 && $0.fix?.contains("${NAME}") == true })
        #expect(!loaded.warnings.map(\.description).joined().lowercased().contains("planted"))
    }

    @Test("A mistake at a value that looks like a variable's name says so", arguments: ["$PLANTED", "'%PLANTED%'"])
    func unfilledMistake(value: String) throws {
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load(
                "server: { port: \(value) }\nbackends: { ios: { kind: sample, token: x } }"
            )
        }
        let issue = try #require(error?.issues.first)
        #expect(issue.path == "server.port" && issue.fix?.contains("name of a variable") == true, "\(issue)")
        #expect(issue.fix?.contains("${NAME}") == true, "\(issue)")
    }

    @Test("A key in a variable keeps its fix; an empty variable in the place of a file is named as empty")
    func credentialsOfVariables() throws {
        let body = String(repeating: "A", count: 100)
        let texts = [
            "DAMAGED": "—BEGIN PRIVATE KEY—\n\(body)\n—END PRIVATE KEY—", "CUT": "-----BEGIN PRIVATE KEY-----\n\(body)",
        ]
        let loader = ConfigurationLoader(
            registry: try BackendRegistry([SampleBackend.factory]),
            environment: texts.merging(["EMPTY": ""]) { $1 }
        )
        func issue(_ name: String) throws -> ConfigIssue? {
            let file = """
                server: { tls: { certificate_file: "${\(name)}", key_file: "${\(name)}" } }
                backends: { ios: { kind: sample, token: x } }
                """
            let error = #expect(throws: ConfigurationError.self) { try loader.load(file) }
            #expect(error?.description.contains(body) == false)
            return error?.issues.first { $0.path == "server.tls.key_file" }
        }
        #expect(try issue("DAMAGED")?.fix?.contains("-----BEGIN PRIVATE KEY-----") == true)
        #expect(try issue("CUT")?.fix?.contains("from -----BEGIN to the last line") == true)
        #expect(try issue("EMPTY")?.problem == "is empty")
    }

    @Test(
        "A configuration of gorush is named as such",
        arguments: [
            ("core: { port: '8088' }\nandroid: { enabled: true }", true), ("core: {}\napi: {}", true),
            ("core: {}\nios: {}\nbackends: { ios: { kind: sample, token: x } }", false), ("core: {}", false),
        ]
    )
    func gorush(text: String, isNamed: Bool) throws {
        let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load(text) }
        #expect((error?.issues.first?.problem == "is a configuration of gorush, not of Chapar") == isNamed)
        #expect((error?.description.contains("docs/FromGorush.md") == true) == isNamed)
    }

    @Test("A store and logs in a folder that is not there are warnings, which name the folder")
    func missingFolder() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID().uuidString)")
        let text = """
            backends: { ios: { kind: sample, token: x } }
            store: { path: \(folder.path)/chapar.db }
            audit: { path: \(folder.path)/audit.jsonl }
            """
        let loader = try ConfigurationLoader.sample()
        let warnings = try loader.load(text).warnings
        #expect(warnings.map(\.path) == ["store.path", "audit.path"])
        #expect(warnings.allSatisfy { $0.problem == "is in the folder \(folder.path), which is not there" })
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        #expect(try loader.load(text).warnings.isEmpty)
        try FileManager.default.createDirectory(
            at: folder.appending(path: "chapar.db"),
            withIntermediateDirectories: true
        )
        #expect(try loader.load(text).warnings.map(\.problem) == ["is a folder"])
        try Data().write(to: folder.appending(path: "audit.jsonl"))
        let below = text.replacing("/chapar.db", with: "/audit.jsonl/chapar.db")
        let memory = "backends: { ios: { kind: sample, token: x } }\nstore: { path: \":memory:\" }"
        #expect(try loader.load(memory).warnings.map(\.path) == ["store.path"])
        let socket = text.prefix { $0 != "\n" } + "\nserver: { unix_socket: \(folder.path)/nowhere/x.sock }"
        #expect(try loader.load(String(socket)).warnings.map(\.path) == ["server.unix_socket"])
        let file = "is in \(folder.path)/audit.jsonl, which is a file and no folder"
        #expect(try loader.load(below).warnings.map(\.problem) == [file])
    }

    @Test("Keyless is nothing but auth.keyless")
    func keylessByOmission() throws {
        let loader = try ConfigurationLoader.sample()
        for auth in ["", "auth: {}", "auth: { api_keys: [] }", "auth: { keyless: false }"] {
            let text = "backends: { ios: { kind: sample, token: x } }\n\(auth)"
            #expect(try !loader.load(text).configuration.isKeyless)
        }
    }

    @Test(
        "In quotes only true and false are truth values, in YAML and in JSON, unless a variable stands there",
        arguments: [
            ("keyless: \"yes\"", false), ("keyless: 'true'", true), ("\"keyless\": \"on\"", false),
            ("keyless: True", true), ("keyless: yes", true), ("keyless: true", true), ("\"keyless\": true", true),
            ("keyless: \"${KEYLESS}\"", true),
        ]
    )
    func quotedTruth(auth: String, isTaken: Bool) throws {
        let registry = try BackendRegistry([SampleBackend.factory])
        let loader = ConfigurationLoader(registry: registry, environment: ["KEYLESS": "true"])
        let text = "{ backends: { ios: { kind: sample, token: x } }, auth: { \(auth) } }"
        guard !isTaken else {
            let loaded = try loader.load(text)
            #expect(loaded.configuration.isKeyless)
            return
        }
        let error = #expect(throws: ConfigurationError.self) { try loader.load(text) }
        #expect(error?.issues.map(\.path) == ["auth.keyless"])
        #expect(error?.description.contains("without quotes") == true)
    }

    @Test("A key may have several hashes, an end and backends of its own")
    func keys() throws {
        let (new, old) = (String(repeating: "a", count: 64), String(repeating: "b", count: 64))
        let text = """
            backends: { ios: { kind: sample, token: x } }
            auth:
              api_keys:
                - { name: shop, hash: ["sha256:\(new)", "sha256:\(old)"], scopes: [send, metrics], backends: [ios], not_after: 2027-01-31, queue_share: 0.25 }
            """
        let key = try #require(try ConfigurationLoader.sample().load(text).configuration.apiKeys.first)
        #expect(key.hashes == [new, old])
        #expect(key.scopes == [.send, .metrics])
        #expect(key.backends == ["ios"])
        #expect(key.notAfter == Date(timeIntervalSince1970: 1_801_353_600))
        #expect(key.queueShare == 0.25)
    }

    @Test("No two keys have a hash in common, and no key has one twice, wherever the hash comes from")
    func sharedHashes() throws {
        let hashes = ["a", "b", "c"].map { "sha256:" + String(repeating: $0, count: 64) }
        let loader = ConfigurationLoader(
            registry: try BackendRegistry([SampleBackend.factory]),
            environment: ["SHOP_HASH": "sha256:" + String(repeating: "A", count: 64)]
        )
        let text = """
            backends: { ios: { kind: sample, token: x } }
            auth:
              api_keys:
                - { name: shop, hash: "${SHOP_HASH}", scopes: [send] }
                - { name: boss, hash: ["\(hashes[1])", "\(hashes[0])"], scopes: [admin] }
                - { name: eyes, hash: ["\(hashes[2])", "\(hashes[2])"], scopes: [read] }
            """
        let error = #expect(throws: ConfigurationError.self) { try loader.load(text) }
        #expect(error?.issues.map(\.path) == ["auth.api_keys[1].hash", "auth.api_keys[2].hash"])
        #expect(error?.issues.first?.problem == "has a value that is also that of the key \"shop\"")
        #expect(error?.issues.first?.fix?.contains("chapar keys create") ?? false)
        #expect(error?.issues.last?.problem == "has the same value twice")
    }

    @Test(
        "The error of a wrong API key names the field",
        arguments: [
            ("hash: [], scopes: [send]", "auth.api_keys[0].hash: has 0 values"),
            ("hash: [\"sha256:xyz\"], scopes: [send]", "auth.api_keys[0].hash: is not sha256:"),
            ("scopes: [send]", "auth.api_keys[0].hash: is missing"),
            ("hash: \"sha256:HASH\", scopes: [send], backends: [iso]", "Did you mean \"ios\"?"),
            ("hash: \"sha256:HASH\", scopes: [send], not_after: soon", "auth.api_keys[0].not_after: is no time"),
            (
                "hash: \"sha256:HASH\", scopes: [send], queue_share: 50",
                "auth.api_keys[0].queue_share: \"50\" is not a number from 0.01 to 1"
            ),
        ]
    )
    func wrongKeys(fields: String, problem: String) throws {
        let fields = fields.replacing("HASH", with: String(repeating: "a", count: 64))
        let text = """
            backends: { ios: { kind: sample, token: x } }
            auth: { api_keys: [ { name: shop, \(fields) } ] }
            """
        let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load(text) }
        #expect(error?.description.contains(problem) ?? false, "\(error?.description ?? "")")
    }
}
