internal import ChaparCore
internal import ChaparQueue

/// A delivery that has a collapse key and has not ended.
struct CollapseRival {
    var row: DeliveryRow
    var backend: String
    var collapseID: String?
    var caller: String

    /// Whether it has this caller and collapse ID.
    func isRival(of caller: String, _ collapseID: String?) -> Bool {
        self.collapseID == collapseID && self.caller == caller
    }

    /// Reads the deliveries with the keys, by key; with `isLocked` no other transaction claims or changes them until
    /// this one ends.
    static func all(
        having keys: Set<Int64>,
        isLocked: Bool = false,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [Int64: [CollapseRival]] {
        guard !keys.isEmpty else { return [:] }
        let rows = try db.run(
            """
            SELECT \(DeliveryRow.columns), f.backend, n.collapse_id, n.caller FROM chapar.waiting w
            JOIN chapar.flows f ON f.number = w.flow JOIN chapar.notifications n ON n.id = w.notification
            WHERE w.collapse = ANY ($1) ORDER BY w.id + 0\(isLocked ? " FOR UPDATE OF w" : "")
            """,
            [.integers(keys.sorted())]
        )
        var found: [Int64: [CollapseRival]] = [:]
        for row in 0..<rows.count {
            guard let delivery = DeliveryRow(rows, row), let key = delivery.collapse else { continue }
            found[key, default: []].append(
                CollapseRival(
                    row: delivery,
                    backend: rows.text(row, 13) ?? "",
                    collapseID: rows.text(row, 14),
                    caller: rows.text(row, 15) ?? ""
                )
            )
        }
        return found
    }
}
