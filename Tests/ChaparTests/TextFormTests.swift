import Foundation
import PushCore
import Testing

@testable import PushCommands

@Suite("Forms of text", .timeLimit(.minutes(1)))
struct TextFormTests {
    @Test(
        "A record of comma-separated values is split as RFC 4180 says",
        arguments: [
            ("a,b", ["a", "b"]), ("", [""]), (",", ["", ""]), ("\"a,b\",c", ["a,b", "c"]),
            ("\"say \"\"hi\"\"\",x", ["say \"hi\"", "x"]), ("\"two\nlines\",x", ["two\nlines", "x"]),
            ("a\"b,c", ["a\"b", "c"]),
            ("\"\",x", ["", "x"]), ("a,\u{200C}ب,\"\u{301}\"", ["a", "\u{200C}ب", "\u{301}"]),
        ] as [(String, [String])]
    )
    func csv(record: String, expected: [String]) {
        #expect(CSV.fields(record) == expected)
    }

    @Test(
        "A field that is written is read back",
        arguments: ["", "a", "a,b", "say \"hi\"", "two\r\nlines", ",\u{200C}ب", "\"\u{301}\"", "\u{200C}"]
    )
    func quoting(field: String) {
        let record = ["first", field, "\u{200C}last"].map(CSV.quoted).joined(separator: ",")
        #expect(CSV.fields(record).map { Array($0.utf8) } == ["first", field, "\u{200C}last"].map { Array($0.utf8) })
    }

    /// Counting the marks of all lines before with each line would take hours, beyond the suite's time limit.
    @Test("A quotation mark that is never closed costs what its lines cost")
    func openQuotation() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID()).csv").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let text = "token,service\n\"ab" + String(repeating: "\n", count: 1_000_000)
        try Data(text.utf8).write(to: URL(filePath: path))
        var file = try InputFile(path, format: nil)
        defer { file.close() }
        let line = try #require(try file.next())
        #expect(throws: CommandFailure.self) { try line.result.get() }
        #expect(try file.next() == nil)
    }

    @Test("Tags of a row are told apart by their bytes")
    func tagsOfRow() throws {
        let device = try DeviceCSV.device(["id", "tags"], ["d", "a|\u{301}b|c"])
        #expect(device["tags"] == ["a", "\u{301}b", "c"])
        #expect(throws: CommandFailure.self) {
            var dead = 0
            return try DeviceCSV.row(["id": "d", "tags": ["a|\u{301}"]], &dead)
        }
    }

    @Test("A row becomes a request, and empty fields say nothing")
    func row() throws {
        let headings = ["to", "title", "badge", "ttl", "collapse_id", "data.order", "route"]
        let request = try CSVRow.request(headings, ["ios-apns:ab:cd", "Hi", "3", "60", "", "42", "main"])
        let expected: JSONValue = [
            "to": ["tokens": [["token": "ab:cd", "service": "ios-apns"]]],
            "content": ["title": "Hi", "badge": 3, "data": ["order": "42"]], "options": ["ttl": 60], "route": "main",
        ]
        #expect(JSONValue.object(request) == expected)
        #expect(throws: CommandFailure.self) { try CSVRow.request(["badge"], ["three"]) }
        #expect(throws: CommandFailure.self) { try CSVRow.request(["token"], ["ab"]) }
    }

    @Test("The progress bar tells rate and remaining time")
    func progress() {
        #expect(
            ProgressBar.line(done: 500, fraction: 0.25, after: .seconds(5))
                == "[######------------------] 25 %  500 done, 100/s, 15 s left"
        )
        #expect(ProgressBar.line(done: 7, fraction: nil, after: .seconds(2)) == "7 done, 3/s")
        #expect(ProgressBar.line(done: 0, fraction: 0, after: .zero) == "[------------------------] 0 %  0 done, 0/s")
    }

    @Test("Columns are as wide as their widest cell")
    func table() {
        var table = TextTable("NAME", "KIND")
        table.add("a-long-name", "apns")
        #expect(table.lines == ["NAME         KIND", "a-long-name  apns"])
    }

    @Test(
        "The exit code follows from the results",
        arguments: [
            ([], .success), ([.sent], .success), ([.accepted, .preview], .success), ([.refused], .failure),
            ([.sent, .refused], .partial), ([.later], .tryLater), ([.unknown, .refused], .tryLater),
            ([.sent, .unknown], .partial),
        ] as [([SendResult.Verdict], PushCommands.ExitStatus)]
    )
    func tally(verdicts: [SendResult.Verdict], expected: PushCommands.ExitStatus) {
        let tally = SendTally()
        tally.add(verdicts.map { SendResult(line: 1, recipient: "", verdict: $0) })
        #expect(tally.status == expected)
    }
}
