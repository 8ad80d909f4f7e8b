import ChaparCore
import ChaparModules

/// A request to announce a version.
struct AnnouncementRequest: Sendable {
    var version = ReleaseVersion(major: 0)
    /// Whether a version that is not current yet may be announced.
    var isTeaser = false
    /// The languages to write texts in; nil is all.
    var languages: [String]?
    /// The backends to go through, in order; nil leaves it to the routes.
    var backends: [String]?
    var isDryRun = false
    /// Whether devices of an unknown version get it.
    var treatsUnknownAsOld = false
    /// With more recipients nothing is sent.
    var maximumRecipients = 50_000

    /// Reads a body; everything that is wrong is in the problem.
    init(_ body: [UInt8], app: NotesApp, backends known: [String]) throws(ModuleProblem) {
        let names = [
            "version", "teaser", "languages", "backends", "dry_run", "treat_unknown_as_old", "max_recipients",
        ]
        var (object, errors) = try NotesModule.object(body, names)
        func wrong(_ name: String, _ code: String, _ detail: String) {
            errors.append(Finding(pointer: "#/\(name)", code: code, detail: detail))
        }
        func flag(_ name: String) -> Bool {
            guard let value = object[name] else { return false }
            if value.boolValue == nil { wrong(name, "wrong_type", "Must be true or false.") }
            return value.boolValue ?? false
        }
        func words(_ name: String, among known: [String]) -> [String]? {
            guard let value = object[name] else { return nil }
            guard let list = value.arrayValue, !list.isEmpty else {
                wrong(name, "wrong_type", "Must be a list of names.")
                return nil
            }
            for (index, word) in list.enumerated() where !known.contains(word.stringValue ?? "") {
                let hint = Suggestion.nearest(to: word.stringValue ?? "", among: known).map {
                    "Did you mean \"\($0)\"?"
                }
                wrong("\(name)/\(index)", "unknown_name", hint ?? "Known: \(known.joined(separator: ", ")).")
            }
            return list.compactMap(\.stringValue)
        }
        if let number = object["version"]?.stringValue.flatMap({ ReleaseVersion($0) }) {
            version = number
        } else {
            wrong("version", "bad_version", "Must be a version, such as 1.4.0.")
        }
        isTeaser = flag("teaser")
        isDryRun = flag("dry_run")
        treatsUnknownAsOld = flag("treat_unknown_as_old")
        languages = words("languages", among: app.languages)
        backends = words("backends", among: known)
        if let value = object["max_recipients"] {
            if let number = value.integerValue, (1...1_000_000).contains(number) {
                maximumRecipients = Int(number)
            } else {
                wrong("max_recipients", "out_of_range", "Must be a whole number from 1 to 1000000.")
            }
        }
        guard errors.isEmpty else { throw NotesModule.problem(errors) }
        if version < app.current {
            wrong("version", "old_version", "It is older than the current one, \(app.current).")
        } else if version > app.current, !isTeaser {
            wrong("version", "future_version", "It is not current yet; set teaser to announce it all the same.")
        }
        guard errors.isEmpty else { throw NotesModule.problem(errors) }
    }
}

/// The texts of an announcement, in every language that has the version.
struct AnnouncementTexts: Sendable {
    /// The most characters of a body.
    static let longestBody = 180
    /// The most changes in a body.
    static let shownChanges = 3

    private let app: NotesApp
    private let version: ReleaseVersion
    private let publicURL: String?
    private var titles = JSONObject()
    private var bodies = JSONObject()

    /// Makes the texts; nil when the version is not in the default language's list.
    init?(_ app: NotesApp, _ version: ReleaseVersion, _ lists: [String: ReleaseNotes], publicURL: String?) {
        func entry(_ language: String) -> ReleaseNotes.Entry? {
            lists[language]?.entries.first { $0.number == version }
        }
        guard let fallback = app.defaultLanguage, let first = entry(fallback) else { return nil }
        (self.app, self.version, self.publicURL) = (app, version, publicURL)
        for language in lists.keys.sorted() {
            guard let own = entry(language) else { continue }
            titles[language] = .string(Self.title(app, language, version))
            let body = Self.body(own.changes)
            bodies[language] = .string(body)
        }
        titles["default"] = .string(Self.title(app, fallback, version))
        bodies["default"] = .string(Self.body(first.changes))
    }

    private static func title(_ app: NotesApp, _ language: String, _ version: ReleaseVersion) -> String {
        let style = app.style(language)
        return "\(style.whatsNew?.text ?? app.name) \(style.isRightToLeft ? version.persian : version.description)"
    }

    /// Returns up to ``shownChanges`` changes, at most ``longestBody`` characters as people count them.
    static func body(_ changes: [String]) -> String {
        let text = changes.filter { !$0.isEmpty }.prefix(shownChanges).joined(separator: "\n")
        guard text.count > longestBody else { return text }
        return text.prefix(longestBody - 1) + "…"
    }

    /// Returns the notification for devices that run a version; `since` is nil where the version is not known.
    func notification(to devices: [String], since: ReleaseVersion?, backend: String?) -> JSONObject {
        var data: JSONObject = [
            "type": "release_notes", "app": .string(app.id), "version": .string(version.description),
        ]
        if let since { data["since"] = .string(since.description) }
        if let publicURL {
            let current = since.map { "?current=\($0)" } ?? ""
            data["url"] = .string("\(publicURL)/v1/apps/\(app.id)/versions.html\(current)#current")
        }
        var content: JSONObject = ["title": .object(titles), "data": .object(data)]
        if bodies.contains(where: { $0.value != "" }) { content["body"] = .object(bodies) }
        var notification: JSONObject = [
            "to": ["devices": .array(devices.map { .string($0) })], "content": .object(content),
            "options": [
                "collapse_id": .string("release-notes-\(app.id)"), "ttl": .integer(7 * 86_400), "priority": "normal",
            ],
        ]
        if let backend { notification["backend"] = .string(backend) }
        return notification
    }
}
