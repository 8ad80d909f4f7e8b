import Foundation
import GRDB
public import PushCore

/// A look into a store that another process may have: nothing is changed.
package enum StoreLook {
    /// The small values whose names begin with a text.
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
                for row in try Row.fetchAll(db, sql: Self.range("name, value"), arguments: Self.bounds(prefix)) {
                    let value: Data = row["value"]
                    found[row["name"]] = Array(value)
                }
                return found
            }
        } catch {
            throw .failed("cannot read the store \(path): \(error)")
        }
    }

    static func range(_ columns: String) -> String {
        "SELECT \(columns) FROM state WHERE name >= ? AND name < ? ORDER BY name"
    }

    static func bounds(_ prefix: String) -> StatementArguments { [prefix, prefix + "\u{10FFFF}"] }
}

extension SQLiteStore {
    /// The names of small values that begin with a text.
    public func stateNames(beginningWith prefix: String) async throws(StoreError) -> [String] {
        try await read {
            try String.fetchAll($0, sql: StoreLook.range("name"), arguments: StoreLook.bounds(prefix))
        }
    }
}
