extension Schema {
    /// The device registry.
    static let devices = "SELECT 1"
}
