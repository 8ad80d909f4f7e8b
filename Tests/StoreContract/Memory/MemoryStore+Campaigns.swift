package import ChaparCore
package import ChaparQueue
import Foundation

/// Campaigns, in the simplest form that keeps their promises.
extension MemoryStore: CampaignStore {
    package func campaign(_ id: NotificationID) async throws(StoreError) -> Campaign? {
        try await read { $0.campaigns[id.rawValue] }
    }

    package func openCampaigns(limit: Int) async throws(StoreError) -> [Campaign] {
        try await read { tables in
            Array(tables.campaigns.values.filter { $0.endedAt == nil }.sorted { $0.id < $1.id }.prefix(limit))
        }
    }

    package func campaigns(before: NotificationID?, limit: Int) async throws(StoreError) -> [Campaign] {
        try await read { tables in
            let found = tables.campaigns.values.filter { before == nil || $0.id < before ?? $0.id }
            return Array(found.sorted { $0.id > $1.id }.prefix(limit))
        }
    }

    package func load(of id: NotificationID) async throws(StoreError) -> CampaignLoad {
        try await read { tables in
            var load = CampaignLoad()
            for part in tables.openParts(of: id) {
                let waiting = tables.waiting(of: part)
                load.waiting += waiting
                if waiting == 0 { load.settled.append(part.id.rawValue) }
            }
            return load
        }
    }

    package func parts(
        of id: NotificationID,
        after: Int64?,
        limit: Int,
        onlyOpen: Bool
    ) async throws(StoreError) -> [StoredPart] {
        try await read { tables in
            let all = onlyOpen ? tables.openParts(of: id) : tables.parts[id.rawValue] ?? []
            let found = all.filter { $0.id.delivery(at: $0.count - 1) > after ?? -1 }
            return Array(found.sorted { $0.id < $1.id }.prefix(limit))
        }
    }

    package func counts(of id: NotificationID) async throws(StoreError) -> [DeliveryState: Int] {
        let time = time
        return try await read { tables in
            var counts: [DeliveryState: Int] = [:]
            for part in tables.parts[id.rawValue] ?? [] {
                for (state, count) in tables.notification(part.id, time)?.counts ?? [:] {
                    counts[state, default: 0] += count
                }
            }
            return counts
        }
    }
}

extension MemoryTables {
    /// Writes a campaign; returns false when it has another version meanwhile.
    mutating func write(_ write: CampaignWrite, _ notifications: [NewNotification]) -> Bool {
        switch write {
        case .new(let campaign): campaigns[campaign.id.rawValue] = campaign
        case .change(var campaign, let settled):
            let id = campaign.id.rawValue
            guard let known = campaigns[id], known.version == campaign.version else { return false }
            campaign.version += 1
            campaigns[id] = campaign
            for new in notifications {
                let place = new.record.partOf?.first ?? 0
                parts[id, default: []].append(StoredPart(id: new.id, place: place, count: new.recipients.count))
            }
            settledParts.formUnion(settled)
        }
        return true
    }

    func openParts(of id: NotificationID) -> [StoredPart] {
        (parts[id.rawValue] ?? []).filter { !settledParts.contains($0.id.rawValue) }
    }

    func waiting(of part: StoredPart) -> Int {
        (0..<part.count).count { waiting[part.id.delivery(at: $0)] != nil }
    }
}
