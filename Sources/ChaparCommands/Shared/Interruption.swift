import UnixSignals

/// Waits for a signal that ends the program: SIGINT or SIGTERM.
///
/// Create it before the work that the signal ends, so that a signal in between is not lost.
struct Interruption {
    private let signals: UnixSignalsSequence

    init() async { signals = await UnixSignalsSequence(trapping: .sigint, .sigterm) }

    /// Returns with the first signal, or when the task is cancelled.
    func wait() async {
        for await _ in signals { return }
    }
}
