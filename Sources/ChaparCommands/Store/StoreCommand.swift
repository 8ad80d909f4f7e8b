import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway
import ChaparQueue
import ChaparStoreSQLite

#if Postgres
    import ChaparStorePostgres
#endif

/// `chapar store`: commands on whole stores.
struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Copy everything from one store to another.",
        subcommands: [StoreCopyCommand.self]
    )
}

/// `chapar store copy`: copies everything from one store to another, of either kind, and compares them at the end.
struct StoreCopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy",
        abstract: "Copy everything from one store to another, of either kind, and check it.",
        discussion: """
            Stop every gateway that uses either store. A store is a configuration file (.yaml, .yml or .json), of which the
            section store is used, a database file, or a postgres:// URL; the password may come from PGPASSWORD. The target must
            be empty. A copy that was stopped goes on where it was when the same command is run again; until it is done, no
            gateway opens the target. Numbers stay, and so does what is encrypted. What was being sent counts as perhaps sent.
            At the end all records of both stores are read again, and of each kind their number and a checksum over them are
            compared; exit code 1 when they differ.
            """
    )

    @Option(help: "The store to copy; it keeps what it has.", completion: .file())
    var from: String

    @Option(help: "The store to copy to, which is empty.", completion: .file())
    var to: String

    @Option(help: "The schema of a postgres:// URL in --from.")
    var fromSchema = "chapar"

    @Option(help: "The schema of a postgres:// URL in --to.")
    var toSchema = "chapar"

    @OptionGroup var form: OutputForm

    func run() async throws {
        do {
            try await copy()
        } catch let refusal as CopyRefusal {
            throw CommandFailure(refusal.description)
        }
    }

    private func copy() async throws {
        let interruption = await Interruption()
        let (source, target) = (try StorePlace(from, schema: fromSchema), try StorePlace(to, schema: toSchema))
        let from = try await source.open(isTarget: false)
        do {
            let to = try await target.open(isTarget: true)
            do {
                try await copy(StoreCopy(from: from, to: to), until: interruption)
            } catch {
                await to.close()
                throw error
            }
            await to.close()
        } catch {
            await from.close()
            throw error
        }
        await from.close()
    }

    private func copy(_ copy: StoreCopy, until interruption: Interruption) async throws {
        let isShown = !form.isJSON
        let counts: [(kind: CopyKind, count: Int)]
        do {
            counts = try await withThrowingTaskGroup(of: [(kind: CopyKind, count: Int)]?.self) { group in
                group.addTask {
                    await interruption.wait()
                    return nil
                }
                group.addTask {
                    var bar = ProgressBar(isShown: isShown)
                    return try await copy.run {
                        bar.update(done: $0.records, fraction: $0.fraction, isLast: $0.fraction >= 1)
                    }
                }
                defer { group.cancelAll() }
                while let result = try await group.next() {
                    if let result { return result }
                    group.cancelAll()
                }
                throw CancellationError()
            }
        } catch is CancellationError {
            throw CommandFailure("stopped: the same command goes on where it was", .tryLater)
        }
        show(counts, copy)
    }

    private func show(_ counts: [(kind: CopyKind, count: Int)], _ copy: StoreCopy) {
        if form.isJSON {
            var kinds = JSONObject()
            for (kind, count) in counts { kinds[kind.rawValue] = .integer(Int64(count)) }
            Shell.print(["from": .string(copy.source.name), "to": .string(copy.target.name), "records": .object(kinds)])
            return
        }
        var table = TextTable("KIND", "RECORDS")
        for (kind, count) in counts { table.add(kind.rawValue, "\(count)") }
        table.print()
        Shell.print("\(copy.target.name) has everything of \(copy.source.name), compared by counts and checksums.")
    }
}

/// The store that a command works on.
enum StorePlace {
    case sqlite(SQLiteStoreOptions)
    #if Postgres
        case postgres(PostgresOptions)
    #endif

    /// Reads a store from the name of a configuration file or a database file, or from a URL.
    init(_ text: String, schema: String) throws {
        if text.hasPrefix("postgres://") || text.hasPrefix("postgresql://") {
            var store = GatewayConfiguration.Store()
            store.kind = .postgres
            store.postgres.url = Secret(text)
            store.postgres.schema = schema
            self = try StorePlace(store)
        } else if ["yaml", "yml", "json"].contains(URL(filePath: text).pathExtension) {
            self = try StorePlace(BackendLoader.offline().load(text).configuration.store)
        } else {
            var store = GatewayConfiguration.Store()
            store.path = text
            self = try StorePlace(store)
        }
    }

    /// Makes the place of the store that a configuration names.
    init(_ store: GatewayConfiguration.Store) throws {
        switch store.kind {
        case .sqlite: self = .sqlite(SQLiteStoreOptions(store))
        case .postgres:
            #if Postgres
                self = .postgres(try PostgresOptions(store))
            #else
                throw StoreOpening.noPostgres
            #endif
        }
    }

    func open(isTarget: Bool) async throws -> any CopyStore {
        switch self {
        case .sqlite(let options): return try SQLiteCopyStore(options, isTarget: isTarget)
        #if Postgres
            case .postgres(let options): return try await PostgresCopyStore.open(options, isTarget: isTarget)
        #endif
        }
    }

    /// The store's name in messages: the path, or the server and the schema.
    var name: String {
        switch self {
        case .sqlite(let options): options.path
        #if Postgres
            case .postgres(let options): "\(options), schema \(options.schema)"
        #endif
        }
    }

    /// Returns the migration steps that its tables lack; changes nothing.
    func plan() async throws -> [MigrationStep] {
        switch self {
        case .sqlite(let options): return try ChaparStoreSQLite.StoreMigration.plan(options.path)
        #if Postgres
            case .postgres(let options): return try await ChaparStorePostgres.StoreMigration.plan(options)
        #endif
        }
    }

    /// Brings its tables up to date, and reports the progress to `report`.
    func migrate(report: @Sendable (String) -> Void) async throws {
        switch self {
        case .sqlite(let options): try ChaparStoreSQLite.StoreMigration.apply(options, report: report)
        #if Postgres
            case .postgres(let options): try await ChaparStorePostgres.StoreMigration.apply(options, report: report)
        #endif
        }
    }
}
