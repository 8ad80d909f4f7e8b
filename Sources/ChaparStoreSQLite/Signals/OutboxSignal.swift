/// Wakes calls that wait for entries of a backend.
///
/// The commit loop signals after each commit that made some claimable. A caller that found none waits with the mark
/// that it took before its search, so that no signal in between is missed.
final class OutboxSignal: Sendable {
    /// The number of signals that each backend has had, and the calls that wait for a backend.
    private let waiters = TimedWaiters<[String: UInt64], String>([:])

    /// Returns how many signals a backend has had.
    func mark(_ backend: String) -> UInt64 { waiters.withState { $0[backend] ?? 0 } }

    /// Wakes calls that wait for these backends: something may be claimable.
    func notify(_ backends: Set<String>) {
        waiters.change { marks in
            for backend in backends { marks[backend, default: 0] += 1 }
        } waking: { _, backend in
            backends.contains(backend)
        }
    }

    /// Waits for a signal after a mark, a moment, cancellation or the end.
    ///
    /// `arm` makes sure that ``expire(now:)`` is called at that moment.
    func wait(_ backend: String, since mark: UInt64, until: Int64, arm: (Int64) -> Void) async {
        await waiters.wait(for: backend, until: until, unless: { $0[backend] ?? 0 != mark }, arm: arm)
    }

    /// Ends the waits whose moment has come.
    ///
    /// Returns when the next one ends.
    func expire(now: Int64) -> Int64? { waiters.expire(now: now) }

    /// Ends every wait, and every later one at once.
    func close() { waiters.close() }
}
