internal import ChaparQueue

extension Schema {
    /// The tables and the index by which deliveries are found.
    ///
    /// * `search_keys`: for each key of a delivery a `SearchKey.hash`.
    /// * `handled`: bad ends that a person has handled, or that were sent again.
    /// * `results_dead`: the deliveries that ended as failed, expired or unknown.
    ///
    /// No keys are added for older deliveries: the step notes from which number on they are complete. A program without
    /// these tables would accept notifications that are not found, so it cannot run beside this step.
    static let search = """
        CREATE TABLE chapar.search_keys (hash bigint NOT NULL, delivery bigint NOT NULL) PARTITION BY RANGE (delivery);
        CREATE INDEX search_keys_hash ON chapar.search_keys (hash, delivery);
        CREATE TABLE chapar.handled (
            id bigint NOT NULL PRIMARY KEY, acknowledged boolean NOT NULL, resent boolean NOT NULL
        ) PARTITION BY RANGE (id);
        CREATE INDEX results_dead ON chapar.results (id) WHERE state IN (4, 5, 7);
        INSERT INTO chapar.state (name, value)
        SELECT '\(SearchStart.name)', convert_to((id + count)::text, 'UTF8') FROM chapar.notifications
        ORDER BY id DESC LIMIT 1
        """
}
