import ChaparCore
import Testing

@Suite("The folder of a path")
struct FolderPathTests {
    static let paths: [(String, String)] = [
        ("", ""), (".", ""), ("..", ""), ("c", ""), ("é", ""), ("~", ""), ("a/", ""), ("/", "/"), ("//", "/"),
        ("/x", "/"), ("//x", "/"), ("/.", "/"), ("./c", "."), ("a/b", "a"), ("a//b", "a"), ("a/b/", "a"),
        ("/a/é/x", "/a/é"), ("a/\u{301}b", "a"),
    ]

    @Test("is found in its text, whatever the path is", arguments: paths)
    func folder(path: String, expected: String) {
        #expect(FolderPath.folder(of: path) == expected)
        #expect(FolderPath.place(of: path) == (expected.isEmpty ? "." : expected))
    }
}
