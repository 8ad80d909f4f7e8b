import Foundation
import ChaparComposition
import ChaparCore
import Testing

@testable import ChaparCommands
@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer
@testable import chapar

/// The text of the pages between `<!-- generated: WHAT -->` and `<!-- end -->` is made from the code's own tables.
///
/// With `CHAPAR_WRITE_DOCUMENTS` set (`.ci/docs --write`) the tests write the pages; without it a page that is out of
/// date fails. In a table of keys the last column, what a key means, is written by hand and stays; a key without it
/// fails.
@Suite(
    "The generated parts of the documents",
    .timeLimit(.minutes(2)),
    .enabled(if: Platforms.missing.isEmpty, "The pages speak of every plugin.")
)
struct GeneratedDocumentsTests {
    private static let writes = ProcessInfo.processInfo.environment["CHAPAR_WRITE_DOCUMENTS"] != nil

    @Test("The tables of the metrics are those of the code")
    func metrics() throws {
        for (subject, families) in MetricFamily.all {
            let rows = families.map { family in
                let labels = family.labels.map { "`\($0)`" }.joined(separator: " ")
                return "| `\(family.name)` | \(family.type) | \(labels) | \(family.help) |"
            }
            let table = ["| metric | type | labels | what it says |", "| --- | --- | --- | --- |"] + rows
            try Self.hold("docs/Metrics.md", "metrics of \(subject.lowercased())", table)
        }
        let names = MetricFamily.all.flatMap(\.families).map(\.name)
        #expect(names.count == Set(names).count)
    }

    @Test("The table of the API's routes is that of its description")
    func routes() throws {
        let file = Page.root.appending(path: "Sources/ChaparServer/OpenAPI/openapi.json")
        let description = try JSONValue(parsing: [UInt8](Data(contentsOf: file)))
        try Self.hold("docs/APIReference.md", "routes", APIReference(description).lines)
    }

    @Test("The tables of the reasons are what explain says")
    func reasons() throws {
        let guides = ReasonGuide.all(Plugins.program.backends)
        #expect(guides.count > 100)
        let text = try String(contentsOf: Page.root.appending(path: "docs/Troubleshooting.md"), encoding: .utf8)
        let sources = Self.names(in: text).filter { $0.hasPrefix("reasons of ") }
            .map { String($0.dropFirst("reasons of ".count)) }
        #expect(Set(sources) == Set(guides.map(\.source)), "each source of reasons has a table")
        let tables = ReasonTables(guides)
        #expect(tables.faults == [])
        for source in sources {
            try Self.hold("docs/Troubleshooting.md", "reasons of \(source)", tables.rows(of: source))
        }
        try Self.hold("docs/Troubleshooting.md", "shared reactions", tables.reactionRows)
        try Self.hold("docs/Troubleshooting.md", "shared actions", tables.actionRows)
    }

    @Test("The table of the commands is what the program says of itself")
    func commands() async throws {
        let result = try await Program.run(["--experimental-dump-help"])
        let dump = try JSONValue(parsing: Array(result.output.utf8))
        var rows: [String] = []
        func visit(_ command: JSONValue, _ path: String) {
            let name = command["commandName"]?.stringValue ?? ""
            let whole = path.isEmpty ? name : "\(path) \(name)"
            let children = (command["subcommands"]?.arrayValue ?? []).filter {
                $0["commandName"]?.stringValue != "help" && $0["shouldDisplay"] != .bool(false)
            }
            if children.isEmpty {
                let abstract = command["abstract"]?.stringValue ?? ""
                rows.append("| `\(whole)` | \(abstract.replacing("|", with: "\\|")) |")
            }
            for child in children { visit(child, whole) }
        }
        visit(try #require(dump["command"]), "")
        #expect(rows.count > 30)
        try Self.hold("docs/CommandLine.md", "commands", ["| command | does |", "| --- | --- |"] + rows)
    }

    @Test("Every key of the configuration stands in a table with its form, its default and what it means")
    func keys() async throws {
        let keys = try await ConfigurationKeys.read(Page.all())
        let tables = try Page.all().flatMap { page in
            Self.names(in: page.text).filter { $0.hasPrefix("keys of ") }.map { (page.path, $0) }
        }
        #expect(tables.count > 10)
        var left = Set(keys.all.map(\.path))
        for (page, name) in tables {
            let section = String(name.dropFirst("keys of ".count))
            let rows = keys.rows(of: section)
            #expect(!rows.isEmpty, "\(page): no configuration of the pages has a section \(section)")
            left.subtract(rows.map(\.path))
            let text = try String(contentsOf: Page.root.appending(path: page), encoding: .utf8)
            let meanings = Self.meanings(in: Self.part(name, of: text) ?? [])
            for row in rows where Self.writes == false {
                #expect(meanings[row.name]?.isEmpty == false, "\(page): nothing says what \(row.path) means")
            }
            let lines = rows.map { row in
                "| `\(row.name)` | \(row.form) | \(row.standard) | \(meanings[row.name] ?? "") |"
            }
            try Self.hold(page, name, ["| key | takes | default | meaning |", "| --- | --- | --- | --- |"] + lines)
        }
        #expect(left.filter { !keys.isCovered($0) }.sorted() == [], "keys that stand in no table")
        #expect(keys.unopened == [], "maps that no configuration of the pages has")
    }

    // MARK: Parts of pages

    /// The names of the parts of a page.
    private static func names(in text: String) -> [String] {
        text.matches(of: #/(?m)^<!-- generated: (.*) -->$/#).map { String($0.output.1) }
    }

    /// The lines of a part; nil when the page has no such part.
    static func part(_ name: String, of text: String) -> [String]? {
        let lines = text.components(separatedBy: "\n")
        guard let begin = lines.firstIndex(of: "<!-- generated: \(name) -->"),
            let end = lines[begin...].firstIndex(of: "<!-- end -->")
        else { return nil }
        return Array(lines[(begin + 1)..<end])
    }

    /// The last cell of each row of a table, by the name in the first one.
    private static func meanings(in lines: [String]) -> [String: String] {
        var meanings: [String: String] = [:]
        for line in lines {
            let cells = line.replacing("\\|", with: "\u{1}").split(separator: "|", omittingEmptySubsequences: false)
            guard cells.count >= 5 else { continue }
            let name = cells[1].trimmingCharacters(in: CharacterSet(charactersIn: " `"))
            meanings[name] = cells[cells.count - 2].trimmingCharacters(in: .whitespaces)
                .replacing("\u{1}", with: "\\|")
        }
        return meanings
    }

    /// Holds a part of a page to what it should be, or writes it.
    static func hold(_ path: String, _ name: String, _ lines: [String]) throws {
        let file = Page.root.appending(path: path)
        let text = try String(contentsOf: file, encoding: .utf8)
        let old = try #require(part(name, of: text), "\(path) has no part \"\(name)\"")
        guard old != lines else { return }
        if writes {
            let mark = "<!-- generated: \(name) -->\n"
            let before = mark + old.map { $0 + "\n" }.joined() + "<!-- end -->"
            let after = mark + lines.map { $0 + "\n" }.joined() + "<!-- end -->"
            try text.replacing(before, with: after, maxReplacements: 1).write(
                to: file,
                atomically: true,
                encoding: .utf8
            )
        } else {
            let first = zip(old, lines).first { $0 != $1 } ?? ("\(old.count) lines", "\(lines.count) lines")
            Issue.record(
                "\(path), \(name): out of date, run .ci/docs --write. It says\n\(first.0)\nand should say\n\(first.1)"
            )
        }
    }
}

/// The keys that the configurations of the pages make the program read, by section.
struct ConfigurationKeys {
    /// A row of a table.
    struct Row {
        var path: String
        var name: String
        var form: String
        var standard: String
    }

    /// Every key once, in the order of reading; names that users choose read `NAME`, places of lists `[]`, a backend
    /// its kind.
    private(set) var all: [ConfigKey] = []
    private var places: [String: Int] = [:]

    /// Reads every configuration of the pages.
    static func read(_ pages: [Page]) async throws -> ConfigurationKeys {
        var keys = ConfigurationKeys()
        try await SandboxRig.run { rig in
            try rig.writeSampleFiles()
            for block in pages.flatMap(\.blocks) where block.info == "yaml check" {
                let file = rig.folder.appending(path: "page.yaml").path
                try block.text.write(toFile: file, atomically: true, encoding: .utf8)
                let loaded = try GatewayProgram.$current.withValue(Plugins.program) {
                    try BackendLoader.offline().load(file)
                }
                keys.add(loaded)
            }
        }
        return keys
    }

    private mutating func add(_ loaded: LoadedConfiguration) {
        var kinds: [String: String] = [:]
        for setting in loaded.settings {
            if let match = setting.path.wholeMatch(of: #/backends\.([^.]+)\.kind/#) {
                kinds[String(match.output.1)] = setting.value
            }
        }
        for key in loaded.keys {
            var key = key
            guard let path = Self.general(key.path, kinds) else { continue }
            key.path = path
            if let index = places[key.path] {
                all[index].standard = all[index].standard ?? key.standard
                if key.isRequired { all[index].isRequired = true }
                if !all[index].form.contains(key.form) { all[index].form += " or \(key.form)" }
            } else {
                places[key.path] = all.count
                all.append(key)
            }
        }
    }

    /// Maps whose keys are names of the user's own.
    private static let named: Set<String> = [
        "apps", "lists", "release_notes.apps", "release_notes.apps.NAME.sources", "release_notes.apps.NAME.ui",
        "backends.chabok.display.channels",
    ]

    /// Maps in which anything may stand.
    private static func isFree(_ path: String) -> Bool {
        path.wholeMatch(of: #/(release_notes\.apps\.NAME\.ui\.NAME|backends\.\w+\.auth\.extra_parameters)\..*/#) != nil
    }

    /// A path without what is a user's own; nil for a key of a user's own.
    private static func general(_ path: String, _ kinds: [String: String]) -> String? {
        var parts: [String] = []
        for part in path.split(separator: ".").map(String.init) {
            let above = parts.joined(separator: ".")
            let plain = part.replacing(#/\[\d+\]/#, with: "[]")
            if above == "backends" {
                parts.append(kinds[part] ?? part)
            } else {
                parts.append(named.contains(above) ? "NAME" : plain)
            }
        }
        let whole = parts.joined(separator: ".")
        return isFree(whole) ? nil : whole
    }

    /// Maps that no configuration opened, so that their keys are unknown; what every kind takes is opened for one
    /// of them.
    var unopened: [String] {
        let common = common
        func open(_ path: String) -> String {
            let parts = path.split(separator: ".", maxSplits: 2).map(String.init)
            return parts.count == 3 && parts[0] == "backends" && Self.isCommon(parts[2], common)
                ? "backends.*.\(parts[2])" : path
        }
        let paths = all.map { open($0.path) }
        return all.filter { $0.form == "map" || $0.form == "list of maps" }.map { open($0.path) }.filter { path in
            !paths.contains { $0.hasPrefix(path + ".") || $0.hasPrefix(path + "[].") }
                && !path.hasSuffix("extra_parameters") && !path.hasSuffix("ui.NAME") && path != "apps.NAME"
        }
    }

    /// The keys that nearly every kind of backend takes, without what stands in them.
    private var common: Set<String> {
        var kinds: [String: Set<String>] = [:]
        for key in all {
            let parts = key.path.split(separator: ".").map(String.init)
            if parts.count == 3, parts[0] == "backends" { kinds[parts[2], default: []].insert(parts[1]) }
        }
        return Set(kinds.filter { $0.value.count >= 6 }.keys).union(["auth"])
    }

    private static func isCommon(_ name: String, _ common: Set<String>) -> Bool {
        common.contains(String(name.prefix { $0 != "." }))
    }

    /// Whether a key stands in the table of what every kind takes, of `auth`, or of another platform.
    func isCovered(_ key: String) -> Bool {
        let parts = key.split(separator: ".", maxSplits: 2).map(String.init)
        if all.contains(where: { $0.path.hasPrefix(key + ".") || $0.path.hasPrefix(key + "[].") }) { return true }
        guard parts.count == 3, parts[0] == "backends" else { return ["apps.NAME", "lists.NAME"].contains(key) }
        return Self.isCommon(parts[2], common) && !key.hasPrefix("backends.altcraft.auth.")
            || key.hasPrefix("backends.idpush.onesignal.")
    }

    /// The rows of a section: `the file`, `backends` (what every kind takes), `auth` (of `oauth2_refresh`), `access`
    /// (the file's `auth`), `backends.apns` (what it takes besides, or otherwise), `server` and so on.
    func rows(of section: String) -> [Row] { Self.grouped(unordered(section)) }

    /// Returns the rows with those of each map together.
    private static func grouped(_ rows: [Row]) -> [Row] {
        func parent(_ row: Row) -> Substring { row.name.prefix { $0 != "." } }
        var order: [Substring] = []
        for row in rows where !order.contains(parent(row)) { order.append(parent(row)) }
        return order.flatMap { name in rows.filter { parent($0) == name } }
    }

    private func unordered(_ section: String) -> [Row] {
        switch section {
        case "the file": return all.filter { !$0.path.contains(".") }.map { row($0, below: "") }
        case "backends": return common(without: "auth.")
        case "auth":
            return all.filter { $0.path.hasPrefix("backends.onesignal.auth.") }
                .map { row($0, below: "backends.onesignal.auth.") }
        case "access":
            return all.filter { $0.path.hasPrefix("auth.") && !$0.path.contains("[]") }.map { row($0, below: "auth.") }
        default:
            let below = section + (section == "routes" || section == "auth.api_keys" ? "[]." : ".")
            let usual = Dictionary(common(without: "auth.").map { ($0.name, $0.standard) }) { first, _ in first }
            return all.filter { $0.path.hasPrefix(below) && !$0.path.hasPrefix("backends.idpush.onesignal.") }
                .map { row($0, below: below) }
                .filter { row in
                    guard section.hasPrefix("backends."), Self.isCommon(row.name, common) else { return true }
                    if row.name.hasPrefix("auth.") { return section == "backends.altcraft" }
                    return usual[row.name].map { $0 != row.standard } ?? false
                }
        }
    }

    /// Returns the keys that every kind takes, with the first kind's text.
    private func common(without prefix: String) -> [Row] {
        let common = common
        var seen: Set<String> = []
        return all.compactMap { key in
            let parts = key.path.split(separator: ".", maxSplits: 2).map(String.init)
            guard parts.count == 3, parts[0] == "backends", Self.isCommon(parts[2], common),
                !parts[2].hasPrefix(prefix), seen.insert(parts[2]).inserted
            else { return nil }
            return row(key, below: "backends.\(parts[1]).")
        }
    }

    private func row(_ key: ConfigKey, below: String) -> Row {
        let standard = key.standard.map { $0.isEmpty ? "empty" : "`\($0)`" } ?? (key.isRequired ? "required" : "")
        return Row(path: key.path, name: String(key.path.dropFirst(below.count)), form: key.form, standard: standard)
    }
}

/// The routes of an OpenAPI description, as tables by tag, and what each takes.
struct APIReference {
    let lines: [String]

    init(_ description: JSONValue) {
        var lines = ["## Routes", ""]
        for (path, methods) in (description["paths"]?.objectValue ?? [:]).members {
            for (method, operation) in (methods.objectValue ?? [:]).members where operation["responses"] != nil {
                lines += Self.operation(method.uppercased(), path, operation, description)
            }
        }
        lines += ["## Answers that many routes have", "", "| answer | when |", "| --- | --- |"]
        lines += Self.sharedAnswers(description)
        lines += ["", "## Objects", ""]
        for (name, schema) in (description["components"]?["schemas"]?.objectValue ?? [:]).members {
            let rows = Self.members(schema, description, place: "")
            guard !rows.isEmpty else { continue }
            lines += ["### \(name)", ""]
            if let text = schema["description"]?.stringValue { lines += [text, ""] }
            lines += ["| member | type | meaning |", "| --- | --- | --- |"] + rows + [""]
        }
        self.lines = lines
    }

    private static func operation(_ method: String, _ path: String, _ operation: JSONValue, _ root: JSONValue)
        -> [String]
    {
        var lines = ["### \(method) \(path)", "", operation["summary"]?.stringValue ?? ""]
        if let text = operation["description"]?.stringValue { lines += ["", text] }
        let parameters = (operation["parameters"]?.arrayValue ?? []).map { resolved($0, root) }
        let body = operation["requestBody"].map { resolved($0, root) }
        let schema = body?["content"]?["application/json"]?["schema"]
        let rows =
            parameters.map { parameter in
                "| `\(parameter["name"]?.stringValue ?? "")` | \(parameter["in"]?.stringValue ?? "") "
                    + "| \(type(parameter["schema"], root)) | \(cell(parameter["description"]?.stringValue)) |"
            } + members(schema, root, place: "body")
        if !rows.isEmpty { lines += ["", "| name | in | type | meaning |", "| --- | --- | --- | --- |"] + rows }
        // What many routes answer stands once, under its status.
        let answers = (operation["responses"]?.objectValue ?? [:]).members.map { status, answer in
            answer["$ref"] == nil ? "\(status) \(answer["description"]?.stringValue ?? "")" : status
        }
        lines += ["", "Answers: " + answers.map(cell).joined(separator: " · "), ""]
        return lines
    }

    /// The answers that routes refer to, with their statuses.
    private static func sharedAnswers(_ root: JSONValue) -> [String] {
        var statuses: [String: Set<String>] = [:]
        for (_, methods) in (root["paths"]?.objectValue ?? [:]).members {
            for (_, operation) in (methods.objectValue ?? [:]).members {
                for (status, answer) in (operation["responses"]?.objectValue ?? [:]).members {
                    if let name = answer["$ref"]?.stringValue?.split(separator: "/").last {
                        statuses[String(name), default: []].insert(status)
                    }
                }
            }
        }
        return (root["components"]?["responses"]?.objectValue ?? [:]).members.map { name, answer in
            (statuses[name, default: []].sorted().joined(separator: " "), cell(answer["description"]?.stringValue))
        }
        .filter { !$0.0.isEmpty }.sorted { $0 < $1 }.map { "| \($0.0) | \($0.1) |" }
    }

    /// The members of an object, with where they stand unless that is empty.
    private static func members(_ schema: JSONValue?, _ root: JSONValue, place: String) -> [String] {
        guard let schema = schema.map({ resolved($0, root) }) else { return [] }
        let required = Set((schema["required"]?.arrayValue ?? []).compactMap(\.stringValue))
        return (schema["properties"]?.objectValue ?? [:]).members.map { name, property in
            let own = resolved(property, root)
            let text = property["description"]?.stringValue ?? own["description"]?.stringValue
            let label = "`\(name)`\(required.contains(name) && !place.isEmpty ? ", required" : "")"
            let cells = [label] + (place.isEmpty ? [] : [place]) + [type(property, root), cell(text)]
            return "| " + cells.joined(separator: " | ") + " |"
        }
    }

    private static func resolved(_ value: JSONValue, _ root: JSONValue) -> JSONValue {
        guard let reference = value["$ref"]?.stringValue else { return value }
        return reference.split(separator: "/").dropFirst().reduce(root) { $0[String($1)] ?? .null }
    }

    private static func type(_ schema: JSONValue?, _ root: JSONValue) -> String {
        guard let schema else { return "" }
        if let words = schema["enum"]?.arrayValue {
            return words.compactMap(\.stringValue).map { "`\($0)`" }.joined(separator: ", ")
        }
        if let reference = schema["$ref"]?.stringValue {
            let own = resolved(schema, root)
            guard own["properties"] != nil, let name = reference.split(separator: "/").last else {
                return type(own, root)
            }
            return "[\(name)](#\(name.lowercased()))"
        }
        for word in ["oneOf", "anyOf"] {
            if let choices = schema[word]?.arrayValue {
                return choices.map { type($0, root) }.joined(separator: " or ")
            }
        }
        if let types = schema["type"]?.arrayValue {
            return types.compactMap(\.stringValue).joined(separator: " or ")
        }
        let word = schema["type"]?.stringValue ?? ""
        return word == "array" ? "array of \(type(schema["items"], root))" : word
    }

    private static func cell(_ text: String?) -> String {
        (text ?? "").replacing("\n", with: " ").replacing("|", with: "\\|")
    }
}
