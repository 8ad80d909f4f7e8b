internal import ChaparCore
internal import ChaparQueue
internal import Foundation

/// Writes campaigns and the parts that their windows make, within the transaction of their deliveries.
///
/// ``EnqueueLoop`` calls it, so that a window's deliveries, its counters and its cursor are one commit. Two nodes that
/// made the same window wait for each other at the campaign's row: the second finds another version, and writes
/// nothing.
enum CampaignTable {
    /// Writes the campaigns of requests; those whose campaign has changed meanwhile become
    /// ``ChaparQueue/EnqueueResult/outdated``.
    static func write(
        _ requests: [EnqueueRequest],
        _ results: inout [EnqueueResult],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        let places = requests.indices.filter { results[$0] == .accepted && requests[$0].batch.campaign != nil }
        // In the order of their numbers, so that two nodes with the same campaigns do not deadlock.
        let ordered = places.sorted { number(requests[$0]) < number(requests[$1]) }
        for place in ordered {
            let batch = requests[place].batch
            switch batch.campaign {
            case .new(let campaign): try insert(campaign, db)
            case .change(let campaign, let settled):
                if try !change(campaign, parts: batch.notifications, settled: settled, db) {
                    results[place] = .outdated
                }
            case nil: break
            }
        }
    }

    private static func number(_ request: EnqueueRequest) -> Int64 {
        switch request.batch.campaign {
        case .new(let campaign), .change(let campaign, _): campaign.id.rawValue
        case nil: 0
        }
    }

    private static func insert(_ campaign: Campaign, _ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run(
            "INSERT INTO chapar.campaigns (id, version, packed) VALUES ($1, 0, $2)",
            [.integer(campaign.id.rawValue), .bytes(campaign.encoded)]
        )
    }

    private static func change(
        _ campaign: Campaign,
        parts: [NewNotification],
        settled: [Int64],
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> Bool {
        let changed = try db.run(
            """
            UPDATE chapar.campaigns SET version = version + 1, ended = $3, packed = $4 WHERE id = $1 AND version = $2
            """,
            [
                .integer(campaign.id.rawValue), .integer(campaign.version),
                .integer(campaign.endedAt?.millisecondsSince1970), .bytes(campaign.encoded),
            ]
        ).changed
        guard changed == 1 else { return false }
        if !parts.isEmpty {
            try db.run(
                """
                INSERT INTO chapar.campaign_parts (campaign, first, place, count, open)
                SELECT $1, *, true FROM unnest($2::bigint[], $3::bigint[], $4::bigint[])
                """,
                [
                    .integer(campaign.id.rawValue), .integers(parts.map(\.id.rawValue)),
                    .integers(parts.map { $0.record.partOf?.first ?? 0 }),
                    .integers(parts.map { Int64($0.recipients.count) }),
                ]
            )
        }
        if !settled.isEmpty {
            try db.run(
                "UPDATE chapar.campaign_parts SET open = false WHERE campaign = $1 AND first = ANY ($2)",
                [.integer(campaign.id.rawValue), .integers(settled)]
            )
        }
        return true
    }

    /// Removes up to ten campaigns that ended before a time, with their lists of parts.
    ///
    /// Other upkeep removes the parts' notifications.
    static func forget(before: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run(
            """
            WITH old AS (
                DELETE FROM chapar.campaigns WHERE id = ANY (ARRAY(
                    SELECT id FROM chapar.campaigns WHERE ended < $1 LIMIT 10 FOR UPDATE SKIP LOCKED))
                RETURNING id
            )
            DELETE FROM chapar.campaign_parts WHERE campaign IN (SELECT id FROM old)
            """,
            [.integer(before)]
        )
    }
}
