/// A simulator that counts what happens.
public protocol CountingSimulator: Sendable {
    /// The counts of events.
    associatedtype Counters

    /// The counts of events so far.
    var counters: Counters { get }
}

extension CountingSimulator {
    /// Waits until the counters satisfy a condition; returns false when they do not within `limit`, or when the task is
    /// cancelled.
    public func wait(
        atMost limit: Duration = .seconds(10),
        until condition: (Counters) -> Bool,
        isolation: isolated (any Actor)? = #isolation
    ) async -> Bool {
        let deadline = ContinuousClock.now + limit
        while !condition(counters) {
            guard ContinuousClock.now < deadline, !Task.isCancelled else { return false }
            // Cancellation shows in the guard above.
            try? await Task.sleep(for: .milliseconds(2))
        }
        return true
    }
}
