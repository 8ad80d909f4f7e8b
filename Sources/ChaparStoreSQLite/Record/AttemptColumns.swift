import ChaparCore

/// The columns that an attempt changes.
enum AttemptColumns {
    /// The assignments that append an attempt to the row itself, so that nothing has to be read first.
    static let assignments = """
        attempts = attempts + ?4, replay = replay | ?5, changed = ?3,
        attempt_log = CASE WHEN ?6 IS NULL THEN attempt_log WHEN attempt_log IS NULL THEN ?6 ELSE attempt_log || ',' || ?6 END
        """
}

extension SQLStatement {
    /// Runs a statement with an attempt as its sixth value, or NULL; returns the number of changed rows.
    func run(attempt: [UInt8]?) throws(StoreError) -> Int {
        guard let attempt else {
            bindNull(6)
            return try run()
        }
        return try attempt.withUnsafeBufferPointer { (bytes) throws(StoreError) in
            bindText(6, borrowing: bytes)
            return try run()
        }
    }
}
