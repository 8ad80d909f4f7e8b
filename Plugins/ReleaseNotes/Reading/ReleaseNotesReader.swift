public import Foundation
public import ChaparCore

/// Reads release notes from property lists, XML or binary, and from JSON of either shape; the content decides which.
public enum ReleaseNotesReader {
    /// How bad items are taken.
    @nonexhaustive
    public enum Mode: Sendable {
        /// Property lists skip them, JSON does not.
        case automatic
        /// They are skipped, with a warning each; a version may have signs, which the client library takes by accident.
        case lenient
        /// They make the document bad; all of them are reported.
        case strict
    }

    /// The list that was read, and what was skipped.
    public struct Reading: Sendable {
        /// The list.
        public var notes: ReleaseNotes
        /// Items that were skipped.
        public var warnings: [ReleaseNotesProblem]
    }

    /// Why nothing was read: everything that is wrong.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// Everything that is wrong.
        public var problems: [ReleaseNotesProblem]
        /// One line for each.
        public var description: String { problems.map(\.description).joined(separator: "\n") }
    }

    /// The largest document, in bytes.
    public static let limit = 1 << 20

    /// Reads a file of the bundle's usual name, `Versions.plist`, or another.
    public static func read(file: URL, mode: Mode = .automatic) throws(Failure) -> Reading {
        guard FileManager.default.fileExists(atPath: file.path) else {
            throw Failure(problems: [.init(.missing, "file \"\(file.lastPathComponent)\" not found")])
        }
        guard let data = FileManager.default.contents(atPath: file.path) else {
            throw Failure(problems: [.init(.unreadable, "\"\(file.lastPathComponent)\" cannot be read")])
        }
        return try read(Array(data), name: file.lastPathComponent, mode: mode)
    }

    /// Reads a document; `name` is for messages only.
    public static func read(_ bytes: [UInt8], name: String, mode: Mode = .automatic) throws(Failure) -> Reading {
        func fail(_ code: ReleaseNotesProblem.Code, _ detail: String) -> Failure {
            Failure(problems: [.init(code, detail)])
        }
        guard bytes.count <= limit else { throw fail(.unreadable, "\"\(name)\" cannot be read: more than 1 MiB") }
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(bytes.dropFirst(3)) : bytes
        let first = text.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        let isJSON = first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
        let isStrict = mode == .strict || mode == .automatic && isJSON
        let items: [Item]
        if isJSON {
            let json: JSONValue
            do throws(JSONSyntaxError) {
                json = try JSONValue(parsing: text)
            } catch {
                throw fail(.unreadable, "\"\(name)\" cannot be read: \(error)")
            }
            guard let list = json.arrayValue ?? json["items"]?.arrayValue else {
                throw fail(.badRoot, "unexpected root in \"\(name)\"")
            }
            items = list.map { Item($0, allowsSigns: !isStrict) }
        } else {
            guard let root = try? PropertyListSerialization.propertyList(from: Data(text), options: [], format: nil)
            else { throw fail(.unreadable, "\"\(name)\" cannot be read: neither a property list nor JSON") }
            // As the client library: a list with anything else than dictionaries in it is none.
            guard let list = root as? [[String: Any]] else {
                throw fail(.badRoot, "unexpected root in \"\(name)\": it must be an array of dictionaries")
            }
            items = list.map { Item(plist: $0, allowsSigns: !isStrict) }
        }
        var entries: [ReleaseNotes.Entry] = []
        var problems: [ReleaseNotesProblem] = []
        for (index, item) in items.enumerated() {
            switch item.entry {
            case .success(let entry): entries.append(entry)
            case .failure(let reason): problems.append(.init(.badItem, "item \(index) ignored: \(reason.text)"))
            }
        }
        if isStrict, !problems.isEmpty { throw Failure(problems: problems) }
        return Reading(notes: ReleaseNotes(entries), warnings: problems)
    }

    private struct Reason: Error { var text: String }

    /// One item, whichever form it had.
    private struct Item {
        var entry: Result<ReleaseNotes.Entry, Reason>

        init(_ json: JSONValue, allowsSigns: Bool) {
            entry = Result { () throws(Reason) in
                guard json.objectValue != nil else { throw Reason(text: "it is no object") }
                return ReleaseNotes.Entry(
                    try Self.number(json["number"], allowsSigns),
                    try Self.changes(json["changes"])
                )
            }
        }

        init(plist item: [String: Any], allowsSigns: Bool) {
            entry = Result { () throws(Reason) in
                guard let text = item["number"] as? String else { throw Reason(text: "number is no text") }
                guard let number = ReleaseVersion(text, allowsSigns: allowsSigns) else {
                    throw Reason(text: "number is no version")
                }
                guard let changes = item["changes"] as? [String] else {
                    throw Reason(text: "changes is no list of texts")
                }
                return ReleaseNotes.Entry(number, changes)
            }
        }

        /// Reads a text, or the three parts of the form that the library's decoder takes.
        private static func number(_ json: JSONValue?, _ allowsSigns: Bool) throws(Reason) -> ReleaseVersion {
            switch json {
            case .string(let text)?:
                guard let number = ReleaseVersion(text, allowsSigns: allowsSigns) else {
                    throw Reason(text: "number is no version")
                }
                return number
            case .object(let parts)?:
                var numbers: [UInt] = []
                for name in ["major", "minor", "patch"] {
                    guard let part = parts[name]?.integerValue, let number = UInt(exactly: part) else {
                        throw Reason(text: "number.\(name) is no unsigned number")
                    }
                    numbers.append(number)
                }
                return ReleaseVersion(major: numbers[0], minor: numbers[1], patch: numbers[2])
            default: throw Reason(text: "number is missing")
            }
        }

        private static func changes(_ json: JSONValue?) throws(Reason) -> [String] {
            guard let list = json?.arrayValue ?? json?["changes"]?.arrayValue else {
                throw Reason(text: "changes is no list")
            }
            let texts = list.compactMap(\.stringValue)
            guard texts.count == list.count else { throw Reason(text: "a change is no text") }
            return texts
        }
    }
}

extension ReleaseNotes {
    /// The two JSON forms of a list; no document can be both.
    @nonexhaustive
    public enum Shape: String, Sendable, CaseIterable {
        /// The shape that the library's page describes.
        case documented
        /// The shape that the decoder in the library's release 1.0.1 takes.
        case compiled
    }

    /// Returns the list as JSON, newest first, without bullets.
    public func json(_ shape: Shape) -> JSONValue {
        let items = entries.map { entry -> JSONValue in
            let changes = JSONValue.array(entry.changes.map { .string($0) })
            switch shape {
            case .documented: return ["number": .string(entry.number.description), "changes": changes]
            case .compiled:
                func part(_ number: UInt) -> JSONValue { .integer(Int64(clamping: number)) }
                let number: JSONValue = [
                    "major": part(entry.number.major), "minor": part(entry.number.minor),
                    "patch": part(entry.number.patch),
                ]
                return ["number": number, "changes": ["changes": changes]]
            }
        }
        return ["items": .array(items)]
    }
}
