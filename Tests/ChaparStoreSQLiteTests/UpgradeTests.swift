import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

/// A file of the first version with many rows: 20,000, or what `CHAPAR_UPGRADE_ROWS` says
/// (`make verify-long PARTS=upgrade` says a million, of which docs/Upgrading.md states a time).
@Suite("An upgrade of a large file", .timeLimit(.minutes(10)))
struct UpgradeTests {
    private static let rows = ProcessInfo.processInfo.environment["CHAPAR_UPGRADE_ROWS"].flatMap { Int($0) } ?? 20_000
    /// The time that docs/Upgrading.md states for a million deliveries, in seconds.
    private static let statedSeconds = 30
    private static let statedRows = 1_000_000
    private static let slowness = ProcessInfo.processInfo.environment["CHAPAR_SLOWNESS"].flatMap(Int.init) ?? 1

    /// The CPU time that the calling thread has used.
    private static var cpu: Duration {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    @Test(
        "takes its rows' share of the time stated for a million at most, names its steps, and delivers waiting rows"
    )
    func million() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            try await Self.makeFirstVersion(path, like: folder + "/sample.db")
            let page = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/Upgrading.md")
            let stated = "takes less than \(Self.statedSeconds) seconds"
            #expect(try String(contentsOf: page, encoding: .utf8).contains(stated))
            let size = try Self.bytes(path)
            let said = Mutex<[String]>([])
            let (start, cpu) = (ContinuousClock.now, Self.cpu)
            try StoreMigration.apply(SQLiteStoreOptions(path: path)) { line in said.withLock { $0.append(line) } }
            let (span, used) = (start.duration(to: .now), Self.cpu - cpu)
            print(
                "\(Self.rows) deliveries: upgraded in \(MigrationStep.seconds(span)), from \(size >> 20) to \(try Self.bytes(path) >> 20) MiB"
            )
            let share = Duration.seconds(Self.statedSeconds) * Self.rows / Self.statedRows
            #expect(used > .zero && used < share * Self.slowness, "\(used) of \(share)")
            if Self.rows >= Self.statedRows { #expect(span < share) }
            let lines = said.withLock { $0 }
            let steps = Schema.migrator.migrations.count - 1
            #expect(lines.count == steps + 2, "\(lines)")
            #expect(lines.first?.hasSuffix("in \(steps) steps: \(Self.rows) deliveries") == true, "\(lines)")
            #expect(lines.dropFirst().first?.hasPrefix("step 1 of \(steps), 2 devices, took ") == true, "\(lines)")
            #expect(lines.last?.hasPrefix("the store is up to date after ") == true)

            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: ManualTime())
            let claimed = try await store.claimNow(512)
            #expect(claimed.count == 512 && claimed.first?.recipient == .token(DeviceToken("r0", service: .iOSAPNs)))
            try await store.record(claimed.map { Resolution(of: $0, .end(.acceptedByPlatform)) })
            #expect(try await store.depths()["apns"]?.waiting == Self.rows / 10 - 512)
            await store.close()
            said.withLock { $0 = [] }
            try StoreMigration.apply(SQLiteStoreOptions(path: path)) { line in said.withLock { $0.append(line) } }
            #expect(said.withLock { $0 }.isEmpty, "nothing is said of nothing")
        }
    }

    private static func bytes(_ path: String) throws -> Int {
        try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
    }

    /// Writes a file as the first version left it.
    ///
    /// Of its deliveries one in ten waits. Each is a copy of one that this version accepts.
    private static func makeFirstVersion(_ path: String, like sample: String) async throws {
        let store = try SQLiteStore(SQLiteStoreOptions(path: sample), time: ManualTime())
        let time = ManualTime()
        try await store.accept(time)
        await store.close()
        // Its second opening gives what was staged a row.
        await (try SQLiteStore(SQLiteStoreOptions(path: sample), time: ManualTime())).close()
        let old = try DatabaseQueue(path: path)
        try Schema.migrator.migrate(old, upTo: "1 deliveries")
        try await old.writeWithoutTransaction { db in
            try db.execute(sql: "ATTACH ? AS new", arguments: [sample])
            try db.inTransaction {
                try db.execute(
                    sql: """
                        INSERT INTO lanes (number, name) VALUES (1, 'apns');
                        WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows - 1))
                        INSERT INTO deliveries (id, state, lane, due, expires, step, attempts, replay, mark, changed,
                            recipient, count, accepted, plan, caller, content)
                        SELECT d.id + i * 8192, iif(i % 10 = 0, 0, 1), 1, d.due, d.expires + 10000 * 86400000, 0, iif(i % 10 = 0, 0, 1), 0, 0,
                            d.changed + i, d.recipient, 1, d.changed, 'apns', d.caller, CAST('{}' AS BLOB)
                        FROM n, (SELECT * FROM new.deliveries LIMIT 1) d
                        """
                )
                return .commit
            }
            try db.execute(sql: "DETACH new")
        }
        try old.close()
    }
}
