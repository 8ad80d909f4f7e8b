import PushCore

/// A call that changes tables of which the writer keeps nothing in memory.
///
/// It runs within the writer's transaction and may run again, when that transaction had to be undone for another call's
/// sake.
struct TableWork: Sendable {
    /// About how many rows it writes.
    let rows: Int
    /// Does the work; what it gives back is called after the commit.
    let run: @Sendable (CommitLoop) throws(StoreError) -> @Sendable () -> Void
    /// Answers with an error.
    let fail: @Sendable (StoreError) -> Void
}

extension Optional {
    /// The value; the first time it is made, and kept.
    ///
    /// For tables of the commit loop, whose statements are prepared when they are needed first.
    mutating func keep(_ make: @autoclosure () throws(StoreError) -> Wrapped) throws(StoreError) -> Wrapped {
        if let self { return self }
        let made = try make()
        self = made
        return made
    }
}
