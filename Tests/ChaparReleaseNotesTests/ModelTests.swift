import Foundation
import ChaparCore
import Testing

@testable import ChaparReleaseNotes

/// Versions, lists and documents: specs/noskhekit.md sections 2 to 6 and 8.
@Suite("Release notes: the model", .timeLimit(.minutes(1)))
struct ModelTests {
    static let versions: [(String, String?)] = [
        ("1", "1.0.0"), ("1.2", "1.2.0"), (" 1.2 \n", "1.2.0"), ("01.002.3", "1.2.3"), ("5", "5.0.0"),
        ("1.2.3.4", nil), ("", nil), ("v1", nil), ("1..2", nil), ("1.2.", nil), ("1. 2", nil), ("1.2-beta", nil),
        ("۱.۲", nil), ("18446744073709551616", nil), ("+1.2", nil), ("-0.1", nil),
    ]

    @Test("A text is a version of one to three numbers, or none", arguments: versions)
    func version(text: String, canonical: String?) {
        #expect(ReleaseVersion(text)?.description == canonical)
    }

    @Test("The library's accident with signs is there for who wants it")
    func signs() {
        #expect(ReleaseVersion("+1.2", allowsSigns: true)?.description == "1.2.0")
        #expect(ReleaseVersion("-0.1", allowsSigns: true)?.description == "0.1.0")
        #expect(ReleaseVersion("1.-2", allowsSigns: true) == nil)
    }

    @Test("Versions are compared as numbers; the list is newest first, and repeated ones keep their order")
    func order() {
        let notes = ReleaseNotes(["1.9", "2", "1.10", "1.9"].enumerated().map { .init(.of($1), ["\($0)"]) })
        #expect(notes.entries.map(\.number.description) == ["2.0.0", "1.10.0", "1.9.0", "1.9.0"])
        #expect(notes.entries.suffix(2).map(\.changes) == [["0"], ["3"]])
        #expect(notes.since(.of("1.9")).entries.count == 2)
    }

    static let statuses: [(String, [ReleaseNotes.Status])] = [
        ("0.1", [.future, .future, .future]), ("1.4", [.future, .current, .old]), ("9", [.old, .old, .old]),
    ]

    @Test("A version is to come, current or old", arguments: statuses)
    func status(current: String, expected: [ReleaseNotes.Status]) {
        let found = ReleaseNotes.sample.entries.map { ReleaseNotes.status(of: $0, for: .of(current)) }
        #expect(found == expected)
    }

    @Test("Changes are trimmed and keep their place; the full text has bullets")
    func changes() {
        let entry = ReleaseNotes.Entry(.of("1"), [" a \n", "", "b"])
        #expect(entry.changes == ["a", "", "b"])
        #expect(entry.fullText == "• a\n• \n• b")
    }

    @Test("Problems of a list are reported; an empty list has only that one")
    func remarks() {
        func words(_ versions: [String]) -> [String] {
            ReleaseNotes(versions.map { .init(.of($0), []) }).problems(for: .of("1.4")).map(\.description)
        }
        #expect(words([]) == ["NK101 release notes: the list is empty"])
        #expect(words(["1"]) == ["NK102 release notes: no entry for current version 1.4.0"])
        #expect(words(["1.4", "1.4.0"]) == ["NK103 release notes: 2 entries for current version 1.4.0"])
        #expect(words(["1.4", "1", "1.0"]) == ["NK104 release notes: version 1.0.0 appears 2 times"])
        #expect(words(["1.4", "1"]) == [])
    }

    // MARK: Documents

    static var items: [[String: Any]] {
        [
            ["number": "1.3.2", "changes": ["First public version"]], ["number": "1.10", "changes": ["Faster search"]],
            ["number": "1.4.0", "changes": [" Dark theme ", "Fixes"]],
        ]
    }

    @Test(
        "A property list is read in both forms, and as a file of the library's default name",
        arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary]
    )
    func plist(format: PropertyListSerialization.PropertyListFormat) throws {
        let data = try PropertyListSerialization.data(fromPropertyList: Self.items, format: format, options: 0)
        let reading = try ReleaseNotesReader.read(Array(data), name: "Versions.plist")
        #expect(reading.notes == .sample && reading.warnings.isEmpty)
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("notes-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try data.write(to: folder.appendingPathComponent("Versions.plist"))
        #expect(try ReleaseNotesReader.read(PlistFileConfiguration(folder: folder)).notes == .sample)
        let missing = PlistFileConfiguration(folder: folder, fileName: "Other")
        let failure = #expect(throws: ReleaseNotesReader.Failure.self) { try ReleaseNotesReader.read(missing) }
        #expect(failure?.description == "NK001 release notes: file \"Other.plist\" not found")
    }

    @Test("Both JSON shapes say the same as the property list, and come back as they went")
    func json() throws {
        for shape in ReleaseNotes.Shape.allCases {
            let bytes = ReleaseNotes.sample.json(shape).bytes
            #expect(try ReleaseNotesReader.read(bytes, name: "x").notes == .sample)
        }
        let array = ReleaseNotes.sample.json(.documented)["items"] ?? .null
        #expect(try ReleaseNotesReader.read([0xEF, 0xBB, 0xBF] + array.bytes, name: "x").notes == .sample)
        #expect(
            ReleaseNotes.sample.since(.of("1.4")).json(.compiled).text
                == #"{"items":[{"number":{"major":1,"minor":10,"patch":0},"changes":{"changes":["Faster search"]}}]}"#
        )
        #expect(
            ReleaseNotes.sample.since(.of("1.4")).json(.documented).text
                == #"{"items":[{"number":"1.10.0","changes":["Faster search"]}]}"#
        )
    }

    /// The form of the decoder that release 1.0.1 of the library ships.
    struct Shipped: Decodable {
        struct Item: Decodable {
            struct Number: Decodable { let major, minor, patch: UInt }
            struct Changes: Decodable { let changes: [String] }
            let number: Number
            let changes: Changes
        }
        let items: [Item]
    }

    @Test("The shipped decoder takes the compiled shape, and not the documented one")
    func compatibility() throws {
        let compiled = Data(ReleaseNotes.sample.json(.compiled).bytes)
        let items = try JSONDecoder().decode(Shipped.self, from: compiled).items
        #expect(items.map(\.number.minor) == [10, 4, 3])
        #expect(items[1].changes.changes == ["Dark theme", "Fixes"])
        let documented = Data(ReleaseNotes.sample.json(.documented).bytes)
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(Shipped.self, from: documented) }
    }

    static let unreadable: [(String, String)] = [
        ("", "NK002"), ("nonsense", "NK003"), ("\u{1}\u{2}", "NK002"), ("{\"items\":", "NK002"), ("{}", "NK003"),
        ("{\"items\":1}", "NK003"),
        ("<?xml version=\"1.0\"?><plist version=\"1.0\"><dict/></plist>", "NK003"),
    ]

    @Test("A document that is none says why", arguments: unreadable)
    func saysWhy(text: String, code: String) {
        let failure = #expect(throws: ReleaseNotesReader.Failure.self) {
            try ReleaseNotesReader.read(Array(text.utf8), name: "x")
        }
        #expect(failure?.problems.map(\.code.rawValue) == [code])
    }

    static let bad = """
        [{"number":"1.4.0","changes":["a"]},{"number":"x","changes":[]},{"changes":[]},{"number":"1"},
        {"number":"2","changes":["b",3]},{"number":{"major":1,"minor":2},"changes":[]},7]
        """

    @Test("Bad items make JSON bad, all at once; where leniency is wanted they are skipped, each with a word")
    func badItems() throws {
        let failure = #expect(throws: ReleaseNotesReader.Failure.self) {
            try ReleaseNotesReader.read(Array(Self.bad.utf8), name: "x")
        }
        #expect(failure?.problems.count == 6)
        #expect(failure?.problems.first?.description == "NK004 release notes: item 1 ignored: number is no version")
        let lenient = try ReleaseNotesReader.read(Array(Self.bad.utf8), name: "x", mode: .lenient)
        #expect(lenient.notes.entries.count == 1 && lenient.warnings.count == 6)
        let items: [Any] = [
            Self.items[0], ["number": 1, "changes": ["x"]], ["number": "1"], ["number": "x", "changes": []],
        ]
        let data = try PropertyListSerialization.data(fromPropertyList: items, format: .binary, options: 0)
        let plist = try ReleaseNotesReader.read(Array(data), name: "x")
        #expect(plist.notes.entries.count == 1 && plist.warnings.count == 3)
        #expect(throws: ReleaseNotesReader.Failure.self) {
            try ReleaseNotesReader.read(Array(data), name: "x", mode: .strict)
        }
    }

    @Test("A property list with anything else than dictionaries in it is none, as in the library; an empty one is one")
    func roots() throws {
        for items: [Any] in [[Self.items[0], "text"], ["text"], [[["number": "1"]]]] {
            let data = try PropertyListSerialization.data(fromPropertyList: items, format: .xml, options: 0)
            let failure = #expect(throws: ReleaseNotesReader.Failure.self) {
                try ReleaseNotesReader.read(Array(data), name: "Versions.plist")
            }
            let sentence =
                "NK003 release notes: unexpected root in \"Versions.plist\": it must be an array of dictionaries"
            #expect(failure?.description == sentence)
        }
        let empty = try PropertyListSerialization.data(fromPropertyList: [Any](), format: .xml, options: 0)
        #expect(try ReleaseNotesReader.read(Array(empty), name: "x").notes.entries.isEmpty)
    }

    @Test("The library's accident with signs counts where leniency is wanted, as in its own property lists")
    func signsInDocuments() throws {
        let items: [[String: Any]] = [["number": "+1.2", "changes": ["a"]], ["number": "-0.1", "changes": ["b"]]]
        let data = try PropertyListSerialization.data(fromPropertyList: items, format: .xml, options: 0)
        let numbers = try ReleaseNotesReader.read(Array(data), name: "x").notes.entries.map(\.number.description)
        #expect(numbers == ["1.2.0", "0.1.0"])
        let json = Array(#"[{"number":"+1.2","changes":[]}]"#.utf8)
        #expect(try ReleaseNotesReader.read(json, name: "x", mode: .lenient).notes.entries.count == 1)
        #expect(throws: ReleaseNotesReader.Failure.self) { try ReleaseNotesReader.read(json, name: "x") }
    }

    @Test("The library's own names: the default file, the failable reading that says why, the decoding")
    func names() throws {
        let usual = PlistFileConfiguration.default
        #expect(usual.fileName == "Versions" && usual.file.lastPathComponent == "Versions.plist")
        #expect(usual.folder == Bundle.main.resourceURL ?? Bundle.main.bundleURL)
        var told: [String] = []
        #expect(NKVersionsData(plistFileConfiguration: .default) { told.append($0.description) } == nil)
        #expect(told == ["NK001 release notes: file \"Versions.plist\" not found"])
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("notes-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let data = try PropertyListSerialization.data(
            fromPropertyList: Self.items + [["number": "x", "changes": []]],
            format: .xml,
            options: 0
        )
        try data.write(to: folder.appendingPathComponent("Versions-EN.plist"))
        let bundle = try #require(Bundle(path: folder.path))
        let english = PlistFileConfiguration(bundle: bundle, fileName: "Versions-EN")
        told = []
        #expect(NKVersionsData(plistFileConfiguration: english) { told.append($0.code.rawValue) } == .sample)
        #expect(told == ["NK004"])
        for shape in ReleaseNotes.Shape.allCases {
            let answer = Data(ReleaseNotes.sample.json(shape).bytes)
            #expect(try JSONDecoder().decode(NKVersionsData.self, from: answer) == .sample)
        }
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(NKVersionsData.self, from: Data(#"{"items":[{"number":"x"}]}"#.utf8))
        }
    }

    // MARK: Looks

    @Test("A style without anything is the library's default")
    func defaults() throws {
        let style = try NotesStyle([:])
        #expect(style == NotesStyle())
        #expect(!style.isRightToLeft && style.reviewButton == nil && style.whatsNew == nil)
        #expect(style.current.titleFont == NotesFont(22, .bold) && style.current.changesFont == NotesFont(14, .regular))
        #expect(style.other.titleFont == NotesFont(15, .bold) && style.other.changesFont == NotesFont(13, .medium))
        #expect(style.current.titleColor.light == "#007AFF" && style.current.titleColor.dark == "#0A84FF")
        #expect(style.other.changesColor == .name("systemGray") && style.current.changesColor == .name("label"))
        let button = NotesStyle.ReviewButton(title: "x")
        #expect(button.font == NotesFont(20, .bold) && button.textColor == .name("white"))
    }

    @Test("A whole style is read, with texts for numbers as YAML gives them")
    func style() throws {
        let json = try JSONValue(
            parsing: Array(
                """
                {"isRightToLeft":"true","submitReviewButtonStatus":{"exist":{"title":"Rate","font":{"size":"18","weight":
                "heavy","family":"Vazirmatn"},"backgroundColor":"#abc","textColor":{"light":"black","dark":"#FFFFFF80"}}},
                "versionsDisplayConfiguration":{"currentVersion":{"whatsNew":{"text":"New","textColor":"systemBlue"},
                "titleColor":"darkGray"},"otherVersion":{"changesFont":{"size":9.5}}}}
                """.utf8
            )
        )
        let style = try NotesStyle(json)
        #expect(style.isRightToLeft)
        #expect(style.reviewButton?.font == NotesFont(18, .heavy, family: "Vazirmatn"))
        #expect(style.reviewButton?.backgroundColor.light == "#AABBCC")
        #expect(style.reviewButton?.textColor.dark == "#FFFFFF80")
        #expect(style.whatsNew?.text == "New" && style.current.titleColor.light == "#555555")
        #expect(style.other.changesFont == NotesFont(9.5, .medium))
        #expect(try NotesStyle(["submitReviewButtonStatus": "notExist"]).reviewButton == nil)
    }

    @Test("Everything that is wrong with a style is told at once, with its path")
    func wrongStyle() throws {
        let json = try JSONValue(
            parsing: Array(
                """
                {"rtl":true,"isRightToLeft":3,"submitReviewButtonStatus":{"exist":{"title":" "}},
                "versionsDisplayConfiguration":{"currentVersion":{"titleColor":"blu","whatsNew":{"text":"x"}},
                "otherVersion":{"titleFont":{"size":0,"weight":"fat","family":"x; } body { display: none"}}}}
                """.utf8
            )
        )
        let failure = #expect(throws: NotesStyle.Failure.self) { try NotesStyle(json) }
        let other = "versionsDisplayConfiguration.otherVersion.titleFont"
        let current = "versionsDisplayConfiguration.currentVersion"
        #expect(
            failure?.problems.map(\.path).sorted()
                == [
                    "isRightToLeft", "rtl", "submitReviewButtonStatus.exist.title", "\(other).family", "\(other).size",
                    "\(other).weight", "\(current).titleColor", "\(current).whatsNew.textColor",
                ].sorted()
        )
    }
}
