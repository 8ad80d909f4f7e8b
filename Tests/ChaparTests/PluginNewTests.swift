import Foundation
import ChaparCore
import Testing

@testable import ChaparCommands

/// The package that `plugin new` writes is `Examples/custom-plugin`, which `.ci/custom-plugin` builds and tests.
@Suite("chapar plugin new", .timeLimit(.minutes(2)))
struct PluginNewTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    private static func files(in folder: URL) -> [String: String] {
        let walk = FileManager.default.enumerator(atPath: folder.path)?.allObjects as? [String] ?? []
        return walk.reduce(into: [:]) { files, path in
            guard let text = try? String(contentsOf: folder.appending(path: path), encoding: .utf8) else { return }
            files[path] = text
        }
    }

    @Test("The example that CI builds is what the template makes")
    func example() throws {
        var words = try PluginNames("SMS", program: "gate").words
        words["chapar"] = #".package(name: "chapar", path: "../..")"#
        let folder = Self.root.appending(path: "Examples/custom-plugin")
        var found = Self.files(in: folder).filter { !$0.key.hasPrefix(".build/") && $0.key != "Package.resolved" }
        for (path, text) in PluginTemplate.swift.filled(words) {
            #expect(
                found.removeValue(forKey: path) == text,
                "\(path); mend it with: rm -r Examples/custom-plugin; chapar plugin new SMS --program gate --dir Examples/custom-plugin"
            )
            #expect(!text.contains("@Name@") && !text.contains("@kind@") && !text.contains("@program@"))
            #expect(text.split(separator: "\n").allSatisfy { $0.count <= 130 }, "\(path)")
        }
        #expect(found.isEmpty, "\(found.keys.sorted())")
    }

    @Test("Each way to authenticate has its own lines and none of the other's", arguments: PluginAuth.allCases)
    func auth(auth: PluginAuth) throws {
        var words = try PluginNames("SMS", program: "gate").words
        words["chapar"] = #".package(name: "chapar", path: "../..")"#
        let files = PluginTemplate.swift.filled(words, auth: auth)
        let all = files.map { $0.text }.joined()
        #expect(files.count == 13 && !all.contains("@+"))
        #expect(all.contains("OAuth2ClientCredentials") == (auth == .oauth2))
        #expect(all.contains("client_secret") == (auth == .oauth2))
        #expect(all.contains(#"section.secret("key")"#) == (auth == .key))
        #expect(all.split(separator: "\n").allSatisfy { $0.count <= 130 })
    }

    @Test("A recipient that is an address has the kit's parts for it", arguments: PluginAuth.allCases)
    func recipient(auth: PluginAuth) throws {
        var words = try PluginNames("SMS", program: "gate").words
        words["chapar"] = #".package(name: "chapar", path: "../..")"#
        for recipient in PluginRecipient.allCases {
            let files = PluginTemplate.swift.filled(words, auth: auth, recipient: recipient)
            let all = files.map { $0.text }.joined()
            #expect(files.count == 13 && !all.contains("@+"))
            for part in ["HTTPPools(", "HTTPAddress(url:", ".isBelow(", "checked(_ token:", "hostileRecipients"] {
                #expect(all.contains(part) == (recipient == .url), "\(part)")
            }
            #expect(all.contains(".addresses]") == (recipient == .word))
            #expect(all.contains("AuthorizedTransport") == (auth == .oauth2))
            #expect(all.split(separator: "\n").allSatisfy { $0.count <= 130 })
        }
    }

    @Test("--here and --recipient url go together; a service in Python has no such recipients")
    func recipientHere() async throws {
        let folder = try Self.tree()
        defer { folder.remove() }
        let arguments = ["plugin", "new", "Bells", "--recipient", "url"]
        let python = try await Program.run(arguments + ["--language", "python"], in: folder.url)
        #expect(python.status == 2 && python.errors.contains("--recipient"), "\(python.errors)")
        let made = try await Program.run(arguments + ["--here"], in: folder.url)
        #expect(made.status == 0, "\(made.errors)")
        let backend = Self.files(in: folder.url)["Plugins/Bells/BellsBackend.swift"]
        #expect(backend?.contains("HTTPPools") == true)
    }

    @Test(
        "Access tokens are for a package in Swift",
        arguments: [["--here"], ["--language", "python"]]
    )
    func wrongAuth(arguments: [String]) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let made = try await Program.run(["plugin", "new", "pager", "--auth", "oauth2"] + arguments, in: folder.url)
        #expect(made.status == 2 && made.errors.contains("--auth"), "\(made.errors)")
        #expect(Self.files(in: folder.url).isEmpty)
    }

    static let names: [(String, [String])] = [
        ("SMS", ["SMS", "sms", "sms"]), ("pager", ["Pager", "pager", "pager"]),
        ("my-chat", ["MyChat", "myChat", "my-chat"]), ("MyChat", ["MyChat", "myChat", "my-chat"]),
        ("chat2", ["Chat2", "chat2", "chat2"]),
    ]

    @Test("A name becomes those of types, members and the kind", arguments: names)
    func naming(name: String, expected: [String]) throws {
        let names = try PluginNames(name)
        #expect([names.type, names.member, names.kind] == expected)
        #expect(TokenService.named("x-\(names.kind)") != nil && names.program == "\(names.kind)-gateway")
    }

    static let taken: [(String, String?)] = [
        ("Server", nil), ("delivery", nil), ("API", nil), ("OneSignal", nil), ("onesignal", nil), ("Http", nil),
        ("one-signal-devices", nil), ("store-postgres", nil), ("release-notes", nil), ("simulation", nil),
        ("fuzz", nil), ("altcraft-sdk", nil), ("one-signal-tests", nil), ("push", nil), ("Token", nil), ("known", nil),
        ("class", nil), ("default", nil), ("Protocol", nil),
        ("sms", "ChaparCore"), ("sms", "chaparcore"), ("sms", "chapar"), ("sms", "Embedded"), ("sms", "GRDB"),
        ("sms", "Testing"), ("sms", "main"), ("sms", "2sms"), ("sms", "-"),
        ("sms", "ChaparSms"), ("SMS", "ChaparSms"), ("sms", "ChaparSmsSimulator"), ("sms", "chaparsmstests"),
    ]

    @Test("Names of Chapar's and of Swift's are refused, for a plugin and for its program", arguments: taken)
    func refused(name: String, program: String?) {
        do {
            _ = try PluginNames(name, program: program)
            Issue.record("\(name) \(program ?? "") was accepted")
        } catch {
            #expect("\(error)".hasPrefix("\"\(program ?? name)\" is "), "\(error)")
        }
    }

    @Test("The names that cannot be taken are those of the manifest")
    func manifestNames() throws {
        let manifest = try String(contentsOf: Self.root.appending(path: "Package.swift"), encoding: .utf8)
        let kinds = #/(?:arget|systemLibrary|plugin|simulator|pluginTests)\(\s*(?:name: )?"(\w+)"/#
        let targets = Set(manifest.matches(of: kinds).map { String($0.output.1) })
        let products = Set(manifest.matches(of: #/\.product\(name: "(\w+)"/#).map { String($0.output.1) })
        #expect(targets.count > 40 && products.count > 20)
        #expect(targets.subtracting(TakenNames.targets).sorted() == [], "list them in TakenNames.targets")
        #expect(products.subtracting(TakenNames.products).sorted() == [], "list them in TakenNames.products")
    }

    @Test("A package is written once, where nothing stands, and knows the way to Chapar")
    func package() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let arguments = ["plugin", "new", "pager", "--chapar", Self.root.path]
        let made = try await Program.run(arguments + ["--json"], in: folder.url)
        #expect(made.status == 0, "\(made.errors)")
        let files = Self.files(in: folder.url.appending(path: "push-pager"))
        #expect(made.lines.count == files.count && files.count == 13)
        let manifest = try #require(files["Package.swift"])
        let path = try #require(manifest.split(separator: "path: \"").dropFirst().first?.prefix { $0 != "\"" })
        let chapar = folder.url.appending(path: "push-pager").appending(path: String(path)).standardizedFileURL
        #expect(chapar.path == Self.root.path, "\(path)")
        let again = try await Program.run(arguments, in: folder.url)
        #expect(again.status == 2 && again.errors.contains("exists"), "\(again.errors)")
        let mistakes = [
            ["apns"], ["Server"], ["pager", "--program", "chapar"], ["2x"], ["a b"], ["é"],
            ["pager", "--here", "--language", "python"], ["--", "-x"],
        ]
        for mistake in mistakes {
            #expect(try await Program.run(["plugin", "new"] + mistake, in: folder.url).status == 2, "\(mistake)")
        }
        let nowhere = try await Program.run(["plugin", "new", "other"], in: folder.url)
        #expect(nowhere.status == 2 && nowhere.errors.contains("--chapar"), "\(nowhere.errors)")
    }

    private static let takenNames = "Sources/ChaparCommands/Plugin/TakenNames.swift"

    /// A copy of the files of the tree that list its plugins.
    private static func tree() throws -> TestFolder {
        let folder = try TestFolder()
        for list in ["Package.swift", takenNames, "Sources/chapar/Plugins.swift", "Plugins/README.md"] {
            let text = try String(contentsOf: root.appending(path: list), encoding: .utf8)
            try PluginTemplate.write(text, to: folder.url.appending(path: list).path)
        }
        return folder
    }

    @Test("--here writes a plugin of the tree: its files by their roles, its targets, its registration")
    func here() async throws {
        let folder = try Self.tree()
        defer { folder.remove() }
        let made = try await Program.run(["plugin", "new", "MyChat", "--here"], in: folder.url)
        #expect(made.status == 0, "\(made.errors)")
        let files = Self.files(in: folder.url)
        for file in [
            "Plugins/MyChat/MyChatPlugin.swift", "Plugins/MyChat/MyChatOptions.swift",
            "Plugins/MyChat/MyChatBackend.swift", "Plugins/MyChat/Answers/MyChatWire.swift",
            "Plugins/MyChat/Answers/MyChatRejections.swift", "Plugins/MyChat/Simulator/MyChatService.swift",
            "Tests/ChaparMyChatTests/MyChatBackendTests.swift",
        ] {
            let text = try #require(files[file], "\(file)")
            #expect(text.contains("import ChaparMyChatSimulator") == file.hasPrefix("Tests/"), "\(file)")
            #expect(
                text.contains("import ChaparSimulator") == (file.hasPrefix("Tests/") || file.contains("/Simulator/")),
                "\(file)"
            )
        }
        let manifest = try #require(files["Package.swift"])
        for line in [
            #".library(name: "ChaparMyChat", targets: ["ChaparMyChat"]),"#,
            #"plugin("ChaparMyChat", at: "MyChat", exclude: ["Simulator"]),"#,
            #"simulator("ChaparMyChatSimulator", at: "MyChat"),"#,
            #"pluginTests("ChaparMyChatTests", ["ChaparMyChat", "ChaparMyChatSimulator"]),"#,
            #""ChaparMyChat", "ChaparMyChatSimulator","#,
        ] {
            #expect(manifest.contains("        " + line + "\n"), "\(line)")
        }
        let registration = try #require(files["Sources/chapar/Plugins.swift"])
        for line in [
            "import ChaparMyChat", "import ChaparMyChatSimulator", "            .myChat,",
            "        simulators: [{ MyChatService() }],",
        ] {
            #expect(registration.contains(line + "\n"), "\(line)")
        }
        let taken = try #require(files[Self.takenNames])
        #expect(taken.contains(#"        "ChaparMyChat", "ChaparMyChatSimulator", "ChaparMyChatTests","# + "\n"))
        let row = "| `MyChat` | Plugin Options Backend |  |  |  |  |  |  | Wire Rejections |"
        #expect(files["Plugins/README.md"]?.contains(row) == true)
        #expect(try await Program.run(["plugin", "new", "MyChat", "--here"], in: folder.url).status == 2)
    }

    @Test("--here goes with plugins that were written so before; a tree in which it misses its place stays as it is")
    func hereAgain() async throws {
        let folder = try Self.tree()
        defer { folder.remove() }
        for name in ["MyChat", "MyMail"] {
            #expect(try await Program.run(["plugin", "new", name, "--here"], in: folder.url).status == 0)
        }
        for name in ["Mychat", "MyChatSimulator"] {
            let twice = try await Program.run(["plugin", "new", name, "--here"], in: folder.url)
            #expect(twice.status == 2 && twice.errors.contains("has a target Chapar\(name)"), "\(twice.errors)")
        }
        let files = Self.files(in: folder.url)
        let registration = try #require(files["Sources/chapar/Plugins.swift"])
        #expect(registration.contains("        simulators: [{ MyMailService() }, { MyChatService() }],\n"))
        #expect(registration.components(separatedBy: "simulators:").count == 2)
        for name in ["MyChat", "MyMail"] { #expect(registration.contains("import Chapar\(name)Simulator\n")) }
        let manifest = try #require(files["Package.swift"])
        let indent = String(repeating: " ", count: 16)
        let entries = [#""ChaparMyMail", "ChaparMyMailSimulator","#, #""ChaparMyChat", "ChaparMyChatSimulator","#]
            .map { indent + $0 + "\n" }
        #expect(manifest.contains(entries.joined()))

        let list = folder.url.appending(path: "Sources/chapar/Plugins.swift")
        try Data(registration.replacing(".service,", with: "").utf8).write(to: list)
        let refused = try await Program.run(["plugin", "new", "Other", "--here"], in: folder.url)
        #expect(refused.status != 0 && refused.errors.contains("has no line with"), "\(refused.errors)")
        #expect(!Self.files(in: folder.url).keys.contains { $0.contains("Other") })
    }

    @Test("A service in Python passes its tests, and a gateway sends through it", .about("http"))
    func python() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let made = try await Program.run(["plugin", "new", "pager", "--language", "python"], in: folder.url)
        #expect(made.status == 0, "\(made.errors)")
        let place = folder.url.appending(path: "push-pager")
        let interpreter = URL(filePath: "/usr/bin/python3")
        let tests = try await Child(["-m", "unittest", "-q"], in: place, executable: interpreter).end()
        #expect(tests.status == 0, "\(tests.errors)")

        let secret = "whsec_c2FuZGJveC1zZWNyZXQtb2YtdGhlLXNlcnZpY2U="
        let service = try Child(["service.py", "0", secret], in: place, executable: interpreter)
        defer { service.kill() }
        let port = try await Program.wait("the service") {
            service.output.hasSuffix("\n")
                ? service.output.split(separator: " ").last.flatMap { Int($0.dropLast()) } : nil
        }
        let config = place.appending(path: "gateway.yaml")
        let text = try String(contentsOf: config, encoding: .utf8)
        try text.replacing("port: 8080", with: "port: 0").write(to: config, atomically: true, encoding: .utf8)
        let gateway = try Child(
            ["serve", "--json", "--config", config.path],
            environment: ["PAGER_URL": "http://127.0.0.1:\(port)/push"]
        )
        defer { gateway.kill() }
        let line = try await Program.wait("listening") { gateway.output.hasSuffix("\n") ? gateway.output : nil }
        let url = try #require(try JSONValue(parsing: Array(line.utf8))["url"]?.stringValue)
        let sent = try await Program.run(["send", "--url", url, "--to", "x-pager:address-1", "Hello"])
        #expect(sent.status == 0 && sent.output.contains("ref-"), "\(sent.output)\(sent.errors)")
        let gone = try await Program.run(["send", "--url", url, "--to", "x-pager:gone-1", "Hello", "--json"])
        #expect(gone.status == 1 && gone.output.contains("unknown_address"), "\(gone.output)")
    }
}
