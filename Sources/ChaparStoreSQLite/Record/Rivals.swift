import ChaparCore
import ChaparQueue

/// Finds the deliveries with the same recipient and collapse ID as another, among the rows.
///
/// It changes nothing. Used by the writer's thread only.
final class Rivals {
    /// A collapse ID with its caller, and the hash by which its deliveries to a recipient are found.
    typealias Collapse = (hash: Int64, id: String, caller: String)

    private let queueIndex: QueueIndex
    private let collapsing: SQLStatement
    private let collapseID: SQLStatement

    init(_ transaction: Transaction) throws(StoreError) {
        queueIndex = transaction.queueIndex
        collapsing = try SQLStatement(
            transaction.connection,
            """
            SELECT id, flow FROM deliveries
            WHERE state = 0 AND collapse IS NOT NULL AND collapse = ?1 AND recipient = ?2 AND id <> ?3
            AND EXISTS (
                SELECT 1 FROM deliveries h WHERE h.id = coalesce(deliveries.head, deliveries.id)
                AND h.collapse_id = ?4 AND coalesce(h.caller, '') = ?5
            )
            """
        )
        collapseID = try SQLStatement(
            transaction.connection,
            "SELECT collapse_id, coalesce(caller, '') FROM deliveries WHERE id = ?1"
        )
    }

    /// Returns the numbers of the waiting or claimed deliveries at a backend with the same recipient, and the same
    /// collapse ID of the same caller.
    func find(
        _ collapse: Collapse,
        _ queue: BackendQueue,
        _ recipient: [UInt8],
        besides id: Int64
    ) throws(StoreError) -> [Int64] {
        collapsing.bind(1, collapse.hash)
        collapsing.bind(3, id)
        collapsing.bind(4, collapse.id)
        collapsing.bind(5, collapse.caller)
        return try recipient.withUnsafeBufferPointer { (bytes) throws(StoreError) in
            collapsing.bindText(2, borrowing: bytes)
            var found: [Int64] = []
            while try collapsing.next() {
                guard queueIndex.flow(number: try collapsing.integer(1))?.queue === queue else { continue }
                found.append(try collapsing.integer(0))
            }
            return found
        }
    }

    /// Returns the collapse ID of a notification; nil when it has none.
    func collapse(of id: NotificationID, hash: Int64) throws(StoreError) -> Collapse? {
        collapseID.bind(1, id.rawValue)
        guard try collapseID.next() else { return nil }
        defer { collapseID.reset() }
        guard let collapse = try collapseID.optionalText(0) else { return nil }
        return (hash, collapse, try collapseID.text(1))
    }
}
