import PushCore
import Testing

@Suite("JSON", .timeLimit(.minutes(1)))
struct JSONTests {
    @Test(
        "What is written is read back as it was",
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
        "What RFC 8259 does not allow is an error that names the place",
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
