import Logging
public import ChaparCore
public import ChaparModules

/// Serves the release notes of apps: JSON for clients, a page for people, a text for terminals; takes versions and
/// announces them to the devices that run older ones.
public struct NotesModule: GatewayModule {
    /// `/v1/apps/`.
    public let prefix = "/v1/apps/"

    let options: NotesOptions
    let library: NotesLibrary
    let announcer: Announcer

    /// Makes a module; nothing is read before the first request.
    public init(_ options: NotesOptions, context: BackendContext) {
        self.options = options
        library = NotesLibrary(options.apps, context)
        announcer = Announcer(state: context.state)
        for app in options.apps.values where app.reviewURL == nil {
            guard app.styles.values.contains(where: { $0.reviewButton != nil }) else { continue }
            context.logger.warning("a review button without review_url is not shown", metadata: ["app": "\(app.id)"])
        }
    }

    /// The resource that a path names.
    enum Resource: Equatable {
        case json, html, text, since(String), versions, announcements, reload

        init?(_ steps: some Collection<Substring>) {
            let steps = Array(steps)
            switch (steps.count, steps.first) {
            case (1, "versions.json"?): self = .json
            case (1, "versions.html"?): self = .html
            case (1, "versions.txt"?): self = .text
            case (1, "versions"?): self = .versions
            case (1, "announcements"?): self = .announcements
            case (1, "reload"?): self = .reload
            case (3, "versions"?) where steps[1] == "since" && steps[2].hasSuffix(".json") && steps[2].count > 5:
                self = .since(String(steps[2].dropLast(5)))
            default: return nil
            }
        }

        var pattern: String {
            switch self {
            case .json: "versions.json"
            case .html: "versions.html"
            case .text: "versions.txt"
            case .since: "versions/since/{version}.json"
            case .versions: "versions"
            case .announcements: "announcements"
            case .reload: "reload"
            }
        }
    }

    private func find(_ path: Substring) -> (app: String, resource: Resource)? {
        let steps = path.dropFirst(prefix.count).split(separator: "/", omittingEmptySubsequences: false)
        guard let app = steps.first, !app.isEmpty, let resource = Resource(steps.dropFirst()) else { return nil }
        return (String(app), resource)
    }

    /// Returns the endpoint that a path names.
    public func endpoint(_ path: Substring) -> ModuleEndpoint? {
        guard let (app, resource) = find(path) else { return nil }
        let pattern = "/v1/apps/{app}/" + resource.pattern
        return switch resource {
        case .json, .html, .text, .since: ModuleEndpoint(pattern, ["GET": .open], app: app)
        case .versions, .announcements, .reload: ModuleEndpoint(pattern, ["POST": .admin], app: app)
        }
    }

    /// Answers a request.
    public func answer(
        _ request: ModuleRequest,
        through gate: any ModuleGate
    ) async throws(ModuleProblem) -> ModuleAnswer {
        guard let (id, resource) = find(request.path[...]), let app = options.apps[id] else {
            throw ModuleProblem(404, "not_found", "Not found", detail: "There is no such app.")
        }
        switch resource {
        case .json, .html, .text, .since: return try await show(app, resource, request)
        case .versions: return try await add(to: app, request.body)
        case .reload: return try await reload(app, request.body)
        case .announcements: return try await announce(app, request.body, gate)
        }
    }

    // MARK: Changing

    /// Reads the body as an object of known members; returns it with the problems found.
    static func object(_ body: [UInt8], _ names: [String]) throws(ModuleProblem) -> (JSONObject, [Finding]) {
        let json: JSONValue
        do throws(JSONSyntaxError) {
            json = try JSONValue(parsing: body)
        } catch {
            throw ModuleProblem(400, "not_json", "The body is not JSON", detail: "\(error).")
        }
        guard let object = json.objectValue else { throw problem([.init("#", "wrong_type", "Must be an object.")]) }
        let unknown = object.members.map(\.name).filter { !names.contains($0) }
        return (
            object,
            unknown.map { name in
                let hint = Suggestion.nearest(to: name, among: names).map { "Did you mean \"\($0)\"?" }
                return .init(
                    "#/\(name)",
                    "unknown_field",
                    hint ?? (names.isEmpty ? "There are no fields here." : "Known: \(names.joined(separator: ", ")).")
                )
            }
        )
    }

    static func problem(_ errors: [Finding]) -> ModuleProblem {
        let title = errors.count == 1 ? "One field is wrong" : "\(errors.count) fields are wrong"
        return ModuleProblem(422, "invalid_request", title, errors: errors)
    }

    /// Returns a failure of the gateway or its store as an answer.
    static func problem(_ error: PushError) -> ModuleProblem {
        let isPassing = error.code == .unavailable || error.code == .rateLimited
        return ModuleProblem(
            isPassing ? 503 : 422,
            error.reason ?? "failed",
            isPassing ? "Not possible for now" : "The gateway refused this",
            detail: error.message,
            retryAfter: isPassing ? error.retryAfter ?? .seconds(2) : nil
        )
    }

    private func add(to app: NotesApp, _ body: [UInt8]) async throws(ModuleProblem) -> ModuleAnswer {
        var (object, errors) = try Self.object(body, ["number", "changes", "lang"])
        let number = object["number"]?.stringValue.flatMap { ReleaseVersion($0) }
        if number == nil { errors.append(.init("#/number", "bad_version", "Must be a version, such as 1.4.0.")) }
        let list = object["changes"]?.arrayValue
        if list == nil { errors.append(.init("#/changes", "wrong_type", "Must be a list of texts.")) }
        for (index, change) in (list ?? []).enumerated() where change.stringValue == nil {
            errors.append(.init("#/changes/\(index)", "wrong_type", "Must be a text."))
        }
        if let list, list.count > 500 { errors.append(.init("#/changes", "too_many", "At most 500.")) }
        let language =
            object["lang"].map { $0.stringValue.flatMap { app.sources[$0] == nil ? nil : $0 } }
            ?? app.defaultLanguage
        if language == nil {
            let known = app.languages.joined(separator: ", ")
            errors.append(.init("#/lang", "unknown_language", "Must be one of \(known)."))
        }
        guard errors.isEmpty, let number, let language else { throw Self.problem(errors) }
        let entry = ReleaseNotes.Entry(number, (list ?? []).compactMap(\.stringValue))
        do throws(PushError) {
            let isNew = try await library.add(entry, to: app.id, language)
            let answer: JSONValue = [
                "number": .string(number.description), "changes": .array(entry.changes.map { .string($0) }),
                "lang": .string(language),
            ]
            return Self.json(isNew ? 201 : 200, answer)
        } catch {
            throw Self.problem(error)
        }
    }

    /// Reads all documents again; the body is an empty object, or nothing.
    private func reload(_ app: NotesApp, _ body: [UInt8]) async throws(ModuleProblem) -> ModuleAnswer {
        if !body.isEmpty {
            let (_, errors) = try Self.object(body, [])
            guard errors.isEmpty else { throw Self.problem(errors) }
        }
        do throws(PushError) {
            let problems = try await library.reload(app.id)
            var answer = JSONObject()
            for (language, list) in problems.sorted(by: { $0.key < $1.key }) {
                answer[language] = .array(list.map { .string($0.description) })
            }
            return Self.json(200, ["problems": .object(answer)])
        } catch {
            throw Self.problem(error)
        }
    }

    static func json(_ status: Int, _ value: JSONValue) -> ModuleAnswer {
        ModuleAnswer(
            status,
            headers: [HTTPHeader("content-type", "application/json"), HTTPHeader("cache-control", "no-store")],
            body: value.bytes
        )
    }
}

extension Finding {
    fileprivate init(_ pointer: String, _ code: String, _ detail: String) {
        self.init(pointer: pointer, code: code, detail: detail)
    }
}

extension NotesModule {
    /// The ids of the apps, in order.
    public var appIDs: [String] { options.apps.keys.sorted() }

    /// Returns an app's list as a user of the current version sees it, with all findings.
    ///
    /// - Parameters:
    ///   - id: The app.
    ///   - language: A language tag; nil is the default language.
    /// - Returns: The view, nil when there is no such app, language or readable document, and the problems.
    /// - Throws: When the store does not answer.
    public func view(
        of id: String,
        language: String?
    ) async throws(PushError) -> (view: NotesView?, problems: [ReleaseNotesProblem]) {
        guard let app = options.apps[id],
            let language = language.flatMap({ app.language(for: $0) }) ?? app.defaultLanguage
        else { return (nil, []) }
        guard let shelf = try await library.shelf(id, language) else {
            return (nil, try await library.reload(id)[language] ?? [])
        }
        let view = NotesView(
            shelf.notes,
            style: app.style(language),
            current: app.current,
            language: language,
            appName: app.name,
            reviewURL: app.reviewURL
        )
        return (view, shelf.problems)
    }
}
