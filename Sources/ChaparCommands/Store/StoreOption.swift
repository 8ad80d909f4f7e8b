import ArgumentParser
import ChaparCore
import ChaparGateway

/// The flags that name the store whose database a command works on.
struct StoreOption: ParsableArguments {
    @OptionGroup var file: ConfigOption

    @Option(
        help: "The database file; then the configuration, which may need secrets of the environment, is not read.",
        completion: .file()
    )
    var store: String?

    /// Returns the path of the database, and the number of bytes that stay free on its disk.
    func find() throws -> (path: String, minimumFreeBytes: Int64) {
        if let store { return (FileLink.target(of: store), 0) }
        let settings = try file.load().configuration.store
        guard settings.kind == .sqlite else {
            throw CommandFailure(
                """
                the store is a PostgreSQL database: copy it with its own tools, such as pg_dump --schema=\(settings.postgres.schema), \
                or, while no gateway uses it, with store copy
                """,
                .usage
            )
        }
        return (settings.path, settings.minimumFreeBytes)
    }
}
