import ArgumentParser
import Foundation
import ChaparCore
import ChaparStoreSQLite
import Synchronization

/// `chapar backup`: copies the store, also while the gateway runs.
struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Write a checked copy of the store, also while the gateway runs.",
        discussion: """
            The copy is one moment of the store, readable by its owner only, and has its name only once it is checked.
            It holds device tokens and messages as the store does: keep it like the store. The gateway goes on as before.
            """
    )

    @Argument(help: "The file to write; its folder must be there.", completion: .file())
    var target: String

    @Flag(help: "Replace the file if it is there.")
    var force = false

    @OptionGroup var store: StoreOption
    @OptionGroup var form: OutputForm

    func run() async throws {
        let interruption = await Interruption()
        let found = try store.find()
        var backup = StoreBackup(of: found.path, to: target)
        backup.replaces = force
        backup.minimumFreeBytes = found.minimumFreeBytes
        let bar = Mutex(ProgressBar(isShown: !form.isJSON))
        let summary = try await StoreCopying.run(until: interruption) { [backup] isCancelled in
            try backup.write(
                progress: { part in
                    let percent = Int(clamping: part * 100)
                    bar.withLock { $0.update(done: percent, fraction: part, isLast: part >= 1) }
                },
                isCancelled: isCancelled
            )
        }
        if let warning = FileModes.folderWarning(of: target) { Shell.complain("warning: \(warning)") }
        if form.isJSON { return Shell.print(summary.json(["file": .string(target)])) }
        Shell.print("\(target): \(summary.sentence), checked.")
    }
}

/// The way in which `chapar backup` and `chapar restore` run a copy and report its failure.
enum StoreCopying {
    /// Runs a copy until it ends or `interruption` comes, and turns its failure into one of the command.
    static func run<Value: Sendable>(
        until interruption: Interruption,
        _ body: @escaping @Sendable (_ isCancelled: @escaping @Sendable () -> Bool) throws -> Value
    ) async throws -> Value {
        do {
            return try await BlockingWork.run(until: interruption, body)
        } catch let error as StoreFileError {
            switch error {
            case .exists: throw CommandFailure("\(error): --force replaces it", .usage)
            case .cancelled: throw CommandFailure("\(error)", .tryLater)
            case .failed: throw CommandFailure("\(error)")
            }
        }
    }
}

extension StoreSummary {
    /// A summary of the store for people: its size, what is in it, and its schema.
    var sentence: String {
        let parts = [
            Self.count(devices, "device"), Self.count(waiting, "waiting delivery", "waiting deliveries"),
            "tables as of step \"\(schema)\"",
        ]
        return "\(max(1, bytes >> 10)) KiB, " + parts.joined(separator: ", ")
    }

    /// Adds the members of the summary to `more`, for scripts.
    func json(_ more: JSONObject) -> JSONValue {
        var object = more
        object["bytes"] = .integer(bytes)
        object["devices"] = .integer(Int64(devices))
        object["waiting"] = .integer(Int64(waiting))
        object["operations"] = .integer(Int64(operations))
        object["schema"] = .string(schema)
        object["version"] = version.map { .string($0) } ?? .null
        object["taken_at"] = takenAt.map { .string(RFC3339.string($0)) } ?? .null
        return .object(object)
    }

    /// Returns a number with its noun.
    static func count(_ number: Int, _ one: String, _ many: String? = nil) -> String {
        "\(number) \(number == 1 ? one : many ?? one + "s")"
    }
}
