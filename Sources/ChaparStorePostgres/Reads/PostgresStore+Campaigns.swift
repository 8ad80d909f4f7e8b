internal import Foundation
public import ChaparCore
public import ChaparQueue

/// The campaigns; ``CampaignTable`` writes them.
extension PostgresStore: CampaignStore {
    /// Returns a campaign.
    public func campaign(_ id: NotificationID) async throws(StoreError) -> Campaign? {
        try await campaigns("WHERE id = $1 LIMIT $2", id.rawValue, limit: 1).first
    }

    /// Returns the campaigns that are not over, the oldest first.
    public func openCampaigns(limit: Int) async throws(StoreError) -> [Campaign] {
        try await campaigns("WHERE ended IS NULL AND id >= $1 ORDER BY id LIMIT $2", 0, limit: limit)
    }

    /// Returns campaigns below an id, the newest first.
    public func campaigns(before: NotificationID?, limit: Int) async throws(StoreError) -> [Campaign] {
        try await campaigns("WHERE id < $1 ORDER BY id DESC LIMIT $2", before?.rawValue ?? .max, limit: limit)
    }

    private func campaigns(_ part: String, _ id: Int64, limit: Int) async throws(StoreError) -> [Campaign] {
        let (campaigns, damaged) = try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                "SELECT id, version, packed FROM chapar.campaigns \(part)",
                [.integer(id), .integer(max(0, limit))]
            )
            var (found, damaged): ([Campaign], Int64?) = ([], nil)
            for row in 0..<rows.count {
                let campaign = Campaign(encoded: rows.bytes(row, 2) ?? [], version: rows.integer(row, 1) ?? 0)
                if let campaign { found.append(campaign) } else { damaged = rows.integer(row, 0) }
            }
            return (found, damaged)
        }
        if let damaged { core.logUnreadable(NotificationID(rawValue: damaged)) }
        return campaigns
    }

    /// Returns what waits of a campaign.
    public func load(of id: NotificationID) async throws(StoreError) -> CampaignLoad {
        try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT p.first, (
                    SELECT count(*) FROM chapar.waiting w WHERE w.id >= p.first AND w.id < p.first + p.count
                ) FROM chapar.campaign_parts p WHERE p.campaign = $1 AND p.open
                """,
                [.integer(id.rawValue)]
            )
            var load = CampaignLoad()
            for row in 0..<rows.count {
                let waiting = Int(count: rows.integer(row, 1) ?? 0)
                load.waiting += waiting
                if waiting == 0, let part = rows.integer(row, 0) { load.settled.append(part) }
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
        try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT first, place, count FROM chapar.campaign_parts
                WHERE campaign = $1 AND first + count - 1 > $2 \(onlyOpen ? "AND open" : "") ORDER BY first LIMIT $3
                """,
                [.integer(id.rawValue), .integer(after ?? -1), .integer(max(0, limit))]
            )
            return (0..<rows.count).map { row in
                StoredPart(
                    id: NotificationID(rawValue: rows.integer(row, 0) ?? 0),
                    place: rows.integer(row, 1) ?? 0,
                    count: Int(count: rows.integer(row, 2) ?? 0)
                )
            }
        }
    }

    /// Returns the number of a campaign's deliveries in each state.
    public func counts(of id: NotificationID) async throws(StoreError) -> [DeliveryState: Int] {
        let now = core.now
        return try await session(on: core.reader) { (db) throws(PostgresError) in
            // One statement reads both tables: a delivery that ends meanwhile is in one of them.
            let rows = try db.run(
                """
                WITH parts AS MATERIALIZED (
                    SELECT first, first + count AS beyond FROM chapar.campaign_parts WHERE campaign = $1
                )
                SELECT 0::smallint, w.attempts > 0, w.due > $2, w.owner > 0, count(*)
                FROM parts p JOIN chapar.waiting w ON w.id >= p.first AND w.id < p.beyond GROUP BY 2, 3, 4
                UNION ALL
                SELECT r.state, false, false, false, count(*)
                FROM parts p JOIN chapar.results r ON r.id >= p.first AND r.id < p.beyond GROUP BY r.state
                """,
                [.integer(id.rawValue), .integer(now)]
            )
            var counts: [DeliveryState: Int] = [:]
            for row in 0..<rows.count {
                let state =
                    rows.bool(row, 3)
                    ? DeliveryState.sending
                    : DeliveryState(
                        code: rows.integer(row, 0) ?? 0,
                        attempts: rows.bool(row, 1) ? 1 : 0,
                        due: rows.bool(row, 2) ? 1 : 0,
                        now: 0
                    )
                counts[state, default: 0] += Int(count: rows.integer(row, 4) ?? 0)
            }
            return counts
        }
    }
}
