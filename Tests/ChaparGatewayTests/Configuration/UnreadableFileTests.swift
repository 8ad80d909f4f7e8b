import Foundation
import ChaparCore
import ChaparGateway
import ChaparTesting
import Testing

@Suite("A configuration that cannot be read", .timeLimit(.minutes(1)))
struct UnreadableFileTests {
    private func mistake(_ text: Data) throws -> String {
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load(text: Array(text), name: "c.yaml", folder: "") { .sample($0) }
        }
        return error?.description ?? ""
    }

    @Test("A tab where only spaces may stand is called one; other wrong characters are not")
    func tabs() throws {
        let said = try mistake(Data("backends:\n\tios: x\n".utf8))
        #expect(said.hasPrefix("c.yaml:2:1: is not valid YAML: a tab stands"), "\(said)")
        #expect(try !mistake(Data("backends:\n  ios:\t@x\n".utf8)).contains("a tab"))
    }

    @Test(
        "A variable without quotation marks within braces or brackets is named as the fault",
        arguments: [
            "ios: { kind: sample, token: ${TOKEN} }", "ios: [${TOKEN}, b]", "ios: { token: ${TOKEN}, kind: x }",
        ]
    )
    func bareVariable(line: String) throws {
        let said = try mistake(Data("backends:\n  \(line)\n".utf8))
        #expect(said.hasPrefix("c.yaml:2:") && said.contains("Write \"${NAME}\" in place of ${NAME}"), "\(said)")
        #expect(try !mistake(Data("backends:\n  ios: { kind: sample\nlog: {}\n".utf8)).contains("${NAME}"))
    }

    @Test(
        "Text in another encoding is refused with its line and the way to convert it",
        arguments: [
            (String.Encoding.utf16, 1, "-f UTF-16 -t UTF-8"), (.utf16LittleEndian, 1, "-f UTF-16LE -t UTF-8"),
            (.utf16BigEndian, 1, "-f UTF-16BE -t UTF-8"), (.isoLatin1, 2, "-f ENCODING -t UTF-8"),
        ]
    )
    func encodings(encoding: String.Encoding, line: Int, way: String) throws {
        let text = try #require("log: {}\nbackends: {} # Gr\u{FC}\u{DF}e\n".data(using: encoding))
        let said = try mistake(text)
        #expect(said.hasPrefix("c.yaml:\(line):1: is not text in UTF-8. ") && said.contains(way), "\(said)")
    }

    @Test("One that is too large is told so, and not to name another one")
    func size() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID()).yaml").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data(count: ConfigurationLoader.maximumBytes + 1).write(to: URL(filePath: path))
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationLoader.sample().load(path) { .sample($0) }
        }
        let said = error?.description ?? ""
        #expect(said.contains("is larger than 1048576 bytes. Take out") && !said.contains("--config"), "\(said)")
    }

    @Test("A pipe is read when a program writes into it, else refused within seconds", arguments: [true, false])
    func pipe(isWritten: Bool) async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID()).yaml").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        #expect(mkfifo(path, 0o600) == 0)
        let begin = ContinuousClock.now
        let reading = Task.detached { () -> String? in
            do {
                _ = try ConfigurationLoader.sample().load(path) { .sample($0) }
                return nil
            } catch {
                return "\(error)"
            }
        }
        if isWritten {
            // Without a reader it cannot be opened so.
            var descriptor: Int32 = -1
            try await eventually("the pipe has a reader", within: .seconds(20), every: .milliseconds(2)) {
                descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
                return descriptor >= 0
            }
            let text = Array("backends: { ios: { kind: sample, token: x } }\n".utf8)
            #expect(write(descriptor, text, text.count) == text.count)
            close(descriptor)
        }
        let said = await reading.value
        #expect(begin.duration(to: .now) < .seconds(20))
        let fix = "whose writer has not closed it. Write it to its end within"
        #expect(isWritten ? said == nil : said?.contains(fix) == true, "\(said ?? "")")
    }

    @Test(
        "A log is not written into the store's files or the configuration",
        arguments: [
            ("data.db", "a file of the store"), ("./data.db", "a file of the store"),
            ("data.db-wal", "a file of the store"), ("data.db-shm", "a file of the store"),
            ("data.db.lock", "a file of the store"), ("data.db.first-key", "a file of the store"),
            ("./test.yaml", "the configuration"), ("data.jsonl", nil),
        ] as [(String, String?)]
    )
    func places(path: String, other: String?) throws {
        for section in ["access_log", "audit"] {
            let text = """
                store: { path: ./data.db }
                \(section): { path: \(path) }
                backends: { ios: { kind: sample, token: x } }
                """
            guard let other else {
                _ = try ConfigurationLoader.sample().load(text)
                continue
            }
            let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load(text) }
            #expect(error?.issues.map(\.problem) == ["is that of \(other)"], "\(section)")
            #expect(error?.issues.map(\.path) == ["\(section).path"])
        }
    }
}
