import Foundation
import GRDB
public import ChaparCore
public import ChaparQueue

/// The campaigns; ``CampaignTable`` writes them.
extension SQLiteStore: CampaignStore {
    private static let columns = "id, version, packed"

    /// Returns a campaign.
    public func campaign(_ id: NotificationID) async throws(StoreError) -> Campaign? {
        try await read { db in
            let rows = try db.statement("SELECT \(Self.columns) FROM campaigns WHERE id = ?1")
            rows.bind(1, id.rawValue)
            return try rows.next() ? try Self.campaign(rows) : nil
        }
    }

    /// Returns the campaigns that are not over, the oldest first.
    public func openCampaigns(limit: Int) async throws(StoreError) -> [Campaign] {
        try await campaigns("WHERE ended IS NULL AND id >= ?1 ORDER BY id LIMIT ?2", 0, limit: limit)
    }

    /// Returns campaigns below an id, the newest first.
    public func campaigns(before: NotificationID?, limit: Int) async throws(StoreError) -> [Campaign] {
        try await campaigns("WHERE id < ?1 ORDER BY id DESC LIMIT ?2", before?.rawValue ?? .max, limit: limit)
    }

    private static func campaign(_ row: SQLStatement) throws(StoreError) -> Campaign {
        guard let campaign = Campaign(encoded: try row.bytes(2), version: try row.integer(1)) else {
            throw row.damage(2, "a campaign")
        }
        return campaign
    }

    /// Returns the campaigns that can be read: a damaged one does not stop the others.
    private func campaigns(_ part: String, _ id: Int64, limit: Int) async throws(StoreError) -> [Campaign] {
        let status = core.status
        return try await read { db in
            let rows = try db.statement("SELECT \(Self.columns) FROM campaigns \(part)")
            rows.bind(1, id)
            rows.bind(2, max(0, limit))
            var found: [Campaign] = []
            while try rows.next() {
                if let campaign = rows.readable(Self.campaign, status) { found.append(campaign) }
            }
            return found
        }
    }

    /// Returns what waits of a campaign: claimed deliveries too, since their rows have not ended.
    public func load(of id: NotificationID) async throws(StoreError) -> CampaignLoad {
        try await read { db in
            // By the table itself: an index of all that waits would be read as a whole.
            let rows = try db.statement(
                """
                SELECT first, (
                    SELECT count(*) FROM deliveries NOT INDEXED
                    WHERE id >= p.first AND id < p.first + p.count AND state = 0
                ) FROM campaign_parts p WHERE campaign = ?1 AND open = 1
                """
            )
            rows.bind(1, id.rawValue)
            var load = CampaignLoad()
            while try rows.next() {
                let waiting = try rows.count(1)
                load.waiting += waiting
                if waiting == 0 { load.settled.append(try rows.id(0)) }
            }
            return load
        }
    }

    /// Returns the parts of a campaign, in order.
    public func parts(
        of id: NotificationID,
        after: Int64?,
        limit: Int,
        onlyOpen: Bool
    ) async throws(StoreError) -> [StoredPart] {
        try await read { db in
            let rows = try db.statement(
                """
                SELECT first, place, count FROM campaign_parts
                WHERE campaign = ?1 AND first + count - 1 > ?2 \(onlyOpen ? "AND open = 1" : "") ORDER BY first LIMIT ?3
                """
            )
            rows.bind(1, id.rawValue)
            rows.bind(2, after ?? -1)
            rows.bind(3, max(0, limit))
            var parts: [StoredPart] = []
            while try rows.next() {
                parts.append(
                    StoredPart(
                        id: NotificationID(rawValue: try rows.id(0)),
                        place: try rows.id(1),
                        count: try rows.count(2)
                    )
                )
            }
            return parts
        }
    }

    /// Returns the number of a campaign's deliveries in each state.
    public func counts(of id: NotificationID) async throws(StoreError) -> [DeliveryState: Int] {
        let now = time.steady.millisecondsSince1970
        var counts: [DeliveryState: Int] = try await scan { db in
            let rows = try db.statement(
                """
                SELECT d.state, min(d.attempts, 1), d.due > ?2, count(*) FROM campaign_parts p
                CROSS JOIN deliveries d NOT INDEXED ON d.id >= p.first AND d.id < p.first + p.count
                WHERE p.campaign = ?1 GROUP BY 1, 2, 3
                """
            )
            rows.bind(1, id.rawValue)
            rows.bind(2, now)
            var counts: [DeliveryState: Int] = [:]
            while try rows.next() {
                let state = DeliveryState(
                    code: try rows.integer(0),
                    attempts: try rows.integer(1),
                    due: try rows.integer(2) != 0 ? 1 : 0,
                    now: 0
                )
                counts[state, default: 0] += try rows.count(3)
            }
            return counts
        }
        let claimed = try await look { queueIndex in
            var claimed: [DeliveryState: Int] = [:]
            for entry in queueIndex.claims.values where entry.head.record.partOf?.campaign == id.rawValue {
                let state = DeliveryState(code: 0, attempts: Int64(entry.attempts), due: entry.due, now: now)
                claimed[state, default: 0] += 1
            }
            return claimed
        }
        for (state, count) in claimed {
            // One may have ended between the two looks.
            let moved = min(count, counts[state] ?? 0)
            counts[state, default: 0] -= moved
            counts[.sending, default: 0] += moved
        }
        return counts.filter { $0.value > 0 }
    }
}
