import ChaparCore

/// A call that changes tables of which the writer keeps nothing in memory.
///
/// It runs within the writer's transaction, and runs again when that transaction was rolled back because of another
/// call.
struct TableWork: Sendable {
    /// About how many rows it writes.
    let rows: Int
    /// Does the work; returns the closure to call after the commit.
    let run: @Sendable (StoreWriter) throws(StoreError) -> @Sendable () -> Void
    /// Answers with an error.
    let fail: @Sendable (StoreError) -> Void
}

extension Optional {
    /// Returns the value, which is made at the first call.
    ///
    /// For tables whose statements are prepared when they are first needed.
    mutating func keep(_ make: @autoclosure () throws(StoreError) -> Wrapped) throws(StoreError) -> Wrapped {
        if let self { return self }
        let made = try make()
        self = made
        return made
    }
}
