extension Schema {
    /// The quotas that nodes share (``QuotaTable``).
    ///
    /// * `quotas.fill`, `ramp`: how full the bucket was and how far its ramp had risen, from 0 to 1, for any rate.
    /// * `quotas.filled_at`: when it was so, in microseconds since 1970 by the database's clock.
    static let quotas = """
        CREATE TABLE chapar.quotas (
            name text PRIMARY KEY, fill float8 NOT NULL, ramp float8 NOT NULL, filled_at bigint NOT NULL
        ) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)
        """
}
