internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `POST /v1/audiences/count`, `GET /v1/segments/{name}/count`, `GET /v1/tags`, and the tags and lists of users.
package struct AudiencesAPI: Sendable {
    let endpoint: SyncEndpoint

    /// Creates the endpoints.
    package init(endpoint: SyncEndpoint) { self.endpoint = endpoint }

    private var state: GatewayState { endpoint.state }

    /// The way to count.
    private enum Mode: String, CaseIterable { case exact, estimate }

    private enum CountField: Int, RequestField {
        case audience, exclude, list, mode, timeout
        static let names = ["audience", "exclude", "list", "mode", "timeout"]
    }

    private enum ListsField: Int, RequestField {
        case lists
        static let names = ["lists"]
    }

    private enum TagsField: Int, RequestField {
        case tags
        static let names = ["tags"]
    }

    // MARK: Counts

    /// Counts the devices of a rule.
    package func count(_ request: Request, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app"])
        let app = try scope.app()
        var rule: JSONValue?
        var exclude: JSONValue?
        var list: String?
        var mode = Mode.exact
        var seconds: Int?
        var hasRule = false
        try await endpoint.body(of: request, scope, CountField.self, limit: 2 * AudienceRequest.maximumRuleBytes) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .audience:
                hasRule = true
                rule = try AudienceRequest.rule(&scanner, &issues, "#/audience")
            case .exclude: exclude = try AudienceRequest.rule(&scanner, &issues, "#/exclude")
            case .list: list = try scanner.identifier(&issues, "#/list", limit: 64)
            case .mode:
                guard let word = try scanner.text(&issues, "#/mode") else { return }
                mode = Mode(rawValue: word) ?? .exact
                if Mode(rawValue: word) == nil { issues.add("#/mode", "unknown_word", "Write exact or estimate.") }
            case .timeout: seconds = try scanner.integer(in: 1...30, &issues, "#/timeout", unit: " seconds")
            }
        } check: { issues in
            if !hasRule { issues.add("#/audience", "missing", "Give the rule of the audience.") }
        }
        let audience = AudienceRequest(rule: rule ?? .null, pointer: "#/audience")
        return try await count(audience, exclude, list, mode, seconds.map { .seconds($0) }, app, scope)
    }

    /// Counts the devices of a segment.
    package func count(segment step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "mode", "timeout"])
        let app = try scope.app()
        let name = SyncEndpoint.decoded(step)
        guard let mode = Mode(rawValue: scope.parameter("mode") ?? "exact") else {
            throw .badParameter("mode", "must be exact or estimate.")
        }
        let seconds = try scope.number("timeout", in: 1...30, default: 30)
        let found = try await stored { () throws(StoreError) in try await state.segments.segment(name, in: app) }
        guard found != nil else { throw .notFound("The app has no segment of this name.") }
        let audience = AudienceRequest(rule: ["segment": .string(name)], pointer: "#", isShorthand: true)
        return try await count(audience, nil, nil, mode, .seconds(seconds), app, scope)
    }

    private func count(
        _ request: AudienceRequest,
        _ exclude: JSONValue?,
        _ list: String?,
        _ mode: Mode,
        _ deadline: Duration?,
        _ app: AppName,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        let store = try audiences()
        var issues = RequestIssues()
        let audience = try await resolve(request, exclude, list, app, scope, &issues)
        guard issues.isEmpty, let audience else { throw Problem(issues) }
        let (counter, longest) = (AudienceCounter(store), deadline ?? AudienceLookup.longestCount)
        let (count, plan) = try await stored { () throws(StoreError) in
            let plan = try await store.plan(audience)
            switch mode {
            case .exact: return (try await counter.exact(audience, within: longest), plan)
            case .estimate: return (try await counter.estimate(audience, within: longest), plan)
            }
        }
        return Response.json { writer in
            writer.members(of: count)
            writer.name("cost")
            writer.beginObject()
            // An index gives the candidates, or each device of the registry is read. Candidates of other apps are not
            // counted: their number would tell how many devices another tenant has, and with which tags.
            writer.field("reads", plan.sources == nil ? "registry" : "index")
            writer.name("rows")
            writer.integer(Int(clamping: count.evaluated))
            writer.endObject()
        }
    }

    private func resolve(
        _ request: AudienceRequest,
        _ exclude: JSONValue?,
        _ list: String?,
        _ app: AppName,
        _ scope: RequestScope,
        _ issues: inout RequestIssues
    ) async throws(Problem) -> Audience? {
        do throws(StoreError) {
            return try await AudienceLookup(state, scope).resolve(
                request,
                exclude: exclude.map { ($0, "#/exclude") },
                list: list.map { ($0, "#/list") },
                of: app,
                &issues
            )
        } catch {
            throw Problem(ofDevices: error)
        }
    }

    // MARK: Tags

    /// Answers with the tags of devices and of users, each with the number of devices that have it.
    package func tags(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "cursor", "limit"])
        let app = try scope.app()
        let limit = try scope.number("limit", in: 1...1_000, default: 100)
        let store = try audiences()
        // The labels before these are segments; the cursor is the last label, and no other text is one.
        let start = AudienceLabel.tag("")
        let cursor = try scope.nameCursor() ?? start
        guard cursor == start || cursor.hasPrefix(start) || cursor.hasPrefix(AudienceLabel.userTag("")) else {
            throw .badCursor
        }
        let counts = try await stored { () throws(StoreError) in
            try await store.labelCounts(in: app, after: cursor, limit: limit + 1)
        }
        return Response.json(capacity: 64 * counts.count + 64) { writer in
            writer.name("items")
            writer.beginArray()
            for count in counts.prefix(limit) {
                writer.beginObject()
                writer.field("tag", AudienceLabel.name(count.label))
                writer.field("of", count.label.hasPrefix(start) ? "device" : "user")
                writer.name("devices")
                writer.integer(Int(clamping: count.devices))
                writer.endObject()
            }
            writer.endArray()
            writer.name("next")
            if counts.count > limit { writer.string(counts[limit - 1].label) } else { writer.null() }
        }
    }

    /// Shows or replaces the tags of a user.
    package func userTags(
        _ request: Request,
        _ method: HTTPRequest.Method,
        _ step: Substring,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        let (name, key) = try user(step, scope)
        let labels = try await labels(key)
        var tags = Self.tags(labels)
        if method == .put {
            let new = try await readTags(request, scope)
            let (old, next) = (Set(tags.map(ExactText.init)), Set(new.map(ExactText.init)))
            let change = LabelChange(
                .user(key),
                added: next.subtracting(old).map { AudienceLabel.userTag($0.text) },
                removed: old.subtracting(next).map { AudienceLabel.userTag($0.text) }
            )
            try await relabel(change)
            tags = next.map(\.text).sorted()
        }
        return Response.json { writer in
            writer.field("user", name)
            writer.name("tags")
            writer.texts(tags)
        }
    }

    /// Returns the tags among the labels of a user.
    static func tags(_ labels: [String]) -> [String] {
        let prefix = AudienceLabel.userTag("")
        return labels.filter { $0.hasPrefix(prefix) }.map(AudienceLabel.name)
    }

    private func readTags(_ request: Request, _ scope: RequestScope) async throws(Problem) -> [String] {
        var tags: [String]?
        try await endpoint.body(of: request, scope, TagsField.self) { (scanner, issues, _) throws(JSONSyntaxError) in
            var read: [String] = []
            var count = 0
            try scanner.elements(&issues, "#/tags") { (scanner, issues, index) throws(JSONSyntaxError) in
                count = index + 1
                guard count <= Device.maximumTags else { return try scanner.skip() }
                let tag = try scanner.identifier(&issues, "#/tags/\(index)", limit: Device.maximumNameBytes)
                if let tag { read.append(tag) }
            }
            if count > Device.maximumTags {
                issues.add("#/tags", "too_many_tags", "At most \(Device.maximumTags) tags; there are \(count).")
            }
            tags = read
        } check: { issues in
            if tags == nil { issues.add("#/tags", "missing", "Send the list of all tags; an empty one removes them.") }
        }
        return tags ?? []
    }

    // MARK: Lists

    /// Shows or changes what a user has chosen about lists.
    package func lists(
        _ request: Request,
        _ method: HTTPRequest.Method,
        _ step: Substring,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        let (name, key) = try user(step, scope)
        let configuration = scope.gateway.configuration
        if method == .put {
            let choices = try await readChoices(request, configuration, scope)
            var change = LabelChange(.user(key))
            for (list, isIn) in choices {
                for choice in [true, false] {
                    let label = AudienceLabel.list(list, isIn: choice)
                    if isIn == choice { change.added.append(label) } else { change.removed.append(label) }
                }
            }
            try await relabel(change)
        }
        let labels = try await labels(key)
        return Response.json { writer in
            writer.field("user", name)
            Self.write(lists: labels, configuration, to: &writer)
        }
    }

    /// Writes the member `lists`: each list of the configuration, and what a user with these labels has chosen.
    static func write(lists labels: [String], _ configuration: GatewayConfiguration, to writer: inout JSONWriter) {
        var chosen: [String: Bool] = [:]
        for label in labels where label.hasPrefix("l") {
            chosen[AudienceLabel.name(label)] = label.hasPrefix(AudienceLabel.list("", isIn: true))
        }
        writer.name("lists")
        writer.beginObject()
        // A choice about a list that the configuration no longer has is kept, and has no effect.
        for (list, isDefault) in configuration.lists.sorted(by: { $0.key < $1.key }) {
            writer.name(list)
            writer.beginObject()
            writer.field("in", chosen[list] ?? isDefault)
            writer.field("chosen", chosen[list] != nil)
            writer.endObject()
        }
        writer.endObject()
    }

    /// Reads choices about lists: in, out, or nil for the default.
    private func readChoices(
        _ request: Request,
        _ configuration: GatewayConfiguration,
        _ scope: RequestScope
    ) async throws(Problem) -> [(list: String, isIn: Bool?)] {
        var members: JSONObject?
        try await endpoint.body(of: request, scope, ListsField.self) { (scanner, issues, _) throws(JSONSyntaxError) in
            members = try scanner.members(&issues, "#/lists")
        } check: { issues in
            guard let members else {
                if issues.isEmpty {
                    issues.add("#/lists", "missing", "Send an object: a list's name with true or false.")
                }
                return
            }
            for (name, value) in members {
                let pointer = "#/lists/\(pointerStep(name))"
                if configuration.lists[name] == nil {
                    issues.add(pointer, "unknown_list", configuration.unknownList(name))
                } else if value != .null, value.boolValue == nil {
                    issues.add(pointer, "wrong_type", "Write true, false, or null for the list's default.")
                }
            }
        }
        return (members ?? JSONObject()).map { ($0.name, $0.value.boolValue) }
    }

    // MARK: The store

    private func user(_ step: Substring, _ scope: RequestScope) throws(Problem) -> (name: String, key: String) {
        try scope.allowParameters(["app"])
        let name = try UserSwitchAPI.checked(SyncEndpoint.decoded(step))
        return (name, try scope.app().key(name))
    }

    private func audiences() throws(Problem) -> any AudienceStore {
        guard let store = state.audiences else { throw .noAudiences }
        return store
    }

    private func labels(_ user: String) async throws(Problem) -> [String] {
        let store = try audiences()
        return try await stored { () throws(StoreError) in try await store.labels(ofUser: user) }
    }

    private func relabel(_ change: LabelChange) async throws(Problem) {
        guard !change.added.isEmpty || !change.removed.isEmpty else { return }
        let store = try audiences()
        _ = try await stored { () throws(StoreError) in try await store.relabel([change]) }
    }

    private func stored<Value>(_ body: () async throws(StoreError) -> Value) async throws(Problem) -> Value {
        do throws(StoreError) {
            return try await body()
        } catch {
            throw Problem(ofDevices: error)
        }
    }
}
