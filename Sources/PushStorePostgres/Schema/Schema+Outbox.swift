extension Schema {
    /// Changes of devices that are not planned yet, and what platforms are to be told.
    static let outbox = "SELECT 1"
}
