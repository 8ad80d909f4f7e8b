import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway
import ChaparStoreSQLite

/// `chapar restore`: puts a backup in place of the store, while no gateway runs.
struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Put a backup in the place of the store, while no gateway has it.",
        discussion: """
            The backup is checked before anything is changed, and the old database is kept under another name.
            What waited when the backup was taken is sent when the gateway starts, also if it was sent since;
            with --expire-waiting it ends as expired.
            """
    )

    @Argument(help: "The backup.", completion: .file())
    var backup: String

    @Flag(help: "End what waits in the backup as expired, so that nothing is sent a second time.")
    var expireWaiting = false

    @OptionGroup var store: StoreOption
    @OptionGroup var form: OutputForm

    func run() async throws {
        let interruption = await Interruption()
        let path = try store.find().path
        var restoration = StoreRestore(of: backup, to: path)
        restoration.expiresWaiting = expireWaiting
        let result = try await StoreCopying.run(until: interruption) { [restoration] isCancelled in
            try restoration.run(now: Date(), isCancelled: isCancelled)
        }
        guard !form.isJSON else {
            return Shell.print(
                result.summary.json([
                    "file": .string(backup), "store": .string(path),
                    "previous": result.previous.map { .string($0) } ?? .null, "expires_waiting": .bool(expireWaiting),
                ])
            )
        }
        let taken = result.summary.takenAt.map { ", taken \(RFC3339.string($0))" } ?? ""
        Shell.print("\(path) is now \(backup)\(taken): \(result.summary.sentence).")
        if let previous = result.previous {
            Shell.print("The old database is \(previous): remove it when it is no longer needed.")
        }
        for line in warnings(result.summary, path) { Shell.print(line) }
    }

    private func warnings(_ summary: StoreSummary, _ path: String) -> [String] {
        var lines: [String] = []
        let waiting = StoreSummary.count(summary.waiting, "delivery waits", "deliveries wait")
        if summary.waiting > 0 {
            lines.append(
                expireWaiting
                    ? "\(waiting) in it and will end as expired when the gateway starts."
                    : """
                    \(waiting) in it and will be sent when the gateway starts, also what was sent since the backup was taken.
                    To send none of it, restore again with --expire-waiting before the gateway starts.
                    """
            )
        }
        if summary.operations > 0 {
            lines.append(
                "Platforms will be told again of \(StoreSummary.count(summary.operations, "change")) of devices."
            )
        }
        let sealed = (try? StoreLook.values(in: path, beginningWith: SealedState.prefix))?.count ?? 0
        if sealed > 0 {
            lines.append(
                "\(StoreSummary.count(sealed, "credential")) in it "
                    + (sealed == 1 ? "is" : "are")
                    + " encrypted: store.encryption must have the key of then, see doctor."
            )
        }
        return lines
    }
}
