public import ChaparCore

/// An app whose release notes are kept: where they come from, how they look, what is current.
public struct NotesApp: Sendable {
    /// Its id in paths, such as `shop`.
    public var id: String
    /// Its name for people.
    public var name: String
    /// The published version.
    public var current: ReleaseVersion
    /// The documents, by language tag.
    public var sources: [String: ConfigFile]
    /// The language in place of one that there is not; nil answers with 404.
    public var defaultLanguage: String?
    /// The looks, by language tag.
    public var styles: [String: NotesStyle] = [:]
    /// Where a review is written.
    public var reviewURL: String?
    /// The JSON form that is served unless a request asks for the other.
    public var shape = ReleaseNotes.Shape.documented
    /// How bad items are taken.
    public var mode = ReleaseNotesReader.Mode.automatic

    /// Makes an app.
    public init(
        id: String,
        name: String,
        current: ReleaseVersion,
        sources: [String: ConfigFile],
        defaultLanguage: String?
    ) {
        self.id = id
        self.name = name
        self.current = current
        self.sources = sources
        self.defaultLanguage = defaultLanguage
    }

    /// Its languages, in order.
    public var languages: [String] { sources.keys.sorted() }

    /// Returns the language that fits a tag: itself, else its first part, else another one with the same first part.
    public func language(for tag: String) -> String? {
        let wanted = tag.lowercased()
        func first(_ tag: String) -> Substring { tag.lowercased().prefix { $0 != "-" && $0 != "_" } }
        return languages.first { $0.lowercased() == wanted }
            ?? languages.first { $0.lowercased() == first(wanted) }
            ?? languages.first { first($0) == first(wanted) }
    }

    /// Returns the looks of a language; the default ones run from right to left for languages that are written so.
    public func style(_ language: String) -> NotesStyle {
        if let style = styles[language] { return style }
        var style = NotesStyle()
        let script = language.lowercased().prefix { $0 != "-" && $0 != "_" }
        style.isRightToLeft = ["ar", "fa", "he", "ur", "ps", "ckb", "sd", "ug", "yi"].contains(script)
        return style
    }
}

/// The apps of a gateway, and what is common to them.
public struct NotesOptions: Sendable {
    /// The apps, by id.
    public var apps: [String: NotesApp]
    /// Where the gateway is seen from outside, without a slash at the end, for links in announcements; nil leaves them
    /// out.
    public var publicURL: String?

    /// Makes options.
    public init(apps: [NotesApp], publicURL: String? = nil) {
        self.apps = Dictionary(apps.map { ($0.id, $0) }) { first, _ in first }
        self.publicURL = publicURL
    }
}

extension NotesOptions {
    /// Reads the section `release_notes`; nil after reporting everything that is wrong with it.
    init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        var publicURL = section.string("public_url")
        if let url = publicURL, !Self.isWebAddress(url) {
            section.reject("public_url", "is not an address", fix: "Write https://host, without a path.")
        }
        while publicURL?.hasSuffix("/") == true { publicURL?.removeLast() }
        var apps: [NotesApp] = []
        if let list = section.section("apps") {
            for id in list.keys {
                guard let own = list.section(id) else {
                    list.reject(id, "is empty", fix: "Write at least current and sources.")
                    continue
                }
                if BackendRegistry.isName(id) {
                    if let app = NotesApp(id, own) { apps.append(app) }
                } else {
                    list.reject(id, "is not a name", fix: "Use letters, digits, - and _, at most 64.")
                }
                own.finish()
            }
            if list.keys.isEmpty { section.reject("apps", "names no app") }
        } else {
            section.missing("apps", "a map of apps, each with current and sources")
        }
        guard section.report.issues.count == before else { return nil }
        self.init(apps: apps, publicURL: publicURL)
    }

    static func isWebAddress(_ text: String) -> Bool {
        (text.hasPrefix("https://") || text.hasPrefix("http://")) && text.count > 8
            && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "<") }
    }
}

extension NotesApp {
    /// How bad items are taken, in configuration files.
    private enum ModeWord: String, CaseIterable {
        case automatic, lenient, strict
    }

    fileprivate init?(_ id: String, _ section: ConfigSection) {
        let text = section.requiredString("current", "the published version, such as 1.4.0")
        let current = text.flatMap { ReleaseVersion($0) }
        if let text, current == nil {
            section.reject("current", "\"\(text)\" is no version", fix: "Write one to three numbers, such as 1.4.0.")
        }
        var sources: [String: ConfigFile] = [:]
        if let list = section.section("sources") {
            for language in list.keys {
                if Self.isLanguage(language) {
                    sources[language] = list.fileHandle(language)
                } else {
                    list.reject(language, "is not a language tag", fix: "Write one such as fa or en-GB.")
                }
            }
            if list.keys.isEmpty { section.reject("sources", "names no file") }
        } else {
            section.missing("sources", "a map from language to file, such as { en: Versions.plist }")
        }
        let only = sources.count == 1 ? sources.keys.first : nil
        let fallback = section.string("default_language") ?? only
        if let fallback, sources[fallback] == nil, !sources.isEmpty {
            section.rejectWord("default_language", fallback, sources.keys.sorted())
        }
        self.init(
            id: id,
            name: section.string("name") ?? id,
            current: current ?? ReleaseVersion(major: 0),
            sources: sources,
            defaultLanguage: fallback
        )
        reviewURL = section.string("review_url")
        if let url = reviewURL, !NotesOptions.isWebAddress(url) {
            section.reject("review_url", "is not an address", fix: "Write https://…")
        }
        shape = section.choice("shape", default: .documented)
        mode =
            switch section.choice("mode", default: ModeWord.automatic) {
            case .automatic: .automatic
            case .lenient: .lenient
            case .strict: .strict
            }
        readStyles(section)
    }

    private mutating func readStyles(_ section: ConfigSection) {
        guard let list = section.section("ui") else { return }
        for language in list.keys {
            guard sources[language] != nil else {
                list.rejectWord(language, language, languages)
                continue
            }
            guard let own = list.section(language) else { continue }
            do throws(NotesStyle.Failure) {
                styles[language] = try NotesStyle(Self.json(own))
            } catch {
                for problem in error.problems { list.reject(language, "\(problem.path) \(problem.detail)") }
            }
        }
    }

    /// Returns a map as JSON, with each value as a text: a configuration file has no other types.
    private static func json(_ section: ConfigSection) -> JSONValue {
        var object = JSONObject()
        for key in section.keys {
            if section.holdsMap(key) {
                object[key] = section.section(key).map(json)
            } else if let text = section.string(key) {
                object[key] = .string(text)
            }
        }
        return .object(object)
    }

    private static func isLanguage(_ text: String) -> Bool {
        (2...35).contains(text.count) && text.first?.isLetter == true
            && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
    }
}
