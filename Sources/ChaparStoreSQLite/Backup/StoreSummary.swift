package import Foundation
import GRDB
import ChaparCore

/// The contents of a copy of a store, found by reading all of it.
package struct StoreSummary: Sendable, Hashable {
    /// The name of the last applied step, such as `9 outbox`.
    package var schema: String
    /// The version of the program that opened the store last.
    package var version: String?
    /// The time of the copy, if `chapar backup` made it.
    package var takenAt: Date?
    /// The bytes of the file.
    package var bytes: Int64
    /// The devices of the registry.
    package var devices: Int
    /// The deliveries that wait to be sent, those that were being sent included.
    package var waiting: Int
    /// The changes of devices and the outbox entries that wait for platforms.
    package var operations: Int

    /// The name of the small value with the time of the copy.
    static let takenName = "backup.taken"

    /// Checks every page and reads every row of a closed file, and checks that this version can use its tables; returns
    /// its contents.
    ///
    /// The file is only read. It must be in SQLite's plain form, as ``StoreBackup`` leaves it, or writable.
    static func verify(_ path: String) throws(StoreFileError) -> StoreSummary {
        do {
            var configuration = Configuration()
            configuration.readonly = true
            let file = try DatabaseQueue(path: path, configuration: configuration)
            defer { try? file.close() }
            return try file.read { db in
                try StoreAudit.run(db)
                return try StoreSummary(db, path: path)
            }
        } catch let error as StoreFileError {
            throw error
        } catch {
            switch StoreError(reading: error) {
            case .damaged(let what): throw .failed("it is damaged, or no database: \(what)")
            case let other: throw .failed(error is StoreError ? "\(other)" : "cannot read it: \(other)")
            }
        }
    }

    private init(_ db: Database, path: String) throws {
        let steps = try Schema.migrator.appliedIdentifiers(db)
        try Schema.refuseNewer(db, path: path)
        guard let last = Schema.migrator.migrations.last(where: steps.contains),
            steps.contains(Schema.migrator.migrations[0])
        else { throw StoreFileError.failed("it is a database, but not a store of this program") }
        func count(_ sql: String, since step: String) throws -> Int {
            steps.contains(step) ? Int(try db.number(sql) ?? 0) : 0
        }
        func text(_ name: String) throws -> String? {
            try db.value(named: name).map { String(decoding: $0, as: UTF8.self) }
        }
        schema = last
        version = try text(Schema.versionName)
        takenAt = try text(Self.takenName).flatMap { RFC3339.parse($0) }
        let (pages, pageBytes) = (
            try Int64.fetchOne(db, sql: "PRAGMA page_count") ?? 0, try Int64.fetchOne(db, sql: "PRAGMA page_size") ?? 0
        )
        bytes = pages.multiplied(clamping: pageBytes)
        devices = try count("SELECT count(*) FROM devices", since: "2 devices")
        operations =
            try count("SELECT count(*) FROM \(Schema.entryTable(steps))", since: "5 operations")
            + count("SELECT count(*) FROM outbox_changes", since: "9 outbox")
        waiting = try count("SELECT count(*) FROM deliveries WHERE state = 0", since: "1 deliveries")
        guard steps.contains("6 arrivals") else { return }
        // The newest deliveries may have no rows yet.
        let arrivals = try db.statement("SELECT packed FROM arrivals ORDER BY number")
        while try arrivals.next() {
            let packed = try arrivals.bytes(0)
            let numbers =
                steps.contains(Schema.recordsStep)
                ? StagedRowPacking.unpack(packed)?.map(\.id) : FormerStagedRows.unpack(packed)?.map(\.id)
            guard let numbers else { throw StagedRowPacking.damage }
            let archived = steps.contains("8 archive") ? try OpenedStore.archived(numbers, db) : []
            for number in numbers where !archived.contains(number) {
                if try db.number("SELECT 1 FROM deliveries WHERE id = ?1", number) == nil { waiting += 1 }
            }
        }
    }
}
