import Foundation
import FuzzTargets
import Testing

/// Reads the checked-in inputs again: seeds by hand, what fuzzing found worth keeping, and what once broke a reader.
///
/// `.ci/fuzz` looks for more of them.
@Suite("Fuzz corpora", .serialized, .timeLimit(.minutes(5)))
struct ReplayTests {
    private static let corpora = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "corpora")

    private static func names(in folder: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    @Test("Every input is read as it should be", arguments: FuzzTarget.all)
    func replay(target: FuzzTarget) async throws {
        let folder = Self.corpora.appending(path: target.name)
        let names = try Self.names(in: folder)
        #expect(!names.isEmpty, "a target has a corpus")
        try await target.use { read in
            try await read([])
            for name in names {
                let bytes = try Data(contentsOf: folder.appending(path: name))
                do {
                    try await read(Array(bytes))
                } catch {
                    Issue.record("\(target.name)/\(name): \(error)")
                }
            }
        }
    }

    @Test("No corpus is without a target")
    func corpora() throws {
        #expect(Set(try Self.names(in: Self.corpora)) == Set(FuzzTarget.all.map(\.name)))
    }
}

extension FuzzTarget: CustomTestStringConvertible {
    package var testDescription: String { name }
}
