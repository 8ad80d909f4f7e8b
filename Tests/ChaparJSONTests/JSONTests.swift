import ChaparCore
import Testing

@Suite("JSON", .timeLimit(.minutes(1)))
struct JSONTests {
    @Test(
        "A written value is read back unchanged",
        arguments: [
            #"null"#, #"true"#, #"[]"#, #"{}"#, #"-0.5"#, #"9223372036854775807"#, #"[1,2,[3,{"a":null}]]"#,
            #"{"aps":{"alert":{"title":"سلام \"x\"","body":"a\\b\n\t"}},"n":[1,-2,0.25]}"#, #""a/b""#,
        ]
    )
    func roundTrip(text: String) throws {
        #expect(try JSONValue(parsing: Array(text.utf8)).text == text)
    }

    @Test(
        "Escapes are decoded",
        arguments: [
            (#""\u0041""#, "A"), (#""\ud83d\ude00""#, "😀"), (#""\/\b\f\r""#, "/\u{8}\u{c}\r"),
            (#""a\u00e9\n""#, "aé\n"),
        ]
    )
    func escapes(text: String, expected: String) throws {
        #expect(try JSONValue(parsing: Array(text.utf8)) == .string(expected))
    }

    @Test(
        "A text that RFC 8259 does not allow is an error that names the place",
        arguments: [
            ("", 0), ("{", 1), ("[1,]", 3), (#"{"a" 1}"#, 5), ("01", 1), ("1.", 2), ("-", 1), ("tru", 0), ("[1 2]", 3),
            (#""\x""#, 2), ("\"a\nb\"", 2), (#""\ud800""#, 7), ("1 1", 2), (#"{"a":1,"a":2}"#, 11), ("\"abc", 4),
            ("1e", 2),
        ]
    )
    func syntax(text: String, offset: Int) {
        let error = #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: Array(text.utf8)) }
        #expect(error?.offset == offset, "\(String(describing: error))")
    }

    @Test("Bytes that are not UTF-8 are an error")
    func encoding() {
        #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: [0x22, 0xFF, 0x22]) }
        #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: [0x22, 0x5C, 0x6E, 0xC0, 0x80, 0x22]) }
    }

    @Test("Nesting is bounded")
    func depth() throws {
        let deep = { (levels: Int) in
            Array((String(repeating: "[", count: levels) + String(repeating: "]", count: levels)).utf8)
        }
        _ = try JSONValue(parsing: deep(JSONScanner.maximumDepth))
        #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: deep(JSONScanner.maximumDepth + 1)) }
    }

    @Test("A skipped value may nest to any depth, and its syntax is checked")
    func skipping() throws {
        func skip(_ text: String) throws(JSONSyntaxError) {
            try JSONScanner.scan(Array(text.utf8)) { (scanner) throws(JSONSyntaxError) in try scanner.skip() }
        }
        let levels = 200_000
        try skip(String(repeating: "[", count: levels) + String(repeating: "]", count: levels))
        try skip(String(repeating: #"{"a":"#, count: levels) + "1" + String(repeating: "}", count: levels))
        try skip(#" { "a" : [ 1 , "x" , { } , [ ] , { "b" : null , "c" : [ true , false ] } ] , "d" : -1.5 } "#)
        for wrong in [
            "[1,]", "[1 2]", "{\"a\":1,}", "{\"a\" 1}", "[1}", "{\"a\":1]", "[", "{", "[[1]", "]", "{1:2}", "[],",
        ] {
            #expect(throws: JSONSyntaxError.self, "\(wrong)") { try skip(wrong) }
        }
    }

    /// To Swift both rows of marks are the same text; to find out takes time that is quadratic in their length.
    @Test("Text with more marks in a row than any language has is refused, wherever it stands")
    func marks() throws {
        func marks(_ count: Int) -> String { "a" + String(repeating: "\u{301}\u{323}", count: count) }
        for text in [
            marks(15), String(repeating: marks(15), count: 5000), "نام\u{64E}\u{651}", "👩🏽‍🚀",
            String(repeating: "é", count: 40),
        ] {
            #expect(try JSONValue(parsing: Array("[\"\(text)\"]".utf8)) == [.string(text)])
        }
        let escaped = "a" + String(repeating: #"\u0301\u0323"#, count: 8000)
        for text in [marks(16), marks(8000), escaped] {
            for document in ["\"\(text)\"", "[1,\"\(text)\"]", "{\"\(text)\":1,\"\(text)\":2}"] {
                #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: Array(document.utf8)) }
            }
        }
    }

    @Test("A byte order mark before a document is skipped, and only there")
    func byteOrderMark() throws {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        #expect(try JSONValue(parsing: mark + Array(#"{"a":1}"#.utf8)) == ["a": 1])
        let wrongs: [[UInt8]] = [mark, mark + mark + [0x31], [0x5B] + mark + [0x31, 0x5D]]
        for wrong in wrongs {
            #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: wrong) }
        }
        #expect(try JSONValue(parsing: Array("\"\u{FEFF}\"".utf8)) == "\u{FEFF}")
    }

    private static let marks = "a" + String(repeating: "\u{301}", count: 31)

    static let places: [(String, String)] = [
        ("", "#"), ("nul", "#"), ("{\"a\":1,}", "#"), ("{\"a\":}", "#/a"), ("[1,2,x]", "#/2"),
        ("{\"a\":[{},{\"b\":[1 2]}]}", "#/a/1/b/0"),
        ("{\"a/b~\":{\"c\":tru}}", "#/a~1b~0/c"), ("{\"a\":{\"b\":1},\"c\":x}", "#/c"),
        ("{\"\\\"\":[\"]\",}", "#/\\\"/1"),
        ("{\"a\":\"\(marks)\"}", "#/a"), ("[{\"t\":\"x\"},{\"t\":\"\(marks)\"}]", "#/1/t"),
        ("{\"a\":{\"\(marks)\":1}}", "#/a"),
        ("{\"a\":\"\\ud83d\"}", "#/a"),
        ("\(String(repeating: "[", count: 60))x", "#" + String(repeating: "/0", count: 8)),
    ]

    @Test("An error names its place as a JSON pointer as well", arguments: places)
    func place(document: String, pointer: String) throws {
        let bytes = Array(document.utf8)
        let error = try #require(throws: JSONSyntaxError.self) { try JSONValue(parsing: bytes) }
        #expect(error.pointer(in: bytes) == pointer, "\(error)")
        #expect(error.sentence(about: bytes).contains("byte \(error.offset)"))
    }

    @Test(
        "A document in another encoding is named by it, with the fix",
        arguments: [
            ([0x1F, 0x8B, 0x08, 0x00], "gzip"), ([0xFF, 0xFE, 0x7B, 0x00], "UTF-16"),
            ([0xFE, 0xFF, 0x00, 0x7B], "UTF-16"), ([0x7B, 0x00, 0x7D, 0x00], "UTF-16"),
            ([0x00, 0x7B, 0x00, 0x7D], "UTF-16"),
        ] as [([UInt8], String)]
    )
    func foreignEncoding(bytes: [UInt8], name: String) throws {
        let error = try #require(throws: JSONSyntaxError.self) { try JSONValue(parsing: bytes) }
        #expect(error.sentence(about: bytes).contains(name), "\(error.sentence(about: bytes))")
    }

    /// Comparing each member with those before it would take minutes, beyond the suite's time limit.
    @Test("An object of 50,000 members is read, looked up, compared and merged")
    func manyMembers() throws {
        let count = 50_000
        let text = "{" + (0..<count).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
        let object = try #require(try JSONValue(parsing: Array(text.utf8)).objectValue)
        #expect(object.count == count)
        #expect((0..<count).allSatisfy { object["k\($0)"] == .integer(Int64($0)) })
        let merged = object.merging(object)
        #expect(merged == object && JSONValue.object(merged).text == text)
        for more in [#","k7":0}"#, #","k7":0,"k8":0}"#] {
            let error = #expect(throws: JSONSyntaxError.self) {
                try JSONValue(parsing: Array((text.dropLast() + more).utf8))
            }
            #expect(error?.offset == text.utf8.count - 1 + #","k7":"#.utf8.count, "the first name that is repeated")
        }
    }

    @Test(
        "A repeated name is an error at its place, among few members and among many",
        arguments: [2, 16, 17, 18, 40, 5000]
    )
    func repeatedNames(count: Int) {
        for place in [0, (count - 1) / 2, count - 2] {
            let names = (0..<count - 1).map { "k\($0)" } + ["k\(place)"]
            let text = "{" + names.map { "\"\($0)\":{}" }.joined(separator: ",") + "}"
            let error = #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: Array(text.utf8)) }
            #expect(error?.offset == text.utf8.count - 3)
        }
    }

    @Test("Members are found, changed, removed and kept in order however many there are")
    func members() {
        var random = SeededGenerator(seed: 7)
        for size in [1, 15, 16, 17, 18, 40] {
            var object = JSONObject()
            var model: [(name: String, value: Int64)] = []
            for step in 0..<Int64(400) {
                let name = "n\(Int.random(in: 0..<size, using: &random))"
                let isRemoved = Bool.random(using: &random)
                object[name] = isRemoved ? nil : .integer(step)
                if let index = model.firstIndex(where: { $0.name == name }) {
                    if isRemoved { model.remove(at: index) } else { model[index].value = step }
                } else if !isRemoved {
                    model.append((name, step))
                }
                #expect(object.map(\.name) == model.map(\.name))
                #expect(object.map(\.value) == model.map { .integer($0.value) })
                #expect(
                    (0..<size).allSatisfy { n in object.contains("n\(n)") == model.contains { $0.name == "n\(n)" } }
                )
                #expect(model.allSatisfy { object[$0.name] == .integer($0.value) })
            }
        }
    }

    @Test("A value can be cut out of a document as it stood there")
    func slices() throws {
        let document = Array(#"{"a": [1, 2 ], "b":{"c" : 3}}"#.utf8)
        var slices: [String: String] = [:]
        try JSONScanner.scan(document) { (scanner) throws(JSONSyntaxError) in
            try scanner.object { (scanner, name) throws(JSONSyntaxError) in
                scanner.skipSpace()
                let start = scanner.offset
                try scanner.skip()
                slices[name] = String(decoding: scanner.slice(start..<scanner.offset), as: UTF8.self)
            }
        }
        #expect(slices == ["a": "[1, 2 ]", "b": #"{"c" : 3}"#])
    }

    @Test("Merging lays members over, objects within objects likewise")
    func merging() throws {
        let base: JSONObject = ["aps": ["alert": "a", "badge": 1], "x": 1]
        let merged = base.merging(["aps": ["badge": 2, "sound": "default"], "y": [1]])
        #expect(JSONValue.object(merged).text == #"{"aps":{"alert":"a","badge":2,"sound":"default"},"x":1,"y":[1]}"#)
    }

    @Test("Objects are equal in any order, and hash alike")
    func equality() {
        let left: JSONObject = ["a": 1, "b": 2]
        let right: JSONObject = ["b": 2, "a": 1]
        #expect(left == right)
        #expect(left.hashValue == right.hashValue)
        #expect(left != ["a": 1, "b": 3])
    }

    @Test("Numbers JSON does not know become null; control characters are escaped")
    func oddities() {
        var writer = JSONWriter()
        writer.beginArray()
        writer.double(.infinity)
        writer.integer(Int64.min)
        writer.string("\u{1}\u{7f}")
        writer.endArray()
        #expect(String(decoding: writer.bytes, as: UTF8.self) == "[null,-9223372036854775808,\"\\u0001\u{7f}\"]")
    }

    @Test("A character that needs an escape is found wherever it stands, and no other gets one")
    func everyPlace() throws {
        let characters = (0..<128).map { String(UnicodeScalar(UInt8($0))) } + ["é", "ش", "€", "🙂"]
        for character in characters {
            let isPlain = character.utf8.allSatisfy { $0 >= 0x20 } && character != "\"" && character != "\\"
            for place in 0...17 {
                let text = String(repeating: "x", count: place) + character + String(repeating: "~", count: 17 - place)
                let bytes = JSONValue.string(text).bytes
                #expect(try JSONValue(parsing: bytes) == .string(text))
                #expect(bytes.elementsEqual("\"\(text)\"".utf8) == isPlain)
            }
        }
    }
}
