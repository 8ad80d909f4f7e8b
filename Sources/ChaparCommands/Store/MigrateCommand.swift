import ArgumentParser
import ChaparCore
import ChaparGateway
import ChaparQueue
import ChaparStoreSQLite

/// `chapar migrate`: brings the store's tables up to date before a gateway does, or shows the steps that it would run.
struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Bring the store's tables up to date, or show what that would change (--plan).",
        discussion: """
            A gateway does the same at its start. With --plan nothing is changed: exit code 0 when nothing is to be done, 1 when
            there are steps. Of a PostgreSQL store the statements are shown, and whether gateways of the version before can go on
            meanwhile; a database file must not be in use, but for --plan. What is done, and how long each step took, goes to stderr.
            Exit code 3 when a newer version of the program has changed the store, 75 when the store cannot be used as it is now.
            """
    )

    @Flag(help: "Only show the steps that are missing.")
    var plan = false

    @OptionGroup var file: ConfigOption
    @OptionGroup var form: OutputForm

    func run() async throws {
        let place = try StorePlace(file.load().configuration.store)
        let steps = try await place.plan()
        if !plan, !steps.isEmpty { try await place.migrate { Shell.complain($0) } }
        show(steps, place.name)
        if plan, !steps.isEmpty { throw ExitStatus.failure }
    }

    private func show(_ steps: [MigrationStep], _ store: String) {
        if form.isJSON {
            let list = steps.map { step -> JSONValue in
                [
                    "name": .string(step.name), "statements": step.statements.map { .string($0) } ?? .null,
                    "is_compatible": .bool(step.isCompatible),
                ]
            }
            return Shell.print(["store": .string(store), "applied": .bool(!plan), "steps": .array(list)])
        }
        for step in steps {
            Shell.print(
                "\(plan ? "missing" : "applied")  \(step.name)\(step.isCompatible ? "  (older gateways can go on)" : "")"
            )
            if plan, let statements = step.statements { Shell.print(statements + ";\n") }
        }
        Shell.print(
            steps.isEmpty ? "\(store) is up to date." : "\(store) \(plan ? "lacks" : "has got") \(steps.count) steps."
        )
    }
}
