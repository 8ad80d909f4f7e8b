/// The control over any simulator's sockets, clock and fault rules.
///
/// ``SandboxWebHost`` is the host of the web services; the simulator of APNs is its own. ``HostControl`` turns control
/// calls into calls of it.
package protocol SimulatorHost: Sendable {
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
