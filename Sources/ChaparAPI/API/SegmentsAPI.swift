internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `/v1/segments`: the stored rules and lists of an app's audiences.
package struct SegmentsAPI: Sendable {
    /// The most members of one change, and of one page.
    static let maximumChanges = AudienceLabel.maximumChanges
    /// The most members of a list that one request loads.
    static let maximumLoad = 250_000

    let endpoint: SyncEndpoint

    /// Creates the endpoints.
    package init(endpoint: SyncEndpoint) { self.endpoint = endpoint }

    private var state: GatewayState { endpoint.state }

    /// The list of a segment's members: the label, and how their names become subjects.
    private struct Members: Sendable {
        var label: String
        var app: AppName
        var isOfDevices: Bool

        init?(_ segment: Segments.Segment, _ app: AppName) {
            switch segment.definition {
            case .rule: return nil
            case .devices: (label, isOfDevices) = (AudienceLabel.devices(segment.name, in: app), true)
            case .users: (label, isOfDevices) = (AudienceLabel.users(segment.name, in: app), false)
            }
            self.app = app
        }

        func subject(_ name: String) -> LabelChange.Subject {
            isOfDevices ? .device(app.key(name)) : .user(app.key(name))
        }
    }

    private enum Field: Int, RequestField {
        case rule, devices, users
        static let names = ["rule", "devices", "users"]
    }

    private enum ChangeField: Int, RequestField {
        case add, remove
        static let names = ["add", "remove"]
    }

    // MARK: Segments

    /// Answers a request about one segment.
    package func answer(
        _ request: Request,
        _ method: HTTPRequest.Method,
        _ step: Substring,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        try scope.allowParameters(["app"])
        let app = try scope.app()
        let name = try Self.name(step, isNew: method == .put)
        switch method {
        case .put: return try await put(name, app, request, scope)
        case .delete: return try await delete(name, app)
        default: return try await show(try await segment(name, app), app)
        }
    }

    /// Answers with the app's segments.
    package func list(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "cursor", "limit"])
        let app = try scope.app()
        let limit = try scope.number("limit", in: 1...1_000, default: 100)
        guard let traces = state.traces else { throw .noAudiences }
        let cursor = try scope.nameCursor() ?? ""
        let prefix = Segments.prefix(of: app)
        let names = try await stored { () throws(StoreError) in
            try await traces.stateNames(beginningWith: prefix).map { String($0.dropFirst(prefix.count)) }.sorted()
        }
        let page = names.filter { $0 > cursor }.prefix(limit + 1)
        var segments: [Segments.Segment] = []
        for name in page.prefix(limit) {
            let segment = try await stored { () throws(StoreError) in try await state.segments.segment(name, in: app) }
            if let segment { segments.append(segment) }
        }
        return Response.json { writer in
            writer.name("items")
            writer.beginArray()
            for segment in segments {
                writer.beginObject()
                writer.members(of: segment)
                writer.endObject()
            }
            writer.endArray()
            writer.name("next")
            if page.count > limit, let last = segments.last { writer.string(last.name) } else { writer.null() }
        }
    }

    private func show(_ segment: Segments.Segment, _ app: AppName) async throws(Problem) -> Response {
        var devices: Int64?
        if let members = Members(segment, app) { devices = try await count(members.label, app) }
        return Response.json { writer in
            writer.members(of: segment)
            if let devices {
                writer.name("devices")
                writer.integer(Int(clamping: devices))
            }
        }
    }

    private func count(_ label: String, _ app: AppName) async throws(Problem) -> Int64 {
        let store = try audiences()
        let counts = try await stored { () throws(StoreError) in
            try await store.plan(Audience.counting(label, app)).candidates
        }
        return counts ?? 0
    }

    private func put(
        _ name: String,
        _ app: AppName,
        _ request: Request,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        _ = try audiences()
        let old = try await stored { () throws(StoreError) in try await state.segments.segment(name, in: app) }
        let now = state.time.now
        let type = scope.fields[.contentType]?.prefix { $0 != ";" }.lowercased().filter { $0 != " " }
        if let type, let form = MemberList.Form(type: type) {
            let list = try await read(form, request, scope)
            let segment = Segments.Segment(name, list.isOfDevices ? .devices : .users, updatedAt: now)
            return try await load(list.names, segment, app, old)
        }
        var rule: JSONValue?
        var names: [String]?
        var fields: [Field] = []
        try await endpoint.body(of: request, scope, Field.self, limit: .max) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            fields.append(field)
            switch field {
            case .rule: rule = try AudienceRequest.rule(&scanner, &issues, "#/rule")
            case .devices: names = try Self.names(&scanner, &issues, "#/devices", Self.maximumLoad, areDevices: true)
            case .users: names = try Self.names(&scanner, &issues, "#/users", Self.maximumLoad)
            }
        } check: { issues in
            guard fields.count != 1 else { return }
            let detail = "Give one of rule, devices and users; there are \(fields.count)."
            issues.add("#", fields.isEmpty ? "missing" : "segment_ambiguous", detail)
        }
        if let names, let field = fields.first {
            let segment = Segments.Segment(name, field == .devices ? .devices : .users, updatedAt: now)
            return try await load(names, segment, app, old)
        }
        return try await define(name, rule ?? .null, app, old, at: now, scope)
    }

    /// Stores a rule.
    private func define(
        _ name: String,
        _ json: JSONValue,
        _ app: AppName,
        _ old: Segments.Segment?,
        at now: Date,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        let found = try await stored { () throws(StoreError) in
            try await state.segments.resolve(json, at: "#/rule", in: app, defining: name)
        }
        var issues = RequestIssues()
        for mistake in found.mistakes { issues.add(mistake.pointer, mistake.code, mistake.detail) }
        // A key that may not address a population may not store a name for one.
        if let rule = found.resolved, !rule.isNarrow, !scope.caller.has(.broadcast) {
            issues.add("#/rule", lacking: .broadcast)
        }
        guard issues.isEmpty, let rule = found.rule else { throw Problem(issues) }
        let segment = Segments.Segment(name, .rule(rule), updatedAt: now)
        try Self.requireSameKind(segment, old)
        try await save(segment, app)
        return Response.json(old == nil ? .created : .ok) { $0.members(of: segment) }
    }

    /// Stores a segment that is a list; it then has exactly the named members.
    ///
    /// It takes many short commits. Until the last commit the list has old and new members. After an interruption
    /// repeat the whole load.
    private func load(
        _ names: [String],
        _ segment: Segments.Segment,
        _ app: AppName,
        _ old: Segments.Segment?
    ) async throws(Problem) -> Response {
        try Self.requireSameKind(segment, old)
        guard let members = Members(segment, app) else { throw Problem(.failed("a list has no label")) }
        try await save(segment, app)
        let wanted = Set(names.map { ExactText(members.subject($0).id) })
        var after: String?
        while true {
            let page = try await page(members.label, after: after)
            let gone = page.filter { !wanted.contains(ExactText($0)) }
            let changes = gone.map { id in
                LabelChange(members.isOfDevices ? .device(id) : .user(id), removed: [members.label])
            }
            if !changes.isEmpty { _ = try await relabel(changes) }
            guard page.count == Self.maximumChanges, let last = page.last else { break }
            after = last
        }
        let unknown = try await add(wanted.map(\.text).sorted(), to: members)
        return Response.json(old == nil ? .created : .ok) { writer in
            writer.members(of: segment)
            writer.name("members")
            writer.integer(wanted.count - unknown)
            writer.name("unknown")
            writer.integer(unknown)
        }
    }

    /// Adds members by their keys; returns how many the registry does not have.
    private func add(_ ids: [String], to members: Members) async throws(Problem) -> Int {
        var known = 0
        for start in stride(from: 0, to: ids.count, by: Self.maximumChanges) {
            let part = ids[start..<min(start + Self.maximumChanges, ids.count)]
            known += try await relabel(
                part.map { LabelChange(members.isOfDevices ? .device($0) : .user($0), added: [members.label]) }
            ).count
        }
        return ids.count - known
    }

    private func delete(_ name: String, _ app: AppName) async throws(Problem) -> Response {
        let segment = try await segment(name, app)
        // The members go first: what is left after a crash is a segment that can be deleted again.
        if let members = Members(segment, app) {
            while true {
                let page = try await page(members.label, after: nil)
                guard !page.isEmpty else { break }
                _ = try await relabel(
                    page.map { LabelChange(members.isOfDevices ? .device($0) : .user($0), removed: [members.label]) }
                )
            }
        }
        try await stored { () throws(StoreError) in try await state.segments.remove(name, in: app) }
        return Response(status: .noContent)
    }

    // MARK: Members

    /// Answers with a page of a list's members.
    package func members(_ step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "cursor", "limit"])
        let app = try scope.app()
        let limit = try scope.number("limit", in: 1...Self.maximumChanges, default: 100)
        let members = try await list(step, app)
        let ids = try await page(members.label, after: try scope.nameCursor().map(app.key), limit: limit + 1)
        return Response.json(capacity: 64 * ids.count) { writer in
            writer.name("items")
            writer.texts(ids.prefix(limit).map(app.name))
            writer.name("next")
            if ids.count > limit { writer.string(app.name(ids[limit - 1])) } else { writer.null() }
        }
    }

    /// Adds and removes members of a list in one commit.
    package func change(_ request: Request, _ step: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        try scope.allowParameters(["app"])
        let app = try scope.app()
        let members = try await list(step, app)
        var added: [String] = []
        var removed: [String] = []
        try await endpoint.body(of: request, scope, ChangeField.self, limit: .max) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            let (pointer, most) = ("#/\(ChangeField.names[field.rawValue])", Self.maximumChanges)
            let names = try Self.names(&scanner, &issues, pointer, most, areDevices: members.isOfDevices)
            if field == .add { added = names } else { removed = names }
        } check: { issues in
            let both = Set(added.map(ExactText.init)).intersection(removed.map(ExactText.init))
            if !both.isEmpty { issues.add("#/remove", "added_as_well", "\(both.count) of these are under add, too.") }
            if added.count + removed.count > Self.maximumChanges {
                issues.add("#", "too_many_members", "At most \(Self.maximumChanges) members in one call.")
            }
        }
        // Of a repeated name one change is enough.
        func unique(_ names: [String]) -> [LabelChange.Subject] {
            var seen: Set<ExactText> = []
            return names.filter { seen.insert(ExactText($0)).inserted }.map(members.subject)
        }
        let (new, gone) = (unique(added), unique(removed))
        let changes =
            new.map { LabelChange($0, added: [members.label]) }
            + gone.map { LabelChange($0, removed: [members.label]) }
        let known = try await relabel(changes)
        let unknown = new.filter { !known.contains($0) }
        return Response.json { writer in
            writer.name("added")
            writer.integer(new.count - unknown.count)
            writer.name("removed")
            writer.integer(gone.filter(known.contains).count)
            writer.name("unknown")
            writer.texts(unknown.map { app.name($0.id) })
        }
    }

    private func list(_ step: Substring, _ app: AppName) async throws(Problem) -> Members {
        let segment = try await segment(try Self.name(step), app)
        guard let members = Members(segment, app) else {
            var issues = RequestIssues()
            issues.add("#", "segment_of_rule", "The segment is a rule, and has no list of members. Change its rule.")
            throw Problem(issues)
        }
        return members
    }

    // MARK: Reading

    /// Reads a list of names; those of devices have their form.
    private static func names(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String,
        _ most: Int,
        areDevices: Bool = false
    ) throws(JSONSyntaxError) -> [String] {
        var names: [String] = []
        var count = 0
        try scanner.elements(&issues, pointer) { (scanner, issues, index) throws(JSONSyntaxError) in
            count = index + 1
            guard count <= most else { return try scanner.skip() }
            let limit = areDevices ? Device.maximumIDBytes : Device.maximumNameBytes
            guard let name = try scanner.identifier(&issues, "\(pointer)/\(index)", limit: limit) else { return }
            guard !areDevices || Device.isID(name) else {
                return issues.add("\(pointer)/\(index)", "bad_id", "A device's id has 1 to 128 of A-Z a-z 0-9 . _ : -")
            }
            names.append(name)
        }
        if count > most {
            issues.add(pointer, "too_many_members", "At most \(most); there are \(count). Use several calls.")
        }
        return names
    }

    private func read(
        _ form: MemberList.Form,
        _ request: Request,
        _ scope: RequestScope
    ) async throws(Problem) -> MemberList {
        guard !state.isDraining else { throw .draining }
        let body = RequestBodyReader(admission: endpoint.admission, scope)
        return try await body.withBody(of: request) { (bytes) throws(Problem) in
            try await longWork(bytes: bytes.count) { () throws(Problem) in
                var issues = RequestIssues()
                let list = MemberList(bytes, form, most: Self.maximumLoad, &issues)
                guard issues.isEmpty else { throw Problem(issues) }
                return list
            }
        }
    }

    /// Returns the name in a path; one that no segment can have is wrong for a new one, and else is not found.
    private static func name(_ step: Substring, isNew: Bool = false) throws(Problem) -> String {
        let name = SyncEndpoint.decoded(step)
        guard SegmentName.isName(name) else {
            throw isNew ? .badParameter("name", SegmentName.form) : .notFound("The app has no segment of this name.")
        }
        return name
    }

    private static func requireSameKind(_ new: Segments.Segment, _ old: Segments.Segment?) throws(Problem) {
        guard let old, old.definition.kind != new.definition.kind else { return }
        var issues = RequestIssues()
        let detail =
            "The segment is one of \(old.definition.kind), and keeps its kind. Delete it first, or use another name."
        issues.add("#", "segment_kind", detail)
        throw Problem(issues)
    }

    // MARK: The store

    private func audiences() throws(Problem) -> any AudienceStore {
        guard let store = state.audiences else { throw .noAudiences }
        return store
    }

    private func segment(_ name: String, _ app: AppName) async throws(Problem) -> Segments.Segment {
        let segment = try await stored { () throws(StoreError) in try await state.segments.segment(name, in: app) }
        guard let segment else { throw .notFound("The app has no segment of this name.") }
        return segment
    }

    private func save(_ segment: Segments.Segment, _ app: AppName) async throws(Problem) {
        try await stored { () throws(StoreError) in try await state.segments.save(segment, in: app) }
    }

    private func page(
        _ label: String,
        after id: String?,
        limit: Int = Self.maximumChanges
    ) async throws(Problem) -> [String] {
        let store = try audiences()
        return try await stored { () throws(StoreError) in
            try await store.members(of: label, after: id, limit: limit)
        }
    }

    private func relabel(_ changes: [LabelChange]) async throws(Problem) -> Set<LabelChange.Subject> {
        let store = try audiences()
        return try await stored { () throws(StoreError) in try await store.relabel(changes) }
    }

    private func stored<Value>(_ body: () async throws(StoreError) -> Value) async throws(Problem) -> Value {
        do throws(StoreError) {
            return try await body()
        } catch {
            throw Problem(ofDevices: error)
        }
    }
}

extension Audience {
    /// An audience whose only source is a segment's label, to read the label's count.
    fileprivate static func counting(_ label: String, _ app: AppName) -> Audience {
        let segment = String(AudienceLabel.name(label).drop { $0 != "/" }.dropFirst())
        return Audience(app: app, rule: .segment(segment), services: [], moment: 0)
    }
}

extension Problem {
    /// The store has no audiences.
    static var noAudiences: Problem { .notFound("The store of this gateway has no audiences.") }
}

extension JSONWriter {
    /// Writes the members of a segment.
    fileprivate mutating func members(of segment: Segments.Segment) {
        field("name", segment.name)
        field("kind", segment.definition.kind)
        if case .rule(let rule) = segment.definition {
            name("rule")
            value(rule.json)
        }
        name("updated_at")
        string(RFC3339.string(segment.updatedAt))
    }
}
