import ChaparCore
import Testing

@testable import ChaparJSON

@Suite("Text of others", .timeLimit(.minutes(1)))
struct HostileTextTests {
    static let lines: [(String, String)] = [
        ("user=ali", "user=ali"), ("سلام\u{200C}دنیا 👩‍👩‍👧", "سلام\u{200C}دنیا 👩‍👩‍👧"),
        ("a\u{202E}b", #"a\u202eb"#), ("\u{9B}31m", #"\u009b31m"#), ("\u{7F}\u{85}", #"\u007f\u0085"#),
        ("\u{2066}x\u{2069}\u{200F}\u{61C}", #"\u2066x\u2069\u200f\u061c"#), ("\u{2028}\u{FEFF}", #"\u2028\ufeff"#),
    ]

    @Test("Invisible control characters are escaped in a line of a log", arguments: lines)
    func invisible(text: String, shown: String) throws {
        #expect(text.withoutInvisibleControls == shown)
        let json = JSONValue.string(text).text.withoutInvisibleControls
        #expect(try JSONValue(parsing: Array(json.utf8)) == .string(text), "JSON says the same")
    }

    @Test(
        "As a part of a line it brings neither a line break nor an escape sequence",
        arguments: [
            ("a\nsent  ios", #"a\u000asent  ios"#), ("\u{1B}]0;x\u{7}", #"\u001b]0;x\u0007"#),
            ("\r\n", #"\u000d\u000a"#),
            ("سلام\u{200C}دنیا", "سلام\u{200C}دنیا"), ("a\u{202E}b\t", #"a\u202eb\u0009"#),
        ]
    )
    func oneLine(text: String, shown: String) { #expect(text.onOneLine == shown) }

    @Test("A path has no segment that a server takes for a step", arguments: ["", ".", ".."])
    func steps(segment: String) {
        #expect(throws: PushError.self) { try FormEncoding.path(["users", segment]) }
        #expect(throws: PushError.self) { try FormEncoding.path([segment, "tags"]) }
    }

    @Test("Every other segment is encoded as one")
    func segments() throws {
        #expect(try FormEncoding.path(["users", "a/../b", "...", "%2e%2e"]) == "/users/a%2F..%2Fb/.../%252e%252e")
    }
}
