import ChaparCore
import ChaparQueue
import Foundation

/// Writes campaigns and the parts that their windows make, within the transaction of their deliveries.
///
/// ``Enqueuing`` calls it, so that a window's deliveries, its counters and its cursor are one commit. Its statements
/// are prepared with the first campaign. Used by the writer's thread only.
final class CampaignTable {
    private let connection: OpaquePointer
    private var prepared: CampaignStatements?

    init(_ connection: OpaquePointer) { self.connection = connection }

    /// Writes a change; returns false, and writes nothing, when the campaign has another version meanwhile.
    func write(_ write: CampaignWrite, parts: [NewNotification]) throws(StoreError) -> Bool {
        let sql = try prepared.keep(try CampaignStatements(connection))
        switch write {
        case .new(let campaign):
            let insert = sql.insert
            insert.bind(1, campaign.id.rawValue)
            insert.bind(2, blob: campaign.encoded)
            try insert.run()
        case .change(let campaign, let settled):
            let update = sql.update
            update.bind(1, campaign.id.rawValue)
            update.bind(2, campaign.version)
            update.bind(3, campaign.endedAt?.millisecondsSince1970)
            update.bind(4, blob: campaign.encoded)
            guard try update.run() == 1 else { return false }
            for part in parts {
                let insert = sql.insertPart
                insert.bind(1, campaign.id.rawValue)
                insert.bind(2, part.id.rawValue)
                insert.bind(3, part.record.partOf?.first ?? 0)
                insert.bind(4, part.recipients.count)
                try insert.run()
            }
            for part in settled {
                let settle = sql.settle
                settle.bind(1, campaign.id.rawValue)
                settle.bind(2, part)
                try settle.run()
            }
        }
        return true
    }
}

/// The statements that write campaigns.
private struct CampaignStatements {
    let insert: SQLStatement
    let update: SQLStatement
    let insertPart: SQLStatement
    let settle: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        insert = try SQLStatement(connection, "INSERT INTO campaigns (id, version, packed) VALUES (?1, 0, ?2)")
        update = try SQLStatement(
            connection,
            "UPDATE campaigns SET version = version + 1, ended = ?3, packed = ?4 WHERE id = ?1 AND version = ?2"
        )
        insertPart = try SQLStatement(
            connection,
            "INSERT INTO campaign_parts (campaign, first, place, count, open) VALUES (?1, ?2, ?3, ?4, 1)"
        )
        settle = try SQLStatement(connection, "UPDATE campaign_parts SET open = 0 WHERE campaign = ?1 AND first = ?2")
    }
}
