import Foundation
import Testing

extension GeneratedDocumentsTests {
    @Test("The signatures of what a plugin meets are those of the sources")
    func interfaces() throws {
        let page = "docs/Interfaces.md"
        let declarations = try Declarations.read([
            "Sources/ChaparCore", "Sources/ChaparOAuth", "Sources/ChaparJSON", "Sources/ChaparModules",
            "Sources/ChaparComposition/Tokens", "Sources/ChaparHTTP", "Sources/ChaparSimulator/CustomPlatform",
            "Sources/ChaparTesting",
            "Tests/StoreContract",
        ])
        let text = try String(contentsOf: Page.root.appending(path: page), encoding: .utf8)
        let parts = text.matches(of: #/(?m)^<!-- generated: (protocol|type) (\w+) -->$/#)
        #expect(parts.count > 30)
        for part in parts {
            let (form, name) = (String(part.output.1), String(part.output.2))
            let type = try #require(declarations.types[name], "\(page): no source declares \(name)")
            #expect((form == "protocol") == type.isProtocol, "\(page): \(name)")
            let lines = form == "protocol" ? declarations.requirements(of: type) : declarations.members(of: type)
            try Self.hold(page, "\(form) \(name)", lines)
        }
        let named = Set(parts.map { String($0.output.2) })
        let protocols = declarations.types.values.filter {
            $0.isProtocol && ($0.file.hasPrefix("Sources/ChaparCore") || $0.file.hasPrefix("Sources/ChaparModules"))
        }
        #expect(Set(protocols.map(\.name)).subtracting(named).sorted() == [], "protocols that the page leaves out")
    }
}

/// The public declarations of some folders, read from the sources by their indentation, which swift-format keeps.
struct Declarations {
    struct Member {
        var signature: String
        var summary: String
        /// The name, with a function's labels: it is unique among its siblings.
        var key: String
    }

    struct Declared {
        var name: String
        var file: String
        var isProtocol: Bool
        var summary: String
        var requirements: [Member] = []
        /// Of the type and its public extensions.
        var members: [Member] = []
    }

    private(set) var types: [String: Declared] = [:]
    /// Members of extensions, by the name of what is extended.
    private var extensions: [String: [Member]] = [:]

    static func read(_ folders: [String]) throws -> Declarations {
        var declarations = Declarations()
        for folder in folders {
            let place = Page.root.appending(path: folder)
            let files = FileManager.default.enumerator(atPath: place.path)?.allObjects as? [String] ?? []
            for file in files.sorted() where file.hasSuffix(".swift") {
                let text = try String(contentsOf: place.appending(path: file), encoding: .utf8)
                declarations.read(text.components(separatedBy: "\n"), "\(folder)/\(file)")
            }
        }
        return declarations
    }

    /// The table of what a protocol requires, with what stands in where a type says nothing, and of what its extensions
    /// add.
    func requirements(of type: Declared) -> [String] {
        let defaults = Dictionary((extensions[type.name] ?? []).map { ($0.key, $0.summary) }) { first, _ in first }
        let rows = type.requirements.map { member in
            let standard = defaults[member.key].map { $0.isEmpty ? "has one" : $0 } ?? "**required**"
            return "| `\(member.signature)` | \(standard) | \(member.summary) |"
        }
        let required = Set(type.requirements.map(\.key))
        let given = (extensions[type.name] ?? []).filter { !required.contains($0.key) }
            .map { "| `\($0.signature)` | given | \($0.summary) |" }
        let head = ["\(type.summary) ([source](../\(type.file)))", ""]
        return head + ["| member | default | what it is |", "| --- | --- | --- |"] + rows + given
    }

    /// The table of a type's public members.
    func members(of type: Declared) -> [String] {
        let rows = (type.members + (extensions[type.name] ?? [])).map { "| `\($0.signature)` | \($0.summary) |" }
        let head = ["\(type.summary) ([source](../\(type.file)))", ""]
        return head + ["| member | what it is |", "| --- | --- |"] + rows
    }

    // MARK: Reading

    private enum Scope {
        case type(String), extended(String), other
    }

    private mutating func read(_ lines: [String], _ file: String) {
        var scope = Scope.other
        var (nested, doc): (String?, [String]) = (nil, [])
        for index in lines.indices {
            let line = lines[index]
            let indent = line.prefix { $0 == " " }.count
            let words = line.dropFirst(indent)
            if words.hasPrefix("///") {
                doc.append(String(words.dropFirst(3)).trimmingCharacters(in: .whitespaces))
                continue
            }
            // A head on several lines has its brace on a line of its own.
            if words.isEmpty || words == "{" || words.hasPrefix("@") || words.hasPrefix("//") { continue }
            defer { doc = [] }
            if words.hasPrefix("}") {
                if indent == 4 { nested = nil }
                if indent == 0 { scope = .other }
                continue
            }
            if indent == 0 {
                scope = begin(String(words), Self.summary(doc), file)
            } else if let name = Self.name(ofType: words), indent == 4 {
                nested = words.hasSuffix("{") ? name : nil
            }
            guard indent == 4 || (indent == 8 && nested != nil) else { continue }
            note(Self.signature(lines, index), in: scope, indent == 8 ? nested : nil, Self.summary(doc))
        }
    }

    /// A declaration that is not indented.
    private mutating func begin(_ line: String, _ summary: String, _ file: String) -> Scope {
        if let match = line.firstMatch(of: #/^extension (\w+)(?:(?: where|:) [^{]*)?(?: \{|$)/#) {
            return .extended(String(match.output.1))
        }
        guard let match = line.firstMatch(of: #/^public (?:final |indirect )*(protocol|struct|class|enum|actor) (\w+)/#)
        else {
            return .other
        }
        let name = String(match.output.2)
        types[name] = Declared(name: name, file: file, isProtocol: match.output.1 == "protocol", summary: summary)
        return .type(name)
    }

    private mutating func note(_ signature: String, in scope: Scope, _ nested: String?, _ summary: String) {
        let isCase = signature.hasPrefix("case ")
        let plain = signature.replacing(
            #/^public (?=(static |mutating |let |var |func |init|subscript|convenience |typealias ))/#,
            with: ""
        )
        let isPublic = plain != signature || isCase
        switch scope {
        case .other: return
        case .type(let name) where types[name]?.isProtocol == true:
            guard signature.firstMatch(of: #/^(static |mutating )*(func|var|init|associatedtype)/#) != nil else {
                return
            }
            types[name]?.requirements.append(Self.member(signature, summary))
        case .type(let name):
            guard isPublic else { return }
            types[name]?.members.append(
                Self.member(Self.headed(plain), nested.map { "`\($0)`: \(summary)" } ?? summary)
            )
        case .extended(let name):
            guard isPublic, nested != nil || !isCase else { return }
            extensions[name, default: []].append(
                Self.member(Self.headed(plain), nested.map { "`\($0)`: \(summary)" } ?? summary)
            )
        }
    }

    /// Without a body, without a list on several lines, and without where only this package may write.
    private static func headed(_ signature: String) -> String {
        var head = signature.replacing(#/^(?:package|internal|private)\(set\) /#, with: "")
        if let list = head.range(of: " = [ ") { head = String(head[..<list.lowerBound]) }
        var depth = 0
        for index in head.indices {
            if head[index] == "(" { depth += 1 } else if head[index] == ")" { depth -= 1 }
            if depth == 0, head[index...].hasPrefix(" {") { return String(head[..<index]) }
        }
        return head
    }

    private static func member(_ signature: String, _ summary: String) -> Member {
        let text = signature.replacing("|", with: "\\|")
        guard let name = signature.firstMatch(of: #/(?:func|var|let|case) ([^\s(:<]+)/#) else {
            return Member(signature: text, summary: summary, key: signature)
        }
        let labels = signature.matches(of: #/[(,] ?(\w+)(?: \w+)?: /#).map { String($0.output.1) }
        let isFunction = signature.contains("func ")
        return Member(signature: text, summary: summary, key: name.output.1 + (isFunction ? "(\(labels))" : ""))
    }

    /// A declaration on one line, which may stand on several.
    private static func signature(_ lines: [String], _ start: Int) -> String {
        let indent = lines[start].prefix { $0 == " " }.count
        var text = lines[start].trimmingCharacters(in: .whitespaces)
        var next = start + 1
        while next < lines.count {
            let open = text.count { "([".contains($0) } - text.count { ")]".contains($0) }
            let line = lines[next].trimmingCharacters(in: .whitespaces)
            let continues = line.firstMatch(of: #/^(async|throws|->|where)\b/#) != nil || line.hasPrefix("->")
            guard !text.hasSuffix("{"), open > 0 || (continues && lines[next].prefix { $0 == " " }.count > indent)
            else { break }
            text += (text.hasSuffix("(") || line.hasPrefix(")") ? "" : " ") + line
            next += 1
        }
        return text
    }

    private static func name(ofType words: Substring) -> String? {
        words.firstMatch(of: #/^public (?:final |indirect )*(?:struct|class|enum) (\w+)/#).map { String($0.output.1) }
    }

    /// The first paragraph of a comment, with links as code.
    private static func summary(_ doc: [String]) -> String {
        doc.prefix { !$0.isEmpty && !$0.hasPrefix("- ") }.joined(separator: " ").replacing("``", with: "`")
            .replacing("|", with: "\\|")
    }
}
