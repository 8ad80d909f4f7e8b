import Foundation
import Testing

/// Whether `docs/Glossary.md` speaks of types that there are.
@Suite("The glossary")
struct GlossaryTests {
    private static let root = URL(filePath: #filePath).appending(path: "../../../..").standardizedFileURL

    @Test("Each type that it names is declared in Sources, and each term has one line")
    func names() throws {
        let text = try String(contentsOf: Self.root.appending(path: "docs/Glossary.md"), encoding: .utf8)
        let named = Set(text.matches(of: /`([A-Z][A-Za-z0-9]+)`/).map { String($0.1) }).subtracting(["Sources"])
        let sources = Self.root.appending(path: "Sources")
        var declared: Set<String> = []
        for case let file as URL in FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil)
            ?? .init()
        where file.pathExtension == "swift" {
            let code = try String(contentsOf: file, encoding: .utf8)
            for part in code.matches(of: /\b(?:struct|class|enum|protocol|actor|typealias) ([A-Z][A-Za-z0-9]+)/) {
                declared.insert(String(part.1))
            }
        }
        #expect(declared.count > 300 && named.count > 30)
        #expect(named.subtracting(declared).sorted() == [], "the glossary names types that are not there")
        let terms = text.split(separator: "\n").filter { $0.hasPrefix("| ") }.compactMap {
            $0.split(separator: "|").first
        }
        .map { $0.trimmingCharacters(in: .whitespaces) }.filter { !["Term", "Verb", "---"].contains($0) }
        #expect(Set(terms).count == terms.count, "a term has two meanings")
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count <= 110, "two pages at most")
    }
}
