import Logging
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@Suite("Reading a configuration section", .timeLimit(.minutes(1)))
struct ConfigurationTests {
    private struct NoFiles: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] { throw InvalidToken(.iOSAPNs, "no file \(path)") }
    }

    private enum Color: String, CaseIterable {
        case red
        case green
    }

    private static func map(_ entries: [(String, ConfigNode.Value)]) -> ConfigNode {
        ConfigNode(
            .map(
                entries.enumerated().map { line, entry in
                    let origin = ConfigOrigin(file: "f.yaml", line: line + 1, column: 1)
                    return ConfigNode.Entry(
                        key: entry.0,
                        keyOrigin: origin,
                        node: ConfigNode(entry.1, origin: origin)
                    )
                }
            ),
            origin: ConfigOrigin(file: "f.yaml", line: 1, column: 1)
        )
    }

    private func section(_ entries: [(String, ConfigNode.Value)]) -> ConfigSection {
        ConfigSection(Self.map(entries), path: "server", report: ConfigReport(), files: NoFiles())
    }

    @Test("Every mistake is found at once, with place, path and the nearest key")
    func everyMistake() {
        let section = section([
            ("prot", .scalar("80")), ("host", .list([])), ("limit", .scalar("many")), ("color", .scalar("gren")),
            ("wait", .scalar("-1")), ("file", .scalar("x.pem")), ("flag", .scalar("maybe")), ("name", .scalar("  ")),
        ])
        _ = section.integer("port", in: 0...65535, default: 8080)
        _ = section.string("host", default: "")
        _ = section.integer("limit", in: 1...10, default: 5)
        _ = section.choice("color", default: Color.red)
        _ = section.seconds("wait", in: 0...10, default: .seconds(1))
        _ = section.file("file")
        _ = section.bool("flag", default: false)
        _ = section.requiredString("name", "a name")
        _ = section.requiredString("key", "a key")
        section.finish()
        let lines = section.report.issues.map(\.description)
        let expected = [
            "f.yaml:2:1: server.host: must be a single value, not a list or a map",
            "f.yaml:3:1: server.limit: \"many\" is not a whole number from 1 to 10",
            "f.yaml:4:1: server.color: \"gren\" is not allowed. Did you mean \"green\"? Allowed: red, green.",
            "f.yaml:5:1: server.wait: \"-1\" is not a number of seconds from 0 to 10",
            "f.yaml:6:1: server.file: not a token of ios-apns: no file x.pem",
            "f.yaml:7:1: server.flag: \"maybe\" is neither true nor false",
            "f.yaml:8:1: server.name: is empty. Write a name.",
            "f.yaml:1:1: server.key: is missing. Write a key.",
            "f.yaml:1:1: server.prot: unknown key. Did you mean \"port\"?",
        ]
        #expect(lines == expected)
        #expect(throws: ConfigurationError.self) { try section.report.throwIfFaulty() }
    }

    @Test("Every key that is read is recorded with its form and its default, whether it is there or not")
    func recordedKeys() {
        let section = section([("share", .scalar("2")), ("hue", .scalar("gren"))])
        #expect(section.integer("port", in: 1...Int.max, default: 8080) == 8080)
        #expect(section.number("rate", in: 0...10) == nil)
        #expect(section.number("share", in: 0...1) != nil, "a wrong number is there")
        #expect((section.choice("hue") as Color?) == nil && (section.choice("shade") as Color?) == nil)
        _ = section.requiredString("name", "a name")
        _ = section.optionalSeconds("wait", in: 0...10)
        _ = section.section("store")
        let keys = section.report.keys.map { "\($0.path), \($0.form), \($0.standard ?? "-"), \($0.isRequired)" }
        #expect(
            keys == [
                "server.port, whole number, 1 or more, 8080, false", "server.rate, number, 0 to 10, -, false",
                "server.share, number, 0 to 1, -, false", "server.hue, red, green, -, false",
                "server.shade, red, green, -, false", "server.name, text, -, true",
                "server.wait, seconds, 0 to 10, -, false", "server.store, map, -, false",
            ]
        )
        #expect(section.report.issues.map(\.path) == ["server.share", "server.hue", "server.name"])
    }

    @Test("A key that was asked for is known, also when reading ended before its value was wanted")
    func knownKeys() {
        let section = section([("key", .scalar("k")), ("kye", .scalar("k"))])
        for key in ["url", "key"] where !section.has(key) { section.missing(key, "a \(key)") }
        section.finish()
        let expected = [
            "f.yaml:1:1: server.url: is missing. Write a url.",
            "f.yaml:2:1: server.kye: unknown key. Did you mean \"key\"?",
        ]
        #expect(section.report.issues.map(\.description) == expected)
    }

    @Test("Every value in force is noted with its origin, a secret without its value")
    func settings() {
        let section = section([("host", .scalar("::1")), ("key", .scalar("hunter2"))])
        #expect(section.string("host", default: "127.0.0.1") == "::1")
        #expect(section.secret("key")?.reveal() == "hunter2")
        #expect(section.integer("port", in: 0...65535, default: 8080) == 8080)
        let settings = section.report.settings
        #expect(settings.map(\.path) == ["server.host", "server.key", "server.port"])
        #expect(settings.map(\.value) == ["::1", nil, "8080"])
        #expect(settings.map(\.origin.description) == ["f.yaml:1:1", "f.yaml:2:1", "default"])
    }

    @Test(
        "The nearest word is suggested, a far one is not",
        arguments: [("topci", "topic"), ("teamid", "team_id"), ("enviroment", "environment"), ("zzz", nil)]
    )
    func suggestions(word: String, expected: String?) {
        #expect(Suggestion.nearest(to: word, among: ["topic", "team_id", "environment"]) == expected)
    }

    private static func one(_ value: String, isQuoted: Bool = false) -> ConfigSection {
        var node = map([("key", .scalar(value)), ("ttl_seconds", .scalar(value))])
        if case .map(var entries) = node.value {
            for index in entries.indices { entries[index].node.isQuoted = isQuoted }
            node.value = .map(entries)
        }
        return ConfigSection(node, path: "server", report: ConfigReport(), files: NoFiles())
    }

    @Test(
        "Whole numbers are read as templates write them, and no others",
        arguments: [
            ("5000000", 5_000_000), ("5e+06", 5_000_000), ("5E6", 5_000_000), ("65536.0", 65536), ("1e3", 1000),
            ("+7", 7), ("0.5", nil), ("1e-3", nil), ("0x10", nil), ("nan", nil), ("inf", nil), ("1e400", nil),
            ("9007199254740993.0", nil), ("1e17", nil), ("5_000", nil), ("", nil), ("12 ", nil),
        ] as [(String, Int?)]
    )
    func wholeNumbers(text: String, number: Int?) {
        let section = Self.one(text)
        #expect(section.integer("key", in: 0...Int.max, default: -1) == number ?? -1)
        #expect(section.report.issues.isEmpty == (number != nil))
        #expect(section.report.settings.last?.value == number.map { String($0) })
    }

    @Test(
        "Truth values are read in any letter case; in quotes only true and false",
        arguments: [
            ("true", true, true), ("True", true, true), ("TRUE", true, true), ("False", false, false),
            ("yes", true, nil), ("Yes", true, nil), ("ON", true, nil), ("No", false, nil), ("off", false, nil),
            ("1", nil, nil), ("maybe", nil, nil),
        ] as [(String, Bool?, Bool?)]
    )
    func truth(text: String, plain: Bool?, quoted: Bool?) {
        for (value, isQuoted) in [(plain, false), (quoted, true)] {
            let section = Self.one(text, isQuoted: isQuoted)
            let read = section.bool("key", default: !(value ?? true))
            #expect(section.report.issues.isEmpty == (value != nil))
            if let value { #expect(read == value) }
        }
    }

    @Test(
        "A span with a unit is named with the number of seconds to write",
        arguments: [
            ("24h", "86400"), ("1h30m", "5400"), ("500ms", "0.5"), ("2 days", "172800"), ("15 minutes", "900"),
            ("PT15M", "900"), ("P1DT1H", "90000"), ("1w", "604800"), ("90S", "90"), ("soon", nil), ("h", nil),
            ("10 parsecs", nil), ("1h-", nil),
        ] as [(String, String?)]
    )
    func spans(text: String, seconds: String?) {
        let section = Self.one(text)
        _ = section.seconds("key", in: 0...1e6, default: .seconds(1))
        _ = section.integer("ttl_seconds", in: 0...100, default: 1)
        #expect(section.report.issues.count == 2)
        let fix = seconds.map { "Write \($0), the number of seconds." }
        #expect(section.report.issues.allSatisfy { $0.fix == fix }, "\(section.report.issues)")
    }

    @Test("A no-break space in a key is named, since it looks like a plain one")
    func otherBlanks() {
        let node = Self.map([("\u{A0}\u{A0}port", .scalar("1"))])
        let section = ConfigSection(node, path: "server", report: ConfigReport(), files: NoFiles())
        section.finish()
        #expect(section.report.issues.first?.fix?.contains("no-break space") == true, "\(section.report.issues)")
    }

    @Test(
        "A size with a unit is named with the number of bytes to write",
        arguments: [
            ("8MiB", "8388608"), ("8m", "8388608"), ("8 MB", "8000000"), ("512k", "524288"), ("1.5GiB", "1610612736"),
            ("100 bytes", "100"), ("64B", "64"), ("big", nil), ("8 parsecs", nil), ("-1M", nil), ("M", nil),
        ] as [(String, String?)]
    )
    func sizes(text: String, bytes: String?) {
        let node = Self.map([("max_body_bytes", .scalar(text)), ("port", .scalar(text))])
        let section = ConfigSection(node, path: "server", report: ConfigReport(), files: NoFiles())
        _ = section.integer("max_body_bytes", in: 0...10, default: 1)
        _ = section.integer("port", in: 0...10, default: 1)
        #expect(section.report.issues.map(\.fix) == [bytes.map { "Write \($0), the number of bytes." }, nil])
    }

    @Test(
        "The address of a proxy may have a user and a password, which no report shows",
        arguments: [
            ("http://proxy.example:3128", "http://proxy.example:3128", nil, nil),
            ("http://u:planted@proxy.example:3128", "http://proxy.example:3128", "u", "planted"),
            ("http://u%40x:planted%2F%3A@[::1]:3128/", "http://[::1]:3128", "u@x", "planted/:"),
            ("http://u:planted/@a@proxy.example", "http://proxy.example", "u", "planted/@a"),
            ("http://u:100%planted@proxy.example", "http://proxy.example", "u", "100%planted"),
            ("http://u@proxy.example", "http://proxy.example", "u", ""),
            ("HTTP://u:planted@Proxy.example:3128", "http://proxy.example:3128", "u", "planted"),
            ("Http://proxy.example", "http://proxy.example", nil, nil), ("1http://proxy.example", nil, nil, nil),
            ("http://u%3Ax:planted@proxy.example", nil, nil, nil), ("http://u:planted%0A@proxy.example", nil, nil, nil),
            ("http://u:planted@proxy.example:port", nil, nil, nil), ("u:planted@proxy.example:3128", nil, nil, nil),
        ] as [(String, String?, String?, String?)]
    )
    func proxies(text: String, endpoint: String?, user: String?, password: String?) {
        let section = Self.one(text)
        let proxy = section.proxy("key")
        #expect(proxy?.endpoint.description == endpoint)
        #expect(proxy?.credentials?.user == user && proxy?.credentials?.password.reveal() == password)
        #expect(section.report.issues.isEmpty == (endpoint != nil))
        let shown = section.report.issues.map(\.description) + section.report.settings.map { $0.value ?? "" }
        #expect(endpoint == nil || !shown.joined().contains("planted"), "\(shown)")
        #expect(!section.report.issues.map(\.description).joined().contains("planted"))
    }

    @Test(
        "A SOCKS proxy is told as one",
        arguments: ["socks5://u:planted@proxy.example:1080", "SOCKS5H://proxy.example"]
    )
    func socks(text: String) {
        let section = Self.one(text)
        #expect(section.proxy("key")?.endpoint == nil)
        let said = section.report.issues.map(\.description).joined()
        #expect(said.contains("is a SOCKS proxy") && said.contains("http://host:port"), "\(said)")
        #expect(!said.contains("planted"))
    }

    @Test("A credential may stand in the place of its file's name; neither a report nor a mistake shows it")
    func credentialInPlaceOfFile() {
        let whole = "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----"
        for text in [whole, whole.replacing("\n", with: "\\n"), "'\(whole)'", #"{"private_key": "planted"}"#] {
            let section = Self.one(text)
            #expect(section.credentialFile("key")?.reveal() == text)
            #expect(section.report.issues.isEmpty && section.report.settings.map(\.value) == [nil])
            let other = Self.one(text)
            #expect(other.privateKey("key") == nil && other.certificates("ttl_seconds") == nil)
            #expect(other.report.issues.count == 2)
            #expect(!other.report.issues.map(\.description).joined().contains("planted"), "\(other.report.issues)")
        }
        // A damaged first line makes no name of a file of a key.
        for mark in ["—", "----", "–––––"] {
            let damaged = whole.replacing("-----", with: mark) + String(repeating: "A", count: 100)
            let section = Self.one(damaged)
            #expect(section.privateKey("key") == nil)
            let said = section.report.issues.map(\.description).joined()
            #expect(said.contains("its first line is damaged") && !said.contains("planted"), "\(said)")
        }
        // The last is base64 of "{key}".
        for name in ["AuthKey.p8", "/run/secrets/AuthKey", "e2tleX0"] {
            let section = Self.one(name)
            #expect(section.credentialFile("key") == nil)
            #expect(section.report.issues.first?.problem.contains("no file \(name)") == true)
        }
    }

    @Test("A word is read in any letter case, and noted as it is spelt", arguments: ["red", "Red", "RED"])
    func words(text: String) {
        let section = Self.one(text)
        #expect(section.choice("key", default: Color.green) == .red)
        #expect(section.report.issues.isEmpty)
        #expect(section.report.settings.last?.value == "red")
        #expect(Suggestion.same(as: "a", among: ["A", "a"]) == "a", "the same word goes before")
    }

    @Test(
        "Other names of a platform suggest its kind, and letter case makes no difference",
        arguments: [("firebase", "null"), ("GCM", "null"), ("nul", "null"), ("zzz", nil), ("Null", nil)]
            as [(String, String?)]
    )
    func otherNames(word: String, suggested: String?) throws {
        let factory = BackendFactory("null", otherNames: ["firebase", "gcm"], summary: "") { _, _ in NullBackend() }
        let report = ConfigReport()
        let node = Self.map([("droid", Self.map([("kind", .scalar(word))]).value)])
        let section = ConfigSection(node, path: "backends", report: report, files: NoFiles())
        let made = try BackendRegistry([factory]).backends(in: section) {
            BackendContext(name: $0, http: NoTransport(), logger: Logger(label: "test"))
        }
        #expect(made.isEmpty == (word != "Null"))
        let hint = suggested.map { "Did you mean \"\($0)\"? " } ?? ""
        #expect(report.issues.first?.fix == (word == "Null" ? nil : "\(hint)Allowed: null."))
    }

    @Test("The registry makes backends by kind and names every mistake of each")
    func registry() throws {
        let factory = BackendFactory("null", summary: "takes everything") { section, _ in
            section.requiredString("topic", "a topic") == nil ? nil : NullBackend()
        }
        let registry = try BackendRegistry([factory])
        let report = ConfigReport()
        let node = Self.map([
            (
                "good",
                Self.map([("kind", .scalar("null")), ("topic", .scalar("a")), ("rate_limit", .scalar("50"))]).value
            ),
            ("bad name", Self.map([("kind", .scalar("null"))]).value),
            ("other", Self.map([("kind", .scalar("nul"))]).value),
            ("poor", Self.map([("kind", .scalar("null")), ("topik", .scalar("a"))]).value),
            ("none", .null),
        ])
        let section = ConfigSection(node, path: "backends", report: report, files: NoFiles())
        let backends = registry.backends(in: section) {
            BackendContext(name: $0, http: NoTransport(), logger: Logger(label: "test"))
        }
        #expect(backends.map(\.name) == ["good"])
        #expect(backends.first?.pacing == Pacing(perSecond: 50))
        #expect(
            report.issues.map(\.path) == [
                "backends.bad name", "backends.other.kind", "backends.poor.topic", "backends.poor.topik",
                "backends.none",
            ]
        )
    }

    @Test(
        "The notice of an app's backend names the device by its key",
        arguments: [("shop", "shop/phone-1"), (nil, "phone-1")]
    )
    func announcedDevice(app: String?, device: String) throws {
        let factory = BackendFactory("null", summary: "announces at once") { _, context in
            context.announce(BackendNotice(.info, "seen", device: "phone-1", message: "is there"))
            return NullBackend()
        }
        let announced = Mutex<[String?]>([])
        let app = app.map { [("app", ConfigNode.Value.scalar($0))] } ?? []
        let node = Self.map([("one", Self.map([("kind", .scalar("null"))] + app).value)])
        let section = ConfigSection(node, path: "backends", report: ConfigReport(), files: NoFiles())
        let backends = try BackendRegistry([factory]).backends(in: section, apps: [AppName(rawValue: "shop")]) {
            BackendContext(name: $0, http: NoTransport(), logger: Logger(label: "test")) { notice in
                announced.withLock { $0.append(notice.device) }
            }
        }
        #expect(backends.count == 1)
        #expect(announced.withLock { $0 } == [device])
    }

    @Test("Two factories of one kind are refused")
    func duplicates() {
        let factory = BackendFactory("null", summary: "") { _, _ in nil }
        #expect(throws: BackendRegistry.DuplicateKind.self) { try BackendRegistry([factory, factory]) }
    }

    private struct NullBackend: PushBackend {
        let kind: BackendKind = "null"
        let audience = BackendAudience(services: [.iOSAPNs])
        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}
    }

    private struct NoTransport: HTTPTransport {
        func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
            throw HTTPPoolError("no network in this test")
        }
    }
}
