internal import Foundation
import ChaparCore

/// Changes and events that wait to be sent, in order, kept in a store before anything is sent.
///
/// It takes the place of the SDK's database. A row belongs to the profile that was logged in when it was made, and
/// stays unchanged while another profile is logged in.
actor AltcraftQueue {
    /// The most rows; further ones are refused, so that no older one is lost.
    static let limit = 500

    struct Row: Sendable, Hashable {
        var id: UUID
        var at: Date
        var tag: String
        /// A status, or the name of an event.
        var kind: String
        /// The options of a change, or the `uid` of an event.
        var body: JSONObject
        var attempts = 0

        var status: SubscriptionStatus? { SubscriptionStatus(rawValue: kind) }
        var event: PushEvent? { PushEvent(rawValue: kind) }
    }

    private let state: any StateStore
    private let name: String
    private var rows: [Row]?

    init(_ state: any StateStore, name: String) {
        self.state = state
        self.name = name
    }

    /// Stores a row; throws when there are too many, or the store fails.
    func add(_ row: Row) async throws(StoreError) {
        var next = try await all()
        guard next.count < Self.limit else {
            throw .full(reason: "\(Self.limit) requests wait already", retryAfter: .seconds(60))
        }
        next.append(row)
        try await save(next)
    }

    /// Returns the rows of a profile, the oldest first.
    func rows(of tag: String) async throws(StoreError) -> [Row] { try await all().filter { $0.tag == tag } }

    /// Returns the number of waiting requests, of all profiles.
    func count() async throws(StoreError) -> Int { try await all().count }

    /// Removes a row; one that is gone is no error.
    func remove(_ id: UUID) async throws(StoreError) {
        try await save(try await all().filter { $0.id != id })
    }

    /// Counts an attempt of a row.
    func countTry(_ id: UUID) async throws(StoreError) {
        try await save(
            try await all().map { row in
                var row = row
                if row.id == id { row.attempts += 1 }
                return row
            }
        )
    }

    /// Removes changes, or everything.
    func clear(onlyChanges: Bool = false) async throws(StoreError) {
        try await save(onlyChanges ? try await all().filter { $0.status == nil } : [])
    }

    private func all() async throws(StoreError) -> [Row] {
        if let rows { return rows }
        let bytes = try await state.loadState(name)
        let list = bytes.flatMap { try? JSONValue(parsing: $0) }?.arrayValue ?? []
        if let rows { return rows }  // Another call has read them meanwhile.
        let read = list.compactMap(Row.init)
        rows = read
        return read
    }

    private func save(_ next: [Row]) async throws(StoreError) {
        let old = rows
        rows = next
        do throws(StoreError) {
            try await state.saveState(name, next.isEmpty ? nil : JSONValue.array(next.map(\.json)).bytes)
        } catch {
            rows = old
            throw error
        }
    }
}

extension AltcraftQueue.Row {
    var json: JSONValue {
        [
            "id": .string(id.uuidString), "at": .integer(at.millisecondsSince1970), "tag": .string(tag),
            "kind": .string(kind), "body": .object(body), "attempts": .integer(Int64(attempts)),
        ]
    }

    init?(_ json: JSONValue) {
        guard let id = json["id"]?.stringValue.flatMap(UUID.init), let at = json["at"]?.integerValue,
            let tag = json["tag"]?.stringValue, let kind = json["kind"]?.stringValue,
            let body = json["body"]?.objectValue, let attempts = json["attempts"]?.integerValue
        else { return nil }
        self.init(
            id: id,
            at: Date(millisecondsSince1970: at),
            tag: tag,
            kind: kind,
            body: body,
            attempts: Int(count: attempts)
        )
    }
}
