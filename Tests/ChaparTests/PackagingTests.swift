import Foundation
import Testing

/// What a package that adds Chapar relies on, as far as the sources show it; what is fetched for it: `.ci/apns-only`.
@Suite("As a package", .timeLimit(.minutes(2)))
struct PackagingTests {
    /// A public enum: its name with those of the types around it, and its attributes.
    struct PublicEnum: Equatable {
        var name: String
        var mayGrow: Bool
        var hasCases: Bool
    }

    /// The public enums of a source, by the indentation that swift-format keeps.
    static func enums(in source: String) -> [PublicEnum] {
        let head =
            #/^ *(public |package |internal |fileprivate |private )?(?:final |indirect )*(struct|class|enum|actor|extension|protocol) ([\w.]+)/#
        guard source.range(of: "public enum ") != nil || source.range(of: "public indirect enum ") != nil else {
            return []
        }
        var found: [PublicEnum] = []
        var around: [(indent: Int, name: String, index: Int?)] = []
        var mayGrow = false
        for line in source.split(separator: "\n") where !line.allSatisfy({ $0 == " " }) {
            let indent = line.prefix { $0 == " " }.count
            let words = line.dropFirst(indent)
            if words.hasPrefix("//") || words.hasPrefix("#") { continue }
            if words == "@nonexhaustive" { mayGrow = true }
            if words.hasPrefix("@") { continue }
            around.removeAll { $0.indent >= indent }
            if words.hasPrefix("case ") || words.hasPrefix("indirect case "), let type = around.last,
                type.indent + 4 == indent
            {
                if let index = type.index { found[index].hasCases = true }
            }
            // Only of lines that can be one: a debug build takes its time over an expression.
            if line.utf8.last == UInt8(ascii: "{") || words.hasSuffix("}"),
                let match = String(line).firstMatch(of: head)
            {
                let name = (around.map(\.name) + [String(match.output.3)]).joined(separator: ".")
                let isEnum = match.output.1 == "public " && match.output.2 == "enum"
                if isEnum {
                    found.append(PublicEnum(name: name, mayGrow: mayGrow, hasCases: words.contains("{ case ")))
                }
                around.append((indent, String(match.output.3), isEnum ? found.count - 1 : nil))
            }
            mayGrow = false
        }
        return found
    }

    private static func sources() throws -> [(path: String, text: String)] {
        try ["Sources", "Plugins"].flatMap { folder in
            let place = Page.root.appending(path: folder)
            let files = FileManager.default.enumerator(atPath: place.path)?.allObjects as? [String] ?? []
            return try files.filter { $0.hasSuffix(".swift") }
                .map { ("\(folder)/\($0)", try String(contentsOf: place.appending(path: $0), encoding: .utf8)) }
        }
    }

    @Test("An enum with its mark, one without, and one without cases are told apart")
    func scanner() {
        let source = """
            public struct Plan {
                /// What it does.
                @nonexhaustive
                public enum Step: Sendable {
                    case go
                    public var isLast: Bool {
                        switch self {
                        case .go: true
                        }
                    }
                }
                public indirect enum Value { case one }
            }
            public enum Names {
                static let first = "first"
            }
            extension Plan.Step {
                @nonexhaustive
                public enum Speed {
                    #if HTTP1
                    #endif
                    case slow
                }
            }
            enum Own { case one }
            """
        #expect(
            Self.enums(in: source) == [
                PublicEnum(name: "Plan.Step", mayGrow: true, hasCases: true),
                PublicEnum(name: "Plan.Value", mayGrow: false, hasCases: true),
                PublicEnum(name: "Names", mayGrow: false, hasCases: false),
                PublicEnum(name: "Plan.Step.Speed", mayGrow: true, hasCases: true),
            ]
        )
    }

    @Test("A public enum may grow, or docs/Swift.md says that it does not")
    func enums() throws {
        let page = try Page("docs/Swift.md").text
        let list = try #require(page.firstMatch(of: #/(?s)<!-- closed enums -->(.*?)<!-- end -->/#)).output.1
        let closed = Set(list.matches(of: #/`([\w.]+)`/#).map { String($0.output.1) })
        var found: Set<String> = []
        for (path, text) in try Self.sources() {
            for type in Self.enums(in: text) where type.hasCases {
                found.insert(type.name)
                let isClosed = closed.contains(type.name) || path.hasPrefix("Sources/ChaparQueue/")
                #expect(type.mayGrow != isClosed, "\(path): \(type.name)")
            }
        }
        #expect(found.count > 100, "the scanner finds them")
        #expect(closed.subtracting(found).sorted() == [], "docs/Swift.md names what is no public enum")
    }

    @Test("Every package that APNs does not need stands under a trait, in every target that names it")
    func traits() throws {
        func text(_ path: String) throws -> String {
            try String(contentsOf: Page.root.appending(path: path), encoding: .utf8)
        }
        // What `.ci/apns-only` lets be fetched.
        let list = try #require(try text(".ci/apns-only").firstMatch(of: #/ALLOWED = set\(\s*"""([^"]+)"""/#)).output.1
        let free = Set(list.split { $0.isWhitespace }.map(String.init))
        let manifest = try text("Package.swift")
        let packages = manifest.matches(of: #/\.package\(url: "[^"]*/([\w.-]+)"/#).map { String($0.output.1) }
        #expect(packages.contains("hummingbird") && packages.contains("swift-nio"))
        for package in packages where !free.contains(package) {
            // One target without the condition is enough for SwiftPM to fetch the package.
            for product in manifest.matches(of: #/\.product\(name: "\w+", package: "([\w.-]+)"(.)/#)
            where product.output.1 == package {
                #expect(product.output.2 == ",", "\(product.output.0)")
            }
        }
    }

    @Test("A module that a trait brings packages for says so where the trait is off")
    func neededTraits() throws {
        let manifest = try String(contentsOf: Page.root.appending(path: "Package.swift"), encoding: .utf8)
        // ChaparHTTP does without its traits; of the needs of commands ChaparCommands speaks, which they are built after.
        let optional: Set = ["ChaparHTTP", "ChaparReleaseNotesCommand", "ChaparWebPushCommand"]
        let names = [
            "http1": "HTTP1", "lifecycle": "ServiceLifecycleSupport", "observability": "ObservabilitySupport",
            "gateway": "Gateway", "commands": "Commands",
        ]
        let levels = ["HTTP1", "ServiceLifecycleSupport", "ObservabilitySupport", "Gateway", "Commands"]
        var checked: Set<String> = []
        for text in manifest.split(separator: #/\n {8}(?=\.|plugin\(|simulator\()/#) {
            guard let head = text.prefixMatch(of: #/(?:\.target|plugin)\(\s*(?:name: )?"(\w+)",/#) else { continue }
            let module = String(head.output.1)
            let path = text.firstMatch(of: #/path: "([^"]+)"/#).map { String($0.output.1) }
            let plugin = text.firstMatch(of: #/at: "([^"]+)"/#).map { "Plugins/\($0.output.1)" }
            let folder = path ?? plugin ?? "Sources/\(module)"
            guard !folder.hasPrefix("Tests/"), !optional.contains(module) else { continue }
            let traits = text.matches(of: #/condition: (\w+)\)/#).compactMap { names[String($0.output.1)] }
            guard let trait = levels.last(where: { traits.contains($0) }) else { continue }
            let file = Page.root.appending(path: "\(folder)/NeededTrait.swift")
            let words = try String(contentsOf: file, encoding: .utf8)
            #expect(words.contains("#if !\(trait)\n    #error("), "\(module)")
            checked.insert(module)
        }
        #expect(
            checked == [
                "ChaparObservability", "ChaparStoreSQLite", "ChaparDelivery", "ChaparAPI", "ChaparServer",
                "ChaparGateway", "ChaparCommands",
            ]
        )
    }

    @Test("One file tells C libraries and systems apart")
    func cLibrary() throws {
        let own = "Sources/ChaparCore/Support/CLibrary.swift"
        let words = [
            "import Glibc", "import Musl", "import Darwin", "Glibc.", "canImport(", "#if os(", "__rlimit_resource_t",
            "SOCK_STREAM", "SOCK_DGRAM", "MSG_NOSIGNAL", "fdatasync",
        ]
        var told: Set<String> = []
        for (path, text) in try Self.sources() {
            for word in words where text.range(of: word, options: .literal) != nil {
                #expect(path == own, "\(path): \(word) belongs into \(own)")
                told.insert(word)
            }
        }
        #expect(told.contains("import Glibc"))
    }

    @Test("Targets documented by the Swift Package Index are libraries without system libraries")
    func index() throws {
        let text = try String(contentsOf: Page.root.appending(path: ".spi.yml"), encoding: .utf8)
        // A longer file is passed over without a word.
        #expect(text.utf8.count <= 1_000)
        let manifest = try String(contentsOf: Page.root.appending(path: "Package.swift"), encoding: .utf8)
        let named = text.matches(of: #/(?m)^ +- (Chapar\w+)$/#).map { String($0.output.1) }
        #expect(named.count > 5)
        let linking = [
            "ChaparHTTP", "ChaparGateway", "ChaparCommands", "ChaparSimulator", "ChaparSandbox", "ChaparStoreSQLite",
            "ChaparStorePostgres",
        ]
        for name in named where Platforms.missing.isEmpty {
            #expect(manifest.contains(".library(name: \"\(name)\""), "\(name)")
            #expect(!linking.contains(name), "\(name)")
        }
    }
}
