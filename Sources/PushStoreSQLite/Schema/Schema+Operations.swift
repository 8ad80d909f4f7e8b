extension Schema {
    /// What platforms are to be told about devices, and what apps reported about theirs.
    ///
    /// * `operations.number`: the order of acceptance.
    /// * `operations.due`: when it can be claimed, under a lease when that ends; null while an older one of its line
    ///   waits. A line is what waits for one device at one backend.
    /// * `operations.leased`: 1 while a worker has it, or when it had it at the death of the process; 2 when nobody has
    ///   it and it waits for as long as the platform asked; else 0.
    /// * `devices.attributes`: a JSON object, null without any.
    ///
    /// Times are milliseconds since 1970.
    static let operations = """
        CREATE TABLE operations (
            number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, backend TEXT NOT NULL, device TEXT NOT NULL,
            user TEXT, kind TEXT NOT NULL, body TEXT, at INTEGER NOT NULL, attempts INTEGER NOT NULL,
            due INTEGER, leased INTEGER NOT NULL
        );
        CREATE INDEX operations_due ON operations (backend, due, number) WHERE due IS NOT NULL;
        CREATE INDEX operation_lines ON operations (backend, device, number);
        CREATE INDEX operations_of ON operations (device, number);
        CREATE INDEX operations_leased ON operations (number) WHERE leased = 1;
        ALTER TABLE devices ADD COLUMN attributes TEXT;
        """
}
