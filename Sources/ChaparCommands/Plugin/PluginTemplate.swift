import CChaparDocuments
import Foundation

/// How the made-up platform of a new plugin knows its account: by a key, or by access tokens (OAuth 2).
enum PluginAuth: String, CaseIterable {
    case key, oauth2
}

/// The kind of recipient of the made-up platform of a new plugin: a word, or an address to connect to.
enum PluginRecipient: String, CaseIterable {
    case word, url
}

/// The files of a new plugin, with placeholders.
///
/// A template is one text: a line `>>> PATH` begins each file. `@Name@` and the other names of ``PluginNames/words``
/// are placeholders, in paths too. A line that begins with `@+PART@`, or `@+PART+PART@`, is written where these parts
/// are chosen.
struct PluginTemplate {
    private let text: String

    /// A package in Swift: `Examples/custom-plugin` is its output, which CI builds.
    static let swift = PluginTemplate(chapar_plugin_in_swift())
    /// A service in Python behind the backend `http`.
    static let python = PluginTemplate(chapar_plugin_in_python())

    private init(_ document: chapar_document) {
        text = String(decoding: UnsafeBufferPointer(start: document.bytes, count: document.count), as: UTF8.self)
    }

    /// Returns the files in order, each with its path, with the lines of one way to authenticate and of one kind of
    /// recipient.
    func filled(
        _ words: [String: String],
        auth: PluginAuth = .key,
        recipient: PluginRecipient = .word
    ) -> [(path: String, text: String)] {
        let chosen: Set<Substring> = [auth.rawValue[...], recipient.rawValue[...]]
        var text = self.text.split(separator: "\n", omittingEmptySubsequences: false).compactMap { line -> String? in
            guard line.hasPrefix("@+"), let end = line.dropFirst(2).firstIndex(of: "@") else { return String(line) }
            let parts = line[..<end].dropFirst(2).split(separator: "+")
            return chosen.isSuperset(of: parts) ? String(line[end...].dropFirst()) : nil
        }
        .joined(separator: "\n")
        for (word, value) in words { text = text.replacing("@\(word)@", with: value) }
        return ("\n" + text).components(separatedBy: "\n>>> ").dropFirst().map { part in
            let end = part.firstIndex(of: "\n") ?? part.endIndex
            let body = part[end...].dropFirst()
            return (String(part[..<end]), body.hasSuffix("\n") ? String(body) : body + "\n")
        }
    }

    /// Writes a new file with the folders that it needs; throws when the file exists.
    static func write(_ text: String, to path: String) throws(CommandFailure) {
        let file = URL(filePath: path)
        do {
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try Data(text.utf8).write(to: file, options: .withoutOverwriting)
        } catch {
            throw CommandFailure("cannot write \(path): \(error.localizedDescription)")
        }
    }

    /// Returns the relative path from one folder to another, `.` for the same.
    static func path(from folder: String, to target: String) -> String {
        let from = URL(filePath: folder).standardizedFileURL.pathComponents
        let to = URL(filePath: target).standardizedFileURL.pathComponents
        let common = zip(from, to).prefix { $0 == $1 }.count
        let steps = Array(repeating: "..", count: from.count - common) + to.dropFirst(common)
        return steps.isEmpty ? "." : steps.joined(separator: "/")
    }
}
