extension Schema {
    /// The calls to platforms about devices, and the attributes that apps reported.
    ///
    /// * `operations.number`: the order of acceptance.
    /// * `operations.due`: when it can be claimed, or when its lease ends; null while an older one of its line waits. A
    ///   line is what waits for one device at one backend.
    /// * `operations.leased`: 1 while a worker has it, or when it had it at the death of the process; 2 when it is
    ///   unclaimed and waits because the platform asked for it; else 0.
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
