extension Schema {
    /// The records of notifications, in place of the columns that no statement filters, joins or orders by.
    ///
    /// * `notifications.record`: the form of `NotificationRecord`. `waiting.plan` is an index of its plans.
    ///
    /// The expression of `USING` builds the form from the former columns, so each partition is written once, without
    /// dead rows. Such an expression may have no subquery: a function, which the step drops again, makes the fields of
    /// several plans.
    ///
    /// A program that has only the former columns cannot run beside this step.
    static let records = """
        CREATE FUNCTION chapar.plan_fields(plans text) RETURNS bytea LANGUAGE sql STABLE AS $$
            SELECT string_agg(\(field(2, "line")), ''::bytea ORDER BY place) FROM (
                SELECT convert_to(entry, 'UTF8'), place
                FROM unnest(string_to_array(plans, chr(10))) WITH ORDINALITY AS e(entry, place)
            ) AS l(line, place)
        $$;
        ALTER TABLE chapar.notifications ALTER COLUMN content TYPE bytea USING (
            '\\x010108'::bytea || \(acceptedBytes)
            || CASE WHEN strpos(plans, chr(10)) > 0 THEN chapar.plan_fields(plans)
                ELSE \(field(2, "convert_to(plans, 'UTF8')")) END
            || \(field(3, "content"))
        );
        ALTER TABLE chapar.notifications RENAME COLUMN content TO record;
        ALTER TABLE chapar.notifications DROP COLUMN accepted, DROP COLUMN plans;
        DROP FUNCTION chapar.plan_fields(text)
        """

    /// The expression of the time of acceptance as eight bytes, the lowest first; the server's form has the highest
    /// first.
    private static let acceptedBytes = (1...8).reversed().map { "substr(int8send(accepted), \($0), 1)" }
        .joined(separator: " || ")

    /// Returns the expression of a field of a record, whose bytes an expression gives.
    private static func field(_ tag: Int, _ bytes: String) -> String {
        "'\\x0\(tag)'::bytea || \(length(of: bytes)) || \(bytes)"
    }

    /// Returns the expression of the length of bytes: seven bits a byte, the lowest first; the highest bit is set in
    /// all but the last.
    private static func length(of bytes: String) -> String {
        let count = "octet_length(\(bytes))"
        // The server holds values below 2^30 bytes, whose lengths take five bytes.
        let forms = (0..<5).map { last in
            (0...last).map { place in
                let part = "\(count) >> \(7 * place)"
                return "substr(int4send(\(place < last ? "\(part) & 127 | 128" : part)), 4, 1)"
            }.joined(separator: " || ")
        }
        let short = forms.dropLast().enumerated().map { "WHEN \(count) < \(1 << (7 * ($0 + 1))) THEN \($1)" }
        return "(CASE \(short.joined(separator: " ")) ELSE \(forms[4]) END)"
    }
}
