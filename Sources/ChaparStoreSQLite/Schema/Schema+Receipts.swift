extension Schema {
    /// Deliveries for which a platform's receipt is expected.
    ///
    /// * `message`: a hash of the backend's name and the platform's id, which all recipients of a request may share.
    /// * `token`: a hash of the device token, 0 without one.
    ///
    /// Rows are removed with their deliveries.
    static let receipts = """
        CREATE TABLE awaited (delivery INTEGER PRIMARY KEY, message INTEGER NOT NULL, token INTEGER NOT NULL);
        CREATE INDEX awaiting ON awaited (message, token);
        """
}
