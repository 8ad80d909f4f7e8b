import Foundation
import ChaparCore
import ChaparGateway
import Testing

@Suite("Values from the environment and from files", .timeLimit(.minutes(1)))
struct InterpolationTests {
    @Test(
        "A value is put together from what it names",
        arguments: [
            ("plain", "plain"), ("${SAMPLE_TOKEN}", "planted-secret-value"),
            ("a-${SAMPLE_TOKEN}-b", "a-planted-secret-value-b"), ("${PORT}${PORT}", "90909090"),
            ("$${PORT}", "${PORT}"), ("$PORT $ {PORT} }", "$PORT $ {PORT} }"), ("${NOT_SET:-fallback}", "fallback"),
            ("${NOT_SET:-${ALSO_NOT:-inner}}", "inner"), ("${SAMPLE_TOKEN:-${NOT_SET:-x}}", "planted-secret-value"),
            ("${NOT_SET:-${PORT}}-${NOT_SET:-a${PORT}b}", "9090-a9090b"), ("${NOT_SET:-$${PORT}}", "${PORT}"),
            ("${EMPTY:-fallback}", "fallback"), ("${NOT_SET:-}x", "x"), ("${PORT:-1}", "9090"),
        ]
    )
    func values(written: String, expected: String) throws {
        let loaded = try ConfigurationLoader.sample().load(
            "backends: { ios: { kind: sample, token: x, label: \"\(written)\" } }"
        )
        let backend = try #require(loaded.backends.first?.backend as? SampleBackend)
        #expect(backend.label == expected)
    }

    @Test("A file's last line break is dropped, and its path is relative to the configuration's folder")
    func files() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try Data("line one\nline two\n".utf8).write(to: folder.appending(path: "token.txt"))
        try Data(
            "backends: { ios: { kind: sample, token: x, label: \"${file:token.txt}\", note_file: token.txt } }".utf8
        ).write(to: folder.appending(path: "chapar.yaml"))
        let loaded = try ConfigurationLoader.sample().load(folder.appending(path: "chapar.yaml").path()) { .sample($0) }
        let backend = try #require(loaded.backends.first?.backend as? SampleBackend)
        #expect(backend.label == "line one\nline two")
    }

    @Test("Values of variables are not read as YAML")
    func noInjection() throws {
        let loader = ConfigurationLoader(
            registry: try BackendRegistry([SampleBackend.factory]),
            environment: ["EVIL": "x, rate_limit: 1 } #${PORT}"]
        )
        let loaded = try loader.load("backends: { ios: { kind: sample, token: x, label: \"${EVIL}\" } }")
        let backend = try #require(loaded.backends.first?.backend as? SampleBackend)
        #expect(backend.label == "x, rate_limit: 1 } #${PORT}")
        #expect(loaded.backends.first?.pacing == nil)
    }

    @Test("A setting says what it came through, and a value from outside stays hidden inside backends")
    func origins() throws {
        let loaded = try ConfigurationLoader.sample().load(
            """
            server: { port: "${PORT}" }
            backends: { ios: { kind: sample, token: "${SAMPLE_TOKEN}", label: "${SAMPLE_TOKEN}" } }
            """
        )
        let settings = Dictionary(uniqueKeysWithValues: loaded.settings.map { ($0.path, $0) })
        #expect(settings["server.port"]?.value == "9090")
        #expect(settings["server.port"]?.origin.description == "test.yaml:1:17 (env PORT)")
        #expect(settings["backends.ios.token"]?.value == nil)
        #expect(settings["backends.ios.label"]?.value == nil)
        #expect(settings["backends.ios.label"]?.origin.via == "env SAMPLE_TOKEN")
        #expect(!loaded.settings.contains { ($0.value ?? "").contains("planted") })
    }

    @Test("Merge keys work, and a file that grows by its aliases is refused")
    func aliases() throws {
        let loaded = try ConfigurationLoader.sample().load(
            "backends: { a: &a { kind: sample, token: x, label: one }, b: { <<: *a, label: two } }"
        )
        #expect(loaded.backends.compactMap { ($0.backend as? SampleBackend)?.label } == ["one", "two"])
        var bomb = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
        for level in 1...9 {
            let last = Array(repeating: "*l\(level - 1)", count: 10).joined(separator: ", ")
            bomb += "l\(level): &l\(level) [\(last)]\n"
        }
        let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load(bomb) }
        #expect(error?.description.contains("more than 20000 values, aliases included") ?? false)
    }

    /// Comparing such keys takes time that doubles with each level, beyond the suite's time limit.
    @Test(
        "A list or a map as a key is refused at its place, before aliases in it are followed",
        arguments: [
            ("? *l30\n: x", 32), ("{ [*l30]: x }", 32), ("{ *l30 : x }", 32), ("a: { ? { *l30 : y } : x }", 32),
            ("? [a]\n: x", 32),
        ]
    )
    func structureAsKey(line: String, number: Int) throws {
        var bomb = "- &l0 [x, x]\n"
        for level in 1...30 { bomb += "- &l\(level) [*l\(level - 1), *l\(level - 1)]\n" }
        let file = bomb + "- " + line.replacingOccurrences(of: "\n", with: "\n  ")
        let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load(file) }
        #expect(
            error?.description.contains("a key must be a single word, not a list or a map") ?? false,
            "\(error as Any)"
        )
        #expect(error?.description.contains("test.yaml:\(number):") ?? false, "\(error as Any)")
    }

    @Test("An alias of a word may be a key")
    func wordAsKey() throws {
        let loaded = try ConfigurationLoader.sample().load(
            "backends: { &name ios: { kind: sample, token: x, label: one } }\nroutes: [ { use: *name } ]"
        )
        #expect(loaded.backends.count == 1)
    }

    @Test(
        "User and password of an address are shown nowhere",
        arguments: ["http://u:planted@proxy:1", "u:planted/x@proxy"]
    )
    func addressCredentials(address: String) throws {
        let address = address.hasPrefix("http") ? address : "https://" + address
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load(
                "backends: { ios: { kind: sample, token: x, label: y, proxy: \"\(address)\" } }"
            )
        }
        #expect(error?.description.contains("backends.ios.proxy") ?? false, "\(error as Any)")
        #expect(!(error?.description.contains("planted") ?? true), "\(error as Any)")
    }

    @Test("A file that nests without end is refused")
    func depth() throws {
        let deep = String(repeating: "[", count: 500) + String(repeating: "]", count: 500)
        #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load("a: \(deep)") }
        let deeper = String(repeating: "[", count: 100_000)
        #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load("a: \(deeper)") }
    }
}
