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
