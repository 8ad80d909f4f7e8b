import ArgumentParser
import ChaparCore

/// The flags of a list that can be shown again and again.
struct WatchOption: ParsableArguments {
    @Flag(help: "Show it again every few seconds, in place on a terminal, until Ctrl-C.")
    var watch = false

    @Option(help: "With --watch, the seconds between two looks, 1 to 3600. Default: 2.")
    var every: Double?

    func validate() throws {
        guard let every else { return }
        guard watch else { throw ValidationError("--every goes with --watch.") }
        guard (1...3_600).contains(every) else { throw ValidationError("--every is 1 to 3600 seconds.") }
    }

    /// Runs `body` once, or again and again with `--watch`.
    func run(_ form: OutputForm, _ body: @escaping @Sendable () async throws -> Void) async throws {
        guard watch else { return try await body() }
        let interval = Duration.milliseconds(Int(clamping: (every ?? 2) * 1_000))
        try await LiveScreen(interval: interval, isInPlace: !form.isJSON && Shell.isOutputTerminal).run(body)
    }
}
