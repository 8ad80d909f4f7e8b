import ArgumentParser
import Foundation
import ChaparCore

/// A configuration under construction: a few settings, and backends with the values known so far.
struct ConfigurationDraft {
    /// A backend with its values, in the order in which they were added.
    struct Backend {
        var name: String
        var kind: String
        fileprivate var values = JSONObject()
    }

    /// The backends.
    private(set) var backends: [Backend] = []
    /// The element of `auth.api_keys`; nil without a key.
    var keyLine: String?
    /// Further sections of a new file, a line each.
    var sections: [String] = []
    /// The files of the server's certificate and of its key, in a new file; nil without HTTPS.
    var tls: (certificate: String, key: String)?
    private let beginning: Beginning

    /// The part of the file before the backends.
    enum Beginning {
        /// The start of a new file: where the gateway listens, and its database.
        case settings(host: String, port: Int, store: String)
        /// A file without backends; the rest of it stays as it is.
        case file(ConfigurationFile)
    }

    /// Makes one without backends.
    init(_ beginning: Beginning) { self.beginning = beginning }

    /// Adds a backend; returns false when the name is taken.
    mutating func add(_ name: String, kind: String) -> Bool {
        guard !backends.contains(where: { $0.name == name }) else { return false }
        backends.append(Backend(name: name, kind: kind))
        return true
    }

    /// Sets a value from the command line, `NAME.KEY=VALUE`.
    mutating func set(_ text: String) throws {
        guard let (path, value) = text.halves(at: "="), case let steps = path.split(separator: ".").map(String.init),
            steps.count > 1, let name = steps.first
        else { throw ValidationError("--set \(text): write NAME.KEY=VALUE, such as ios.team_id=ABCDE12345.") }
        guard backends.contains(where: { $0.name == name }) else {
            let names = backends.map(\.name).joined(separator: ", ")
            throw ValidationError("--set \(text): there is no backend \"\(name)\", only \(names).")
        }
        let key = Array(steps.dropFirst())
        put(Self.absolute(value, key), name, key)
    }

    /// Sets a backend's key; a key of several steps stands in a map.
    mutating func put(_ value: String, _ name: String, _ key: [String]) {
        guard let index = backends.firstIndex(where: { $0.name == name }) else { return }
        backends[index].values = Self.put(value, key[...], into: backends[index].values)
    }

    private static func put(_ value: String, _ key: ArraySlice<String>, into object: JSONObject) -> JSONObject {
        guard let first = key.first else { return object }
        var object = object
        let inner = object[first]?.objectValue ?? JSONObject()
        object[first] = key.count == 1 ? .string(value) : .object(put(value, key.dropFirst(), into: inner))
        return object
    }

    /// Gives a backend the value of another one's key, unless it has one of its own.
    mutating func share(_ key: String, of name: String, with other: String) {
        guard let value = backends.first(where: { $0.name == name })?.values[key],
            let index = backends.firstIndex(where: { $0.name == other }), backends[index].values[key] == nil
        else { return }
        backends[index].values[key] = value
    }

    /// Returns whether a backend has a value for a key.
    func has(_ key: String, of name: String) -> Bool {
        backends.first { $0.name == name }?.values[key] != nil
    }

    /// Returns the backend and key that an issue is about; nil when it is about something else.
    func place(of issue: ConfigIssue) -> (name: String, key: [String])? {
        let steps = issue.path.split(separator: ".").map(String.init)
        guard steps.count > 2, steps[0] == "backends", steps[2] != "kind",
            backends.contains(where: { $0.name == steps[1] })
        else { return nil }
        return (steps[1], Array(steps.dropFirst(2)))
    }

    /// Returns the absolute path of a file; any other value as it is.
    static func absolute(_ value: String, _ key: [String]) -> String {
        guard key.last?.hasSuffix("_file") == true, !value.hasPrefix("$") else { return value }
        return URL(filePath: value).standardizedFileURL.path
    }

    /// The text of the file.
    var text: String {
        let keys = keyLine.map { ["auth:", "  api_keys:", "    \($0)"] } ?? []
        switch beginning {
        case .settings(let host, let port, let store):
            let files = tls.map { tls in
                ", tls: { certificate_file: \(Self.scalar(tls.certificate)), key_file: \(Self.scalar(tls.key)) }"
            }
            let head =
                [
                    "# Written by init; `check` names mistakes, `doctor` looks whether the platforms can be reached.",
                    "server: { host: \(Self.scalar(host)), port: \(port)\(files ?? "") }",
                    "store: { path: \(Self.scalar(store)) }",
                ] + sections
            let hint = "# Without auth the first start makes an API key beside the store, for commands on this machine."
            return (head + (keys.isEmpty ? [hint] : keys) + section).joined(separator: "\n") + "\n"
        case .file(var file):
            file.fill(backends: section.joined(separator: "\n"))
            if !keys.isEmpty { file.append(keys.joined(separator: "\n") + "\n") }
            return file.text
        }
    }

    /// The lines of the section `backends`.
    private var section: [String] {
        var lines = ["backends:"]
        for backend in backends {
            lines += ["  \(backend.name):", "    kind: \(backend.kind)"]
            lines += Self.lines(backend.values, "    ")
        }
        return lines
    }

    private static func lines(_ object: JSONObject, _ margin: String) -> [String] {
        object.flatMap { name, value in
            if let inner = value.objectValue { return ["\(margin)\(name):"] + lines(inner, margin + "  ") }
            return ["\(margin)\(name): \(scalar(value.stringValue ?? ""))"]
        }
    }

    /// Returns a value as YAML: plain words, numbers, lists and maps as they are, all else in quotation marks.
    static func scalar(_ text: String) -> String {
        let isList = text.hasPrefix("[") && text.hasSuffix("]")
        let isMap = text.hasPrefix("{") && text.hasSuffix("}")
        if isList || isMap || isPlain(text) { return text }
        return JSONValue.string(text).text
    }

    /// Returns whether YAML reads a text as it is, without quotation marks.
    private static func isPlain(_ text: String) -> Bool {
        let others = ["null", "yes", "no", "on", "off", "y", "n"]
        guard let first = text.utf8.first, first != UInt8(ascii: "."), !others.contains(text) else { return false }
        return text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                true
            default: false
            }
        }
    }
}
