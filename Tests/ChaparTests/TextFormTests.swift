import Foundation
import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("Forms of text", .timeLimit(.minutes(1)))
struct TextFormTests {
    @Test(
        "A record of comma-separated values is split as RFC 4180 says",
        arguments: [
            ("a,b", ["a", "b"]), ("", [""]), (",", ["", ""]), ("\"a,b\",c", ["a,b", "c"]),
            ("\"say \"\"hi\"\"\",x", ["say \"hi\"", "x"]), ("\"two\nlines\",x", ["two\nlines", "x"]),
            ("a\"b,c", ["a\"b", "c"]), ("a\"b\",\"c\"", ["a\"b\"", "c"]),
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

    /// Opens a file of some bytes, and removes it again.
    private func withFile<Value>(
        _ bytes: Data,
        _ suffix: String = ".csv",
        isStream: Bool = false,
        _ body: (String, inout InputFile) throws -> Value
    ) throws -> Value {
        let path = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID())\(suffix)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try bytes.write(to: URL(filePath: path))
        var file = try InputFile(path, format: nil, isStream: isStream)
        defer { file.close() }
        return try body(path, &file)
    }

    /// The failure of opening a file.
    private func refusal(_ text: String, _ suffix: String = ".csv") -> CommandFailure? {
        #expect(throws: CommandFailure.self) { try withFile(Data(text.utf8), suffix) { _, _ in } }
    }

    /// The requests of a file, as JSON; nil for a line that is refused.
    private func requests(_ text: String, _ suffix: String = ".csv") throws -> [JSONValue?] {
        try withFile(Data(text.utf8), suffix) { _, file in
            var requests: [JSONValue?] = []
            while let line = try file.next() { requests.append((try? line.result.get()).map { JSONValue.object($0) }) }
            return requests
        }
    }

    /// Counting the marks of all lines before with each line would take hours, beyond the suite's time limit.
    @Test("A quotation mark that is never closed costs what its lines cost")
    func openQuotation() throws {
        let text = "token,service\n\"ab" + String(repeating: "\n", count: 1_000_000)
        let failure = refusal(text)
        #expect(failure?.description.contains("nothing closes") == true, "\(String(describing: failure))")
    }

    @Test(
        "A quotation mark that nothing closes refuses the file, with the line that it stands in and the last",
        arguments: [
            ("ios-apns,a,\"Hi,x\n", 2, "a quotation mark that nothing closes"),
            ("ios-apns,a,\"Hi,x\nios-apns,b,Hi,x\nios-apns,c,Hi,x\n", 2, "up to the end, line 4, counts as this field"),
            ("ios-apns,a,\"two\nlines\",\"x\nios-apns,b,Hi,x\n", 3, "a quotation mark that nothing closes"),
        ]
    )
    func openQuotation(rows: String, line: Int, words: String) throws {
        let text = "service,token,title,body\n" + rows
        let failure = try #require(refusal(text))
        #expect(failure.description.contains(".csv:\(line): has "), "\(failure)")
        #expect(failure.description.contains(words) && failure.status == .usage, "\(failure)")
        try withFile(Data(text.utf8), isStream: true) { _, file in
            var last = try #require(try file.next())
            while let next = try file.next() { last = next }
            #expect(last.number == line)
            let failure = #expect(throws: CommandFailure.self) { try last.result.get() }
            #expect(failure?.description.contains("nothing closes") == true, "\(String(describing: failure))")
        }
    }

    @Test(
        "A quotation mark that closes too late, or too early, is named in its row",
        arguments: [
            ("ios-apns,\"a,Hi,x\nios-apns,b,\"Hi,x\n", "its quotation marks reach to line 3"),
            ("ios-apns,a,\"5\" disk\",x\n", "text after the closing quotation mark of field 3"),
        ]
    )
    func misplacedMarks(rows: String, words: String) throws {
        try withFile(Data(("service,token,title,body\n" + rows).utf8)) { _, file in
            let found = try #require(try file.next())
            #expect(found.number == 2)
            let failure = #expect(throws: CommandFailure.self) { try found.result.get() }
            #expect(failure?.description.contains(words) == true, "\(String(describing: failure))")
        }
    }

    @Test("A quotation mark within a field is a letter, and takes no other row")
    func loneMark() throws {
        let rows = try requests("service,token,title\nios-apns,a,5\" screen\nios-apns,b,7\" screen\nios-apns,c,Hi\n")
        #expect(rows.map { $0?["content"]?["title"]?.stringValue } == ["5\" screen", "7\" screen", "Hi"])
    }

    @Test("A quotation mark that nothing closes in the headings refuses the file")
    func openQuotationInHeadings() throws {
        let failure = refusal("service,\"token\nios-apns,a\n")
        #expect(failure?.description.contains(".csv:1: has a quotation mark") == true, "\(String(describing: failure))")
    }

    @Test(
        "The headings tell what separates the columns",
        arguments: [
            "service;token;title\nios-apns;aa0001;\"a;b, c\"\n",
            "service\ttoken\ttitle\nios-apns\taa0001\t\"a;b, c\"\n",
            "sep=;\nservice;token;title\nios-apns;aa0001;a\"\"b\n;;\n",
            "service,token,title\nios-apns,aa0001,\"a;b, c\"\n,,\n",
        ]
    )
    func separators(text: String) throws {
        let rows = try requests(text)
        #expect(rows.count == 1, "an empty row is none")
        #expect(rows.first??["to"] == ["tokens": [["token": "aa0001", "service": "ios-apns"]]])
        let title = rows.first??["content"]?["title"]?.stringValue
        #expect(title == (text.hasPrefix("sep=") ? "a\"\"b" : "a;b, c"))
    }

    @Test("Lines end with LF, CRLF or CR alone", arguments: ["\n", "\r\n", "\r"])
    func lineEnds(end: String) throws {
        let rows = try requests(
            ["service,token,title", "ios-apns,a,\"two", "lines\"", "ios-apns,b,Hi"].joined(separator: end)
        )
        #expect(rows.map { $0?["content"]?["title"]?.stringValue } == ["two\nlines", "Hi"])
        let objects = [#"{"route":"a"}"#, "", #"{"route":"b"}"#, ""].joined(separator: end)
        #expect(try requests(objects, ".ndjson").map { $0?["route"]?.stringValue } == ["a", "b"])
    }

    @Test("A line end at the border of two reads counts once")
    func lineEndsAtBorders() throws {
        let long = #"{"route":"\#(String(repeating: "x", count: (1 << 16) - 13))"}"#
        #expect(try requests(long + "\r\n{}\r\n", ".ndjson").count == 2)
        try withFile(Data((long + "\r\n{}\r\n[]").utf8), ".ndjson") { _, file in
            var numbers: [Int] = []
            while let line = try file.next() { numbers.append(line.number) }
            #expect(numbers == [1, 2, 3])
        }
    }

    @Test("Text that is not UTF-8 is told by its first and its last line")
    func firstAndLast() throws {
        let text = "service,token,title\nios-apns,a,Gr\u{fc}n\nios-apns,b,fine\nios-apns,c,Gr\u{fc}n\n"
        let bytes = try #require(text.data(using: .isoLatin1))
        let failure = #expect(throws: CommandFailure.self) { try withFile(bytes) { _, _ in } }
        let sentence = failure?.description ?? ""
        #expect(sentence.contains(".csv:2: is not text in UTF-8"), "\(sentence)")
        #expect(sentence.contains("2 lines are wrong, the last is line 4"), "\(sentence)")
    }

    @Test("A text as a whole is told by its first and its last wrong line, too")
    func wholeText() throws {
        let bytes = try #require("fine\nGr\u{fc}n\nfine\nGr\u{fc}n".data(using: .isoLatin1))
        let failure = #expect(throws: CommandFailure.self) { try UTF8Text.whole(bytes, of: "stdin") }
        let sentence = failure?.description ?? ""
        #expect(sentence.hasPrefix("stdin:2: is not text in UTF-8"), "\(sentence)")
        #expect(sentence.hasSuffix("2 lines are wrong, the last is line 4"), "\(sentence)")
        #expect(try UTF8Text.whole(Data("\u{FEFF}a\nb".utf8), of: "stdin") == "a\nb")
    }

    @Test("Users and devices of the registry are columns too, one way in a row")
    func registry() throws {
        let rows = try requests("user,device,title\nali,,Hi\n,phone-1,Hi\nali,phone-1,Hi\n")
        #expect(rows.map { $0?["to"] } == [["users": ["ali"]], ["devices": ["phone-1"]], nil])
    }

    @Test(
        "A heading of another program's is told what it means here",
        arguments: [("device_id", "device"), ("Message", "body"), ("user id", "user"), ("Title", "title")]
    )
    func headings(heading: String, meant: String) throws {
        let failure = refusal("\(heading),service\n")
        #expect(failure?.description.contains("Did you mean \"\(meant)\"?") == true, "\(String(describing: failure))")
        let device = #expect(throws: CommandFailure.self) { try DeviceCSV.check(["device_id"], "x.csv") }
        #expect(device?.description.contains("Did you mean \"id\"?") == true, "\(String(describing: device))")
    }

    @Test("A line that repeats an earlier one goes out once, and is counted")
    func repeats() {
        var seen = SeenLines()
        let firsts = [seen.isNew(["a": 1], line: 2) { $0 }, seen.isNew(["a": 2], line: 3) { $0 }]
        #expect(firsts == [true, true] && seen.warning == nil)
        let isNew = seen.isNew(["a": 1], line: 4) { $0 }
        #expect(!isNew)
        #expect(seen.warning?.hasPrefix("line 4 repeats an earlier one") == true)
        let isAlsoNew = seen.isNew(["a": 2], line: 9) { $0 }
        #expect(!isAlsoNew)
        #expect(seen.warning?.hasPrefix("2 lines repeat earlier ones (4 to 9)") == true)
    }

    /// A sender without the plugins of the platforms.
    private struct PlainSender: MessageSender {
        let batchSize = 1

        func send(_ messages: [NumberedMessage], report: @escaping @Sendable ([SendResult]) -> Void) async throws {}

        func close() async {}
    }

    @Test(
        "A token in another spelling is a repeat where its platform takes it for the same",
        arguments: [
            ("ios-apns", "AABB01", false), ("ios-apns", " aabb01\t", false), ("ios-apns", "aabb02", true),
            ("android-firebase", "AABB01", true), ("android-firebase", "aabb01 ", false),
        ]
    )
    func spellings(service: String, token: String, isNew: Bool) {
        func request(_ token: String) -> JSONObject {
            ["to": ["tokens": [["token": .string(token), "service": .string(service)]]], "content": ["title": "Hi"]]
        }
        let sender = PlainSender()
        var seen = SeenLines()
        let isFirst = seen.isNew(request("aabb01"), line: 2, form: sender.form)
        let second = seen.isNew(request(token), line: 3, form: sender.form)
        #expect(isFirst && second == isNew)
    }

    @Test("A result of a file names the file with its line")
    func file() throws {
        var result = SendResult(line: 7, recipient: "", ending: .refused, reason: "missing")
        #expect(result.text.contains("  line 7  "))
        result.file = "people.csv"
        #expect(result.text.contains("  people.csv: line 7  "), "\(result.text)")
        #expect(result.json["file"] == "people.csv")
        result.recipient = "ios-apns:ab"
        #expect(result.text.contains("  ios-apns:ab  people.csv: line 7  "), "\(result.text)")
    }

    @Test(
        "Empty rows before the headings are no headings",
        arguments: ["\n", " \n\n", ",,\n", "\"\",\n", ";;\r\n", "\t\t\n", "sep=,\n\n", "\u{FEFF}\n"]
    )
    func emptyRows(before: String) throws {
        let rows = try requests(before + "user,title\nali,Hi\n")
        #expect(rows.map { $0?["to"] } == [["users": ["ali"]]])
        let failure = refusal("\n\nuser,tilte\n")
        #expect(failure?.description.contains(":3: unknown heading") == true, "\(String(describing: failure))")
    }

    @Test(
        "A heading of another program, or of an audience, gets the heading or the form that is meant",
        arguments: [
            ("player_id", "Did you mean \"device\"?"), ("external_id", "Did you mean \"user\"?"),
            ("topic", "for a topic or a segment write NDJSON"), ("Tags", "for a topic or a segment write NDJSON"),
        ]
    )
    func foreignHeading(heading: String, words: String) {
        let failure = refusal("\(heading),title\n")
        #expect(failure?.description.contains(words) == true, "\(String(describing: failure))")
        #expect(failure?.description.contains("\"to\"?") == false)
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

    @Test(
        "Texts of platforms and gateways cannot control the terminal",
        arguments: [
            ("\u{1B}[31mred\u{1B}[0m", "\u{1B}[31mred\u{1B}[0m"), ("\u{1B}[2J\u{7}", #"\u001b[2J\u0007"#),
            ("\u{1B}[8mhidden", #"\u001b[8mhidden"#), ("a\u{202E}b", #"a\u202eb"#),
            ("one\ntwo\tthree", "one\ntwo\tthree"),
            ("over\rwritten", #"over\u000dwritten"#), ("سلام\u{200C}دنیا", "سلام\u{200C}دنیا"),
        ]
    )
    func controls(text: String, shown: String) { #expect(Shell.harmless(text, colours: true) == shown) }

    @Test("A line without colours of the program's own holds no colour code")
    func foreignColour() {
        #expect(Shell.harmless("\u{1B}[31mred\u{1B}[0m", colours: false) == #"\u001b[31mred\u001b[0m"#)
    }

    @Test("The sentences of a problem stay in their lines")
    func problemLines() {
        let titled = GatewayClient.Answer(status: 422, json: ["title": "x\r\nnews at android: 10 done\u{202E}"])
        #expect(titled.problem == #"x\u000d\u000anews at android: 10 done\u202e"#)
        let listed = GatewayClient.Answer(status: 422, json: ["errors": [["pointer": "#/a\nb", "detail": "c\nd"]]])
        #expect(listed.problem == #"#/a\u000ab: c\u000ad"#)
    }

    @Test("A line break of a platform's does not begin a line of the program's own")
    func forgedLines() {
        var table = TextTable("NAME")
        table.add("a\nsent     ios-apns:ab")
        #expect(table.lines == ["NAME", #"a\u000asent     ios-apns:ab"#])
        let result = SendResult(
            line: 1,
            recipient: "ios-apns:ab",
            ending: .refused,
            reason: "Bad\nsent",
            detail: "no\nsent     ios-apns:cd"
        )
        let lines = result.text.split(separator: "\n")
        #expect(lines.count == 3 && lines.dropFirst().allSatisfy { $0.hasPrefix("         ") }, "\(lines)")
    }

    @Test(
        "A file that is not UTF-8 is refused before a line of it is used",
        arguments: [
            "service,token,title\nios-apns,aa0001,Gr\u{fc}\u{df}e\n", "token\nok\n\u{ff}\u{fe}",
        ]
    )
    func notUTF8(latin: String) throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID()).csv").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try #require(latin.data(using: .isoLatin1)).write(to: URL(filePath: path))
        let failure = #expect(throws: CommandFailure.self) { try InputFile(path, format: nil) }
        #expect(failure?.description.contains("is not text in UTF-8") ?? false, "\(String(describing: failure))")
        #expect(failure?.status == .usage)
    }

    @Test(
        "The advice for a file that is not UTF-8 names an encoding only where the file shows it",
        arguments: [
            (String.Encoding.utf16, "UTF-16"), (.utf16LittleEndian, "UTF-16LE"), (.utf16BigEndian, "UTF-16BE"),
            (.windowsCP1251, "ENCODING"),
        ]
    )
    func advice(encoding: String.Encoding, name: String) throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID()).csv").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let text = "service,token,title\nios-apns,aa0001,Привет\n"
        try #require(text.data(using: encoding)).write(to: URL(filePath: path))
        let failure = #expect(throws: CommandFailure.self) { try InputFile(path, format: nil) }
        let sentence = try #require(failure?.description)
        #expect(sentence.contains("iconv -f \(name) -t"), "\(sentence)")
        #expect(!sentence.contains("-f WINDOWS"), "\(sentence)")
    }

    @Test(
        "A compressed file and a spreadsheet are named as such, whatever their name",
        arguments: [
            ([0x1F, 0x8B, 8, 0, 0, 0], "gunzip"), ([0x28, 0xB5, 0x2F, 0xFD, 0, 0], "zstd -d"),
            ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0], "xz -dk"), ([0x42, 0x5A, 0x68, 0x39, 0xFF], "bzip2 -dk"),
            ([0x50, 0x4B, 3, 4, 20, 0, 0, 0xFF], "CSV UTF-8"), ([0xD0, 0xCF, 0x11, 0xE0, 0xA1], "CSV UTF-8"),
        ] as [([UInt8], String)]
    )
    func foreignForm(bytes: [UInt8], advice: String) throws {
        for suffix in [".csv", ".csv.gz", ".ndjson"] {
            let failure = #expect(throws: CommandFailure.self) { try withFile(Data(bytes), suffix) { _, _ in } }
            let sentence = try #require(failure?.description)
            #expect(sentence.contains(advice) && !sentence.contains("UTF-16"), "\(sentence)")
        }
        let failure = #expect(throws: CommandFailure.self) { try UTF8Text.whole(Data(bytes), of: "stdin") }
        #expect(failure?.description.contains(advice) == true)
    }

    @Test(
        "JSON that has no object a line is refused as a whole, with what makes lines of it",
        arguments: [
            ("[{\"to\":{}},\n{\"to\":{}}]", "jq -c '.[]'"), ("\n {\n  \"to\": {}\n}\n", "jq -c . FILE"),
            ("\u{FEFF}[]", "jq -c '.[]'"),
        ]
    )
    func noLines(text: String, advice: String) {
        let failure = refusal(text, ".ndjson")
        #expect(failure?.description.contains(advice) == true, "\(String(describing: failure))")
        #expect(failure?.status == .usage)
    }

    @Test("A table without headings is told that its first line names the columns")
    func noHeadings() {
        let failure = refusal("ios-apns,aa0001,Hi\n")
        #expect(failure?.description.contains("The first line names the columns.") == true)
        let device = #expect(throws: CommandFailure.self) { try DeviceCSV.check(["d1", "ali"], "f.csv:1") }
        #expect(device?.description.contains("The first line names the columns.") == true)
    }

    @Test("A byte order mark at the beginning is no part of the text", arguments: [InputFile.Format.csv, .ndjson])
    func byteOrderMark(format: InputFile.Format) throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let text = format == .csv ? "\u{FEFF}title\nHi" : "\u{FEFF}{\"content\":{\"title\":\"Hi\"}}"
        try Data(text.utf8).write(to: URL(filePath: path))
        var file = try InputFile(path, format: format)
        defer { file.close() }
        let line = try #require(try file.next())
        #expect(try line.result.get()["content"] == ["title": "Hi"])
    }

    @Test(
        "A value that a spreadsheet would calculate is exported as text, and read back as it was",
        arguments: ["=HYPERLINK(\"http://x\")", "+98912", "-1", "@a", "'quoted", "'=x", "plain", ""]
    )
    func formulas(user: String) throws {
        var dead = 0
        let row = try DeviceCSV.row(["id": "d", "user": .string(user)], &dead)
        let fields = CSV.fields(row)
        #expect(!"=+-@".contains(fields[1].first ?? "x"), "\(row)")
        let device = try DeviceCSV.device(DeviceCSV.columns, fields)
        #expect((device["user"]?.stringValue ?? "") == user)
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
        ] as [([SendResult.Ending], ChaparCommands.ExitStatus)]
    )
    func tally(endings: [SendResult.Ending], expected: ChaparCommands.ExitStatus) {
        let tally = SendTally()
        tally.add(endings.map { SendResult(line: 1, recipient: "", ending: $0) })
        #expect(tally.status == expected)
    }
}
