import UnixSignals

/// Waits for somebody to end the program: SIGINT or SIGTERM.
///
/// Made before whatever is to be ended in peace, so that a signal in between is not lost.
struct Interruption {
    private let signals: UnixSignalsSequence

    init() async { signals = await UnixSignalsSequence(trapping: .sigint, .sigterm) }

    /// Returns with the first signal, or when the task is cancelled.
    func wait() async {
        for await _ in signals { return }
    }
}
