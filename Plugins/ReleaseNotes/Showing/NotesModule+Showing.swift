import Foundation
import ChaparCore
import ChaparModules

/// The lists that every client may read: as JSON, as a page, as text.
extension NotesModule {
    /// The parameters of a request for a list.
    private struct Parameters {
        var language: String
        var current: ReleaseVersion
        /// The problem of the version that the reader gave.
        var problem: ReleaseNotesProblem?
        var shape: ReleaseNotes.Shape
        var direction = NotesView.Direction.auto
        var theme = NotesView.Theme.auto
        var text = NotesText.Options()
    }

    func show(_ app: NotesApp, _ resource: Resource, _ request: ModuleRequest) async throws(ModuleProblem)
        -> ModuleAnswer
    {
        let parameters = try parameters(app, resource, request)
        let shelf: NotesLibrary.Shelf?
        do throws(PushError) {
            shelf = try await library.shelf(app.id, parameters.language)
        } catch {
            throw Self.problem(error)
        }
        guard let shelf else {
            throw ModuleProblem(
                503,
                "no_notes",
                "The release notes cannot be read",
                detail: "The document of this language was never good; the log says why.",
                retryAfter: .seconds(30)
            )
        }
        var headers = [HTTPHeader("content-language", parameters.language), HTTPHeader("vary", "Accept-Language")]
        let body: String
        switch resource {
        case .html:
            headers.append(HTTPHeader("content-type", "text/html; charset=utf-8"))
            headers.append(HTTPHeader("content-security-policy", NotesPage.policy))
            body = NotesPage.html(view(app, parameters, shelf.notes))
        case .text:
            headers.append(HTTPHeader("content-type", "text/plain; charset=utf-8"))
            body = NotesText.render(view(app, parameters, shelf.notes), parameters.text)
        case .since(let version):
            guard let version = ReleaseVersion(version) else {
                throw Self.badParameter("version", "must be a version, such as 1.4.0.")
            }
            headers.append(HTTPHeader("content-type", "application/json; charset=utf-8"))
            body = shelf.notes.since(version).json(parameters.shape).text
        default:
            headers.append(HTTPHeader("content-type", "application/json; charset=utf-8"))
            body = shelf.notes.json(parameters.shape).text
        }
        if let problem = parameters.problem {
            headers.append(HTTPHeader("x-release-notes-problem", Self.headerText(problem.description)))
        }
        return Self.cached(Array(body.utf8), headers, changedAt: shelf.changedAt, request)
    }

    private func view(_ app: NotesApp, _ parameters: Parameters, _ notes: ReleaseNotes) -> NotesView {
        var view = NotesView(
            notes,
            style: app.style(parameters.language),
            current: parameters.current,
            language: parameters.language,
            appName: app.name,
            reviewURL: app.reviewURL
        )
        view.direction = parameters.direction
        view.theme = parameters.theme
        return view
    }

    // MARK: Reading the request

    /// Returns a text for a header field: printable ASCII, with `?` for everything else.
    private static func headerText(_ text: String) -> String {
        String(text.unicodeScalars.map { (0x20...0x7E).contains($0.value) ? Character($0) : "?" })
    }

    private static func badParameter(_ name: String, _ detail: String) -> ModuleProblem {
        ModuleProblem(400, "invalid_parameter", "A parameter is wrong", detail: "\(name): \(detail)")
    }

    private func parameters(_ app: NotesApp, _ resource: Resource, _ request: ModuleRequest) throws(ModuleProblem)
        -> Parameters
    {
        let known: [String] =
            switch resource {
            case .html: ["lang", "current", "lenient", "dir", "theme"]
            case .text: ["lang", "current", "lenient", "dir", "theme", "width", "color"]
            default: ["lang", "shape"]
            }
        for name in request.query.keys.sorted() where !known.contains(name) {
            let hint = Suggestion.nearest(to: name, among: known).map { "did you mean \"\($0)\"?" }
            throw Self.badParameter(String(name.prefix(64)), hint ?? "there is no such parameter here.")
        }
        guard let language = language(app, request) else {
            throw ModuleProblem(404, "not_found", "Not found", detail: "There are no release notes in this language.")
        }
        var parameters = Parameters(language: language, current: app.current, shape: app.shape)
        parameters.shape = try Self.choice(request, "shape", parameters.shape)
        parameters.direction = try Self.choice(request, "dir", .auto)
        parameters.theme = try Self.choice(request, "theme", .auto)
        if let text = request.query["current"] {
            let isLenient = request.query["lenient"] == "1"
            if let current = ReleaseVersion(text, allowsSigns: isLenient) {
                parameters.current = current
            } else if isLenient {
                (parameters.current, parameters.problem) = (ReleaseVersion(major: 0), .badCurrent(text))
            } else {
                throw Self.badParameter("current", "must be a version, such as 1.4.0.")
            }
        }
        if let text = request.query["width"] {
            guard let width = Int(text), (20...500).contains(width) else {
                throw Self.badParameter("width", "must be a whole number from 20 to 500.")
            }
            parameters.text.width = width
        }
        switch request.query["color"] {
        case nil, "none"?: break
        case "always"?: parameters.text.hasColor = true
        default: throw Self.badParameter("color", "must be none or always.")
        }
        return parameters
    }

    private static func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ request: ModuleRequest,
        _ name: String,
        _ fallback: Choice
    ) throws(ModuleProblem) -> Choice {
        guard let text = request.query[name] else { return fallback }
        guard let choice = Choice(rawValue: text) else {
            let words = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw badParameter(name, "must be one of \(words).")
        }
        return choice
    }

    /// Returns the language for a request: the one that fits `lang`, else the default; without `lang` the first of
    /// `Accept-Language` that there is, else the default.
    private func language(_ app: NotesApp, _ request: ModuleRequest) -> String? {
        if let wanted = request.query["lang"] { return app.language(for: wanted) ?? app.defaultLanguage }
        for tag in AcceptedLanguages.read(request.header("accept-language") ?? "") {
            if let language = app.language(for: tag) { return language }
        }
        return app.defaultLanguage
    }

    // MARK: Caching

    private static func cached(
        _ body: [UInt8],
        _ fields: [HTTPHeader],
        changedAt: Date,
        _ request: ModuleRequest
    ) -> ModuleAnswer {
        let tag = "\"\(StableHash.text(body))\""
        let headers =
            fields + [
                HTTPHeader("etag", tag), HTTPHeader("last-modified", HTTPDate.text(changedAt)),
                HTTPHeader("cache-control", "public, max-age=300"),
            ]
        let known = (request.header("if-none-match") ?? "").split(separator: ",").map {
            let tag = $0.drop { $0 == " " }
            return tag.hasPrefix("W/") ? tag.dropFirst(2) : tag
        }
        let isKnown = known.contains { $0 == "*" || $0.prefix { $0 != " " } == tag }
        return isKnown ? ModuleAnswer(304, headers: headers) : ModuleAnswer(200, headers: headers, body: body)
    }
}

/// The languages of an `Accept-Language` field, the most wanted first.
enum AcceptedLanguages {
    static func read(_ field: String) -> [String] {
        let ranges = field.prefix(1000).split(separator: ",").prefix(50).enumerated().compactMap {
            (index, part) -> (tag: String, weight: Double, index: Int)? in
            let pieces = part.split(separator: ";").map { $0.filter { $0 != " " } }
            guard let tag = pieces.first, !tag.isEmpty, tag != "*" else { return nil }
            let quality = pieces.dropFirst().first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
            return quality > 0 ? (tag, quality, index) : nil
        }
        return ranges.sorted { ($1.weight, $0.index) < ($0.weight, $1.index) }.map(\.tag)
    }
}

extension StableHash {
    /// Returns two hashes of the bytes, with different beginnings, as 32 hexadecimal digits.
    static func text(_ bytes: some Sequence<UInt8>) -> String {
        var (first, second) = (StableHash(), StableHash(start: 0x9AE1_6A3B_2F90_404F))
        for byte in bytes {
            first.add(byte)
            second.add(byte)
        }
        func hex(_ number: UInt64) -> String {
            let digits = String(number, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        return hex(first.value) + hex(second.value)
    }
}
