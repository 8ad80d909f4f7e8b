/// What every simulator's sockets, clock and fault rules can be told, whatever it simulates.
///
/// ``SandboxWebHost`` is the one of the web services, ``APNsSimulator`` is its own. ``HostControl`` makes control calls
/// of it.
protocol SimulatorHost: Sendable {
    /// The server's clock compared with the time source: positive is ahead.
    var clockOffset: Duration { get nonmutating set }
    /// The fault rules with how often each has applied.
    var rules: [(rule: FaultRule, fired: Int)] { get }

    /// Adds fault rules behind those that are there.
    func add(_ rules: [FaultRule])
    /// Removes the fault rules with this name, all of them when nil, and says how many there were.
    func removeRules(named name: String?) -> Int
    /// Does the steps on open connections: all, or those of one listener, or one.
    func perform(_ steps: [SandboxStep], listener: SandboxListener?, connection: Int?)
}

/// Waits until a condition holds; false when it did not within `limit` or the task was cancelled.
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
