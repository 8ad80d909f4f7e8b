import Foundation
import Testing

/// docs/Security.md names for each statement the tests that hold it: they have to be there.
@Suite("docs/Security.md")
struct SecurityDocumentTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// How a line begins that names a suite or a test.
    private static let beginnings = ["final class ", "struct ", "enum ", "extension ", "    func "]

    /// The cells of the second column of the table under a heading.
    private func proofs() throws -> [(statement: Substring, names: [String])] {
        let text = try String(contentsOf: Self.root.appending(path: "docs/Security.md"), encoding: .utf8)
        let section = try #require(text.split(separator: "\n## ").first { $0.hasPrefix("What holds\n") })
        return section.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst(2).map { row in
            let cells = row.split(separator: "|")
            let names = (cells.last ?? "").matches(of: /`([A-Za-z\/]+)`/).map { String($0.output.1) }
            return (cells.first ?? "", names)
        }
    }

    /// `Suite` and `Suite/test` of every test of the repository.
    private func tests() throws -> Set<String> {
        let folder = Self.root.appending(path: "Tests")
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
        var names: Set<String> = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            var suite = ""
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
                // Regular expressions on each of 60,000 lines take 16 s in a debug build.
                guard Self.beginnings.contains(where: line.hasPrefix) else { continue }
                if let found = line.firstMatch(of: /^(?:final class|struct|enum|extension) (\w+Tests)\b/) {
                    suite = String(found.output.1)
                    names.insert(suite)
                } else if let found = line.firstMatch(of: /^    func (\w+)\(/), !suite.isEmpty {
                    names.insert("\(suite)/\(found.output.1)")
                }
            }
        }
        return names
    }

    @Test("names a test for each statement, and each test that it names is there")
    func proved() throws {
        let tests = try tests()
        let proofs = try proofs()
        #expect(proofs.count > 40)
        for (statement, names) in proofs {
            #expect(!names.isEmpty, "\(statement)")
            for name in names { #expect(tests.contains(name), "\(name), for: \(statement)") }
        }
    }
}
