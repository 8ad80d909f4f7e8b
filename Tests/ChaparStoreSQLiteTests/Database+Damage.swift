import GRDB

extension Database {
    /// Changes rows as damage would, and returns how many: the types of strict tables are not checked meanwhile.
    func damage(_ sql: String) throws -> Int {
        try execute(
            sql: """
                CREATE TEMP TABLE strict AS SELECT name, sql FROM main.sqlite_schema
                WHERE type = 'table' AND sql LIKE '% STRICT';
                PRAGMA writable_schema = ON;
                UPDATE main.sqlite_schema SET sql = substr(sql, 1, length(sql) - iif(sql LIKE '%, STRICT', 8, 7))
                WHERE name IN (SELECT name FROM temp.strict);
                PRAGMA writable_schema = RESET;
                """
        )
        let result = Result { try execute(sql: sql) }
        let changes = changesCount
        try execute(
            sql: """
                PRAGMA writable_schema = ON;
                UPDATE main.sqlite_schema AS m SET sql = (SELECT s.sql FROM temp.strict s WHERE s.name = m.name)
                WHERE name IN (SELECT name FROM temp.strict);
                PRAGMA writable_schema = RESET;
                DROP TABLE temp.strict;
                """
        )
        try result.get()
        return changes
    }
}
