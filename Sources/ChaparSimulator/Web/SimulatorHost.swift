/// The control over any simulator's sockets, clock and fault rules.
///
/// ``SandboxWebHost`` is the host of the web services; ``APNsSimulator`` is its own. ``HostControl`` turns control
/// calls into calls of it.
protocol SimulatorHost: Sendable {
    /// The offset of the server's clock from the time source; positive is ahead.
    var clockOffset: Duration { get nonmutating set }
    /// The fault rules, with the number of times each has applied.
    var rules: [(rule: FaultRule, fired: Int)] { get }

    /// Adds fault rules after the existing ones.
    func add(_ rules: [FaultRule])
    /// Removes the fault rules with this name, all of them when nil, and returns how many there were.
    func removeRules(named name: String?) -> Int
    /// Carries out the steps on open connections: all, those of one listener, or one.
    func perform(_ steps: [SandboxStep], listener: SandboxListener?, connection: Int?)
}

/// Waits until a condition holds; returns false when it did not within `limit` or the task was cancelled.
func poll(
    atMost limit: Duration,
    isolation: isolated (any Actor)? = #isolation,
    until condition: () -> Bool
) async -> Bool {
    let deadline = ContinuousClock.now + limit
    while !condition() {
        guard ContinuousClock.now < deadline, !Task.isCancelled else { return false }
        // Cancellation shows in the guard above.
        try? await Task.sleep(for: .milliseconds(2))
    }
    return true
}
