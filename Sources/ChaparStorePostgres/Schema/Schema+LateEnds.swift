extension Schema {
    /// The bounds of days whose deliveries ended later (``LateEnds``), in place of the index by which they were found.
    static let lateEnds = """
        INSERT INTO chapar.marks (name, value)
        SELECT 'ended_d' || substr(c.relname, length('results_d') + 1), max(r.changed) + 1
        FROM chapar.results r JOIN pg_class c ON c.oid = r.tableoid GROUP BY c.relname;
        DROP INDEX chapar.results_changed
        """
}
