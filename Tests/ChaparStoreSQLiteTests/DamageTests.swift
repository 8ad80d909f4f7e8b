import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

/// Files that are damaged on purpose: with any content the process goes on, and an unreadable value is reported as
/// damaged.
@Suite("A damaged store", .timeLimit(.minutes(10)))
struct DamageTests {
    /// The values that a column gets: one of each type, and numbers at the ends of their range.
    ///
    /// Each column gets two of them in turn, and all with `CHAPAR_DAMAGED_FILES` (`make verify-long PARTS=damage`).
    static let wrong = ["'x'", "x'FF'", "NULL", "9223372036854775807", "-1"]

    @Test("The audit knows every column of every table, and of no other")
    func columns() async throws {
        try await TemporaryFolder.use { folder in
            let file = try DatabaseQueue(path: folder + "/store.db")
            try Schema.migrator.migrate(file)
            let found = try await file.read { db in
                let tables = try String.fetchAll(
                    db,
                    sql: "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                )
                return Dictionary(
                    uniqueKeysWithValues: try tables.map { ($0, Set(try db.columns(in: $0).map(\.name))) }
                )
            }
            let known = Dictionary(
                uniqueKeysWithValues: StoreAudit.tables.map { ($0.name, Set($0.columns.map(\.name))) }
            )
            #expect(found.filter { $0.key != "grdb_migrations" } == known)
        }
    }

    @Test(
        "A wrong value in a column ends nothing, and is found by backup when anything cannot be read",
        arguments: StoreAudit.tables.map(\.name)
    )
    func values(table: String) async throws {
        let store = try await DamagedStore.make()
        let columns = try #require(StoreAudit.tables.first { $0.name == table }).columns.map(\.name)
        let asksAll = ProcessInfo.processInfo.environment["CHAPAR_DAMAGED_FILES"] != nil
        var planted = 0
        for (place, column) in columns.enumerated() {
            let two = [Self.wrong[place % Self.wrong.count], Self.wrong[(place + 3) % Self.wrong.count]]
            for value in asksAll ? Self.wrong : two {
                try await store.use { path in
                    guard try await plant("UPDATE OR IGNORE \(table) SET \"\(column)\" = \(value)", path) else {
                        return
                    }
                    planted += 1
                    check(try await store.findings(in: path), "\(table).\(column) = \(value)")
                }
            }
        }
        #expect(planted > 0, "there are rows to be damaged")
    }

    @Test("A file with flipped bits ends nothing, and is found by backup when anything cannot be read")
    func bits() async throws {
        let store = try await DamagedStore.make()
        let files = ProcessInfo.processInfo.environment["CHAPAR_DAMAGED_FILES"].flatMap { Int($0) } ?? 40
        var random = SeededGenerator(seed: 39)
        for number in 0..<files {
            try await TemporaryFolder.use { folder in
                let path = folder + "/store.db"
                var bytes = store.whole
                for _ in 0..<Int.random(in: 1...24, using: &random) {
                    let place = Int.random(in: 100..<bytes.count, using: &random)
                    bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                }
                try bytes.write(to: URL(filePath: path))
                check(try await store.findings(in: path), "file \(number)")
            }
        }
    }

    @Test("A missing step of the tables is a sentence", arguments: ["1 deliveries", "8 archive", "13 outbox entries"])
    func migrations(step: String) async throws {
        let store = try await DamagedStore.make()
        try await store.use { path in
            _ = try await plant("DELETE FROM grdb_migrations WHERE identifier = '\(step)'", path)
            let findings = try await store.findings(in: path)
            let opening = try #require(findings.opening)
            #expect("\(opening)".contains(path), "\(opening)")
            #expect(findings.copying != nil)
            if step != "13 outbox entries" { #expect("\(opening)".contains("lacks \(step)"), "\(opening)") }
        }
    }

    @Test(
        "A part of the schema that is missing or has another form is found by backup, restore, copy and start",
        arguments: [
            ("DROP TABLE archive", "the table archive is missing"), ("DROP TABLE moves", "the table moves is missing"),
            ("DROP TABLE events", "the table events is missing"), ("DROP TABLE state", "the table state is missing"),
            ("DROP INDEX waiting", "the index waiting is missing"),
            ("DROP INDEX outbox_entries_of_line", "the index outbox_entries_of_line is missing"),
            ("DROP TRIGGER outbox_entry_added", "the trigger outbox_entry_added is missing"),
            ("ALTER TABLE deliveries DROP COLUMN record", "the table deliveries has another form"),
            (
                "DELETE FROM grdb_migrations WHERE identifier = '2 devices'",
                "its list of steps (grdb_migrations) lacks 2 devices"
            ),
            (
                "DELETE FROM grdb_migrations WHERE identifier = '13 outbox entries'",
                "its list of steps (grdb_migrations) lacks 13 outbox entries"
            ),
            (
                "DELETE FROM grdb_migrations WHERE identifier = '14 records'",
                "its list of steps (grdb_migrations) lacks 14 records"
            ),
            (
                "DELETE FROM grdb_migrations WHERE identifier = '18 campaigns'",
                "its list of steps (grdb_migrations) lacks 18 campaigns"
            ),
            (
                "DELETE FROM grdb_migrations WHERE identifier = '19 series'",
                "its list of steps (grdb_migrations) lacks 19 series"
            ),
            (
                "DELETE FROM grdb_migrations WHERE identifier = '20 dead ends'",
                "its list of steps (grdb_migrations) lacks 20 dead ends"
            ),
            ("DROP TABLE series", "the table series is missing"),
            (
                "UPDATE grdb_migrations SET identifier = '6 arrivals%5 op' WHERE identifier = '6 arrivals'",
                "its list of steps (grdb_migrations) lacks 6 arrivals"
            ),
            ("DELETE FROM grdb_migrations", "its list of steps (grdb_migrations) is empty"),
            ("DROP TABLE grdb_migrations", "its list of steps (grdb_migrations) is empty"),
        ]
    )
    func schema(change: String, what: String) async throws {
        let store = try await DamagedStore.make()
        try await store.use { path in
            _ = try await plant(change, path)
            let findings = try await store.findings(in: path)
            for (action, error) in [
                ("backup", findings.backup.map { "\($0)" }), ("restore", findings.restoring.map { "\($0)" }),
                ("copy", findings.copying.map { "\($0)" }), ("start", findings.opening.map { "\($0)" }),
            ] {
                // A copy without the table of small values has no place for the time of a backup.
                if action == "backup", change == "DROP TABLE state" { continue }
                #expect(error?.contains(what) == true, "\(action): \(error ?? "it worked")")
            }
            let opening = findings.opening.map { "\($0)" } ?? ""
            #expect(opening.contains("the store \(path) is damaged") && opening.contains("chapar restore BACKUP"))
        }
    }

    @Test("A small value that no question can read is found at the start")
    func state() async throws {
        let store = try await DamagedStore.make()
        try await store.use { path in
            _ = try await plant("UPDATE state SET value = 9223372036854775806", path)
            let opening = try await store.findings(in: path).opening.map { "\($0)" }
            #expect(opening?.contains("state.value holds the number 9223372036854775806") == true, "\(opening ?? "")")
        }
    }

    @Test("The error for a damaged file names the file, the value and the fix")
    func sentence() async throws {
        let store = try await DamagedStore.make()
        try await store.use { path in
            _ = try await plant("UPDATE flows SET backend = x'FF'", path)
            let findings = try await store.findings(in: path)
            guard case .damaged(let opening)? = findings.opening else {
                Issue.record("\(String(describing: findings.opening))")
                return
            }
            for part in [path, "flows.backend holds bytes where a text belongs", "chapar restore"] {
                #expect(opening.contains(part), "\(opening)")
            }
            for error in [findings.backup.map { "\($0)" }, findings.restoring.map { "\($0)" }] {
                #expect(error?.contains("flows.backend holds bytes") == true, "\(error ?? "it worked")")
            }
            #expect(findings.copying.map { "\($0)" }?.contains("flows.backend holds bytes") == true)
        }
    }

    @Test("An unreadable row is damaged, and the rows beside it can be read")
    func beside() async throws {
        let store = try await DamagedStore.make()
        try await store.use { path in
            let (bad, good) = (store.filling.notifications[4], store.filling.notifications[5])
            _ = try await plant("UPDATE deliveries SET state = 'x' WHERE id = \(bad.rawValue + 1)", path)
            let opened = try SQLiteStore(SQLiteStoreOptions(path: path))
            for question in [
                { _ = try await opened.notification(bad) },
                { _ = try await opened.deliveries(of: bad, after: nil, limit: 10) },
            ] as [() async throws -> Void] {
                let error = await #expect(throws: StoreError.self) { try await question() }
                #expect(error == .damaged("deliveries.state holds a text where a whole number belongs"))
            }
            #expect(try await opened.notification(good) != nil)
            #expect(try await opened.deliveries(of: good, after: nil, limit: 10).count == 1)
            await opened.close()
        }
    }

    @Test("A whole file, as a killed gateway leaves it, is copied, restored and read to the end")
    func whole() async throws {
        let store = try await DamagedStore.make()
        try await store.use { path in
            let findings = try await store.findings(in: path)
            #expect(findings.backup == nil && findings.restoring == nil && findings.copying == nil)
            #expect(findings.opening == nil && findings.answers.isEmpty)
        }
    }

    @Test("A campaign whose row is damaged stops no other, and is named when it is asked for")
    func campaign() async throws {
        let store = try await DamagedStore.make()
        try await store.use { path in
            _ = try await plant("INSERT INTO campaigns SELECT id + 1, version, ended, x'FF' FROM campaigns", path)
            let opened = try SQLiteStore(SQLiteStoreOptions(path: path), logger: RecordedLog().logger)
            let open = try await opened.openCampaigns(limit: 10)
            #expect(open.count == 1)
            let damaged = NotificationID(rawValue: (open.first?.id.rawValue ?? 0) + 1)
            await #expect(throws: StoreError.self) { try await opened.campaign(damaged) }
            await opened.close()
        }
    }

    // MARK: Parts

    /// Checks that hold for every file, damaged or not.
    private func check(_ found: DamagedStore.Findings, _ what: String) {
        for error in found.answers + [found.opening].compactMap({ $0 }) {
            if case .damaged = error { continue }
            Issue.record("\(what): \(error)")
        }
        guard found.backup == nil else { return }
        #expect(found.opening == nil, "\(what): a checked copy of it does not open")
        #expect(found.answers.isEmpty, "\(what): a checked copy of it cannot be read")
        #expect(
            found.restoring == nil && found.copying == nil,
            "\(what): \(found.restoring ?? found.copying ?? StoreError.closed)"
        )
    }

    /// Changes a file; false when its constraints do not let it, or nothing is there to be changed.
    private func plant(_ sql: String, _ path: String) async throws -> Bool {
        let file = try DatabaseQueue(path: path)
        defer { try? file.close() }
        return try await file.writeWithoutTransaction { db in
            do {
                // Only rows can be damaged in spite of their types.
                if sql.hasPrefix("UPDATE") { return try db.damage(sql) > 0 }
                try db.execute(sql: sql)
            } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
                return false
            }
            return db.changesCount > 0
        }
    }
}
