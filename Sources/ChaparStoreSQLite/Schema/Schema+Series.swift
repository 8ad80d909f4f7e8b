extension Schema {
    /// Counts over time (``SeriesTable``).
    ///
    /// * `series.scale`: 0 for a row with the minutes of an hour, 1 for one with the hours of a day.
    /// * `series.start`: the hours, or the days, from 1970 to the beginning of the row, by the wall clock.
    /// * `series.backend`: empty in the rows of the whole gateway.
    /// * `series.run`: a number of the run of the gateway that counted, 0 in hour rows.
    /// * `series.counts`: the counts in the form of `SeriesBlock.stored`.
    static let series = """
        CREATE TABLE series (
            scale INTEGER NOT NULL, start INTEGER NOT NULL, backend TEXT NOT NULL, run INTEGER NOT NULL,
            counts BLOB NOT NULL, PRIMARY KEY (scale, start, backend, run)
        ) STRICT, WITHOUT ROWID;
        """
}
