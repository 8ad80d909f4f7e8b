internal import CChaparPostgres

extension PostgresStore {
    /// The version of the libpq library that is loaded, such as `15.18`.
    package static var libpqVersion: String {
        let number = PQlibVersion()
        return "\(number / 10_000).\(number % 10_000)"
    }
}
