import Foundation
import GRDB
public import ChaparCore

/// Reads of a store that another process may have open: nothing is changed.
package enum StoreLook {
    /// Returns the small values whose names begin with a prefix.
    package static func values(in path: String, beginningWith prefix: String) throws(StoreFileError) -> [String:
        [UInt8]]
    {
        do {
            var configuration = Configuration()
            configuration.readonly = true
            configuration.busyMode = .timeout(5)
            let file = try DatabaseQueue(path: path, configuration: configuration)
            defer { try? file.close() }
            return try file.read { db in
                guard try db.tableExists("state") else { return [:] }
                var found: [String: [UInt8]] = [:]
                let rows = try Self.rows(db, "name, value", prefix)
                while try rows.next() { found[try rows.text(0)] = try rows.bytes(1) }
                return found
            }
        } catch {
            throw .failed("cannot read the store \(path): \(error)")
        }
    }

    static func rows(_ db: Database, _ columns: String, _ prefix: String) throws(StoreError) -> SQLStatement {
        let rows = try db.statement("SELECT \(columns) FROM state WHERE name >= ?1 AND name < ?2 ORDER BY name")
        rows.bind(1, prefix)
        rows.bind(2, prefix + "\u{10FFFF}")
        return rows
    }
}

extension SQLiteStore {
    /// Returns the names of small values that begin with a prefix.
    public func stateNames(beginningWith prefix: String) async throws(StoreError) -> [String] {
        try await read { db in
            let rows = try StoreLook.rows(db, "name", prefix)
            var names: [String] = []
            while try rows.next() { names.append(try rows.text(0)) }
            return names
        }
    }
}
