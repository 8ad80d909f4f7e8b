import Foundation
import Testing

/// Log messages are constants, with values as metadata, so that messages can be counted and searched for.
@Suite("Log messages", .timeLimit(.minutes(2)))
struct LogMessagesTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    /// The first argument of each log call in a source, as it is written there.
    static func messages(in source: String) -> [String] {
        let call =
            #/\b(?:logger|log|unlessCancelled)\b[?!]?\s*\.(?:trace|debug|info|notice|warning|error|critical)\(\s*/#
            .wordBoundaryKind(.simple)
        return source.matches(of: call).map { match in
            let rest = source[match.range.upperBound...]
            return String(rest.prefix(while: { $0 != "\n" }))
        }
    }

    /// Whether an argument begins with a string literal without interpolation.
    static func isConstant(_ argument: String) -> Bool {
        guard let literal = argument.firstMatch(of: #/^"((?:[^"\\]|\\.)*)"/#)?.output.1 else { return false }
        return !literal.contains(#"\("#)
    }

    @Test("A message with an interpolation, or without a literal, is found")
    func scanner() {
        let source = #"""
            logger.error("the store failed", metadata: ["error": "\(error)"])
            around.logger.warning(
                "a \(name) failed"
            )
            logger?.debug(message)
            logger.notice("says \"no\"")
            """#
        #expect(Self.messages(in: source).map(Self.isConstant) == [true, false, false, true])
    }

    @Test("of the product and its plugins are constant", arguments: ["Sources", "Plugins"])
    func constant(folder: String) throws {
        let files = try #require(
            FileManager.default.enumerator(at: Self.root.appending(path: folder), includingPropertiesForKeys: nil)
        )
        var found = 0
        for case let file as URL in files where file.pathExtension == "swift" {
            let messages = Self.messages(in: try String(contentsOf: file, encoding: .utf8))
            found += messages.count
            for message in messages where !Self.isConstant(message) {
                Issue.record("\(file.lastPathComponent): the message is not constant: \(message)")
            }
        }
        #expect(found > 10, "the scanner finds the calls")
    }
}
