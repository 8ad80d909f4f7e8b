internal import Foundation
internal import Logging
public import ChaparCore

/// Named locks for work that one node does at a time, such as a token refresh.
///
/// A lock is a row with an expiry, so it works behind any pooler, and a dead owner does not block others for long.
extension PostgresStore {
    /// The time, in seconds, after which the holder of a lock counts as dead.
    static let longestHold = 60
    /// The pause before a lock that another node holds is tried again.
    private static let pause = Duration.milliseconds(100)

    /// Waits until no other node holds the name, holds it while `body` runs, and releases it.
    public func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        let holder = UUID().uuidString
        let end = ContinuousClock.now + .seconds(2 * Self.longestHold)
        while try await !take(name, holder) {
            guard ContinuousClock.now < end, !Task.isCancelled else {
                throw .failed("another gateway holds \(name), which it should have let go by now")
            }
            try? await Task.sleep(for: Self.pause)  // A cancelled task goes on to the check above.
        }
        let value = await body()
        do throws(StoreError) {
            try await session(on: core.keeper) { (db) throws(PostgresError) in
                try db.run("DELETE FROM chapar.locks WHERE name = $1 AND holder = $2", [.text(name), .text(holder)])
            }
        } catch {
            logger.notice(
                "a lock could not be released and stays until it expires",
                metadata: ["name": "\(name)", "error": "\(error)"]
            )
        }
        return value
    }

    private func take(_ name: String, _ holder: String) async throws(StoreError) -> Bool {
        try await session(on: core.keeper) { (db) throws(PostgresError) in
            try db.run(
                """
                INSERT INTO chapar.locks AS l (name, holder, until)
                VALUES ($1, $2, clock_timestamp() + make_interval(secs => \(Self.longestHold)))
                ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
                WHERE l.until < clock_timestamp()
                """,
                [.text(name), .text(holder)]
            ).changed == 1
        }
    }
}
