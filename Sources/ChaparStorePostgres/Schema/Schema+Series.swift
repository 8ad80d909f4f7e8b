extension Schema {
    /// Counts over time.
    ///
    /// * `series.scale`: 0 for a row with the minutes of an hour, 1 for one with the hours of a day.
    /// * `series.start`: the hours, or the days, from 1970 to the beginning of the row, by the wall clock.
    /// * `series.backend`: empty in the rows of the whole gateway.
    /// * `series.run`: a number of the run of the gateway that counted, 0 in hour rows, which sum up all runs.
    /// * `series.counts`: the counts in the form of `SeriesBlock.stored`.
    ///
    /// Each gateway replaces its row of the hour once a minute, so rows have room for their next forms. Gateways of the
    /// version before run on beside this step: they count nothing.
    static let series = """
        CREATE TABLE chapar.series (
            scale bigint NOT NULL, start bigint NOT NULL, backend text COLLATE "C" NOT NULL, run bigint NOT NULL,
            counts bytea NOT NULL, PRIMARY KEY (scale, start, backend, run)
        ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
        """
}
