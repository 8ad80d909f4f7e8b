package import ChaparCore
package import ChaparQueue

/// The audiences of the database, over the connection.
extension MemoryStore: AudienceStore {
    private var audiences: MemoryDeviceStore { database.devices }

    package func lastDeviceNumber() async throws(StoreError) -> Int64 {
        try await calling { () throws(StoreError) in try await audiences.lastDeviceNumber() }
    }

    package func plan(_ audience: Audience) async throws(StoreError) -> AudiencePlan {
        try await calling { () throws(StoreError) in try await audiences.plan(audience) }
    }

    package func window(
        _ plan: AudiencePlan,
        after start: Int64,
        through end: Int64,
        limit: Int
    ) async throws(StoreError) -> AudienceWindow {
        try await calling { () throws(StoreError) in
            try await audiences.window(plan, after: start, through: end, limit: limit)
        }
    }

    package func subjects(_ ids: [String]) async throws(StoreError) -> [String: AudienceSubject] {
        try await calling { () throws(StoreError) in try await audiences.subjects(ids) }
    }

    package func labels(ofUser user: String) async throws(StoreError) -> [String] {
        try await calling { () throws(StoreError) in try await audiences.labels(ofUser: user) }
    }

    package func relabel(_ changes: [LabelChange]) async throws(StoreError) -> Set<LabelChange.Subject> {
        try await calling { () throws(StoreError) in try await audiences.relabel(changes) }
    }

    package func members(of label: String, after id: String?, limit: Int) async throws(StoreError) -> [String] {
        try await calling { () throws(StoreError) in try await audiences.members(of: label, after: id, limit: limit) }
    }

    package func labelCounts(
        in app: AppName,
        after label: String?,
        limit: Int
    ) async throws(StoreError) -> [LabelCount] {
        try await calling { () throws(StoreError) in
            try await audiences.labelCounts(in: app, after: label, limit: limit)
        }
    }
}
