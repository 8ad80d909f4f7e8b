import GRDB
import ChaparCore

/// Compares the tables, indexes and triggers of a file with those that its steps make.
///
/// SQLite's own checks do not find that a table was dropped. Additional parts of a file do no harm and are not checked.
enum SchemaCheck {
    private struct Entry: Hashable {
        var kind: String
        var name: String
    }

    /// Reads only the list of steps and `sqlite_master`, and no row of the store's tables: it takes as long for every
    /// file.
    ///
    /// A file of an older version is compared with what its own steps make. A file of a newer version, or one that no
    /// step has changed, is not checked.
    ///
    /// - Throws: `StoreError.damaged`, which names what is missing.
    static func run(_ db: Database) throws {
        let migrator = Schema.migrator
        let applied = try migrator.appliedIdentifiers(db)
        guard applied.isSubset(of: migrator.migrations) else { return }
        let steps = migrator.migrations.filter(applied.contains)
        guard let last = steps.last else {
            // A new file, or that of another program.
            guard try db.tableExists("deliveries"), try db.tableExists("marks") else { return }
            throw StoreError.damaged("its list of steps (grdb_migrations) is empty")
        }
        // GRDB ends the process when a step in the middle is missing.
        if !migrator.migrations.starts(with: steps) { try requireSteps(applied) }
        let model = try DatabaseQueue()
        defer { try? model.close() }
        try migrator.migrate(model, upTo: last)
        let (expected, found) = (try model.read(entries), try entries(db))
        if last != migrator.migrations.last {
            // An entry that only a missing step makes must not exist yet: that step would fail.
            try migrator.migrate(model)
            let later = try model.read(entries).keys.filter { expected[$0] == nil }
            if later.contains(where: { found[$0] != nil }) { try requireSteps(applied) }
        }
        // Tables first: with a table its indexes and triggers are gone.
        let parts = expected.sorted {
            ($0.key.kind != "table" ? 1 : 0, $0.key.name) < ($1.key.kind != "table" ? 1 : 0, $1.key.name)
        }
        for (entry, sql) in parts where found[entry] != sql {
            let what = found[entry] == nil ? "is missing" : "has another form than this program gives it"
            throw StoreError.damaged("the \(entry.kind) \(entry.name) \(what)")
        }
    }

    /// Requires every step of this program in a file's list of steps.
    ///
    /// - Throws: `StoreError.damaged`, which names the steps that the list lacks.
    static func requireSteps(_ applied: Set<String>) throws {
        let missing = Schema.migrator.migrations.filter { !applied.contains($0) }
        guard !missing.isEmpty else { return }
        throw StoreError.damaged("its list of steps (grdb_migrations) lacks \(missing.joined(separator: ", "))")
    }

    /// Returns the SQL of each part, without the blanks and quotation marks that versions of SQLite write differently.
    private static func entries(_ db: Database) throws -> [Entry: String] {
        let rows = try db.statement("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        var entries: [Entry: String] = [:]
        while try rows.next() {
            let (kind, name) = (try rows.text(0), try rows.text(1))
            if name.hasPrefix("sqlite_") { continue }
            entries[Entry(kind: kind, name: name)] = try rows.text(2).filter { !$0.isWhitespace && $0 != "\"" }
        }
        return entries
    }
}
