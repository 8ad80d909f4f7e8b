public import ChaparCore
public import ChaparQueue

extension PostgresStore {
    /// Removes what is over and old: it disappears at once, and its disk space is freed with the partition of its day.
    public func purge(_ retention: Retention) async throws(StoreError) -> Bool {
        do throws(PostgresError) {
            return try await Removal(core).run(retention)
        } catch {
            throw error.storeError
        }
    }
}
