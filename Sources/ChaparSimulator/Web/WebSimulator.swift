/// A simulator whose listeners are those of one host: its end, its certificate, its clock, its faults.
public protocol WebSimulator: Sendable {
    /// The host of its listeners.
    var host: SandboxWebHost { get }
}

extension WebSimulator {
    /// The authority that clients must trust.
    public var authority: SandboxCertificateAuthority { host.authority }
    /// The certificate to trust, PEM.
    public var certificatePEM: String { authority.certificatePEM }
    /// The seed of all randomness in this run: the same seed and the same requests give the same answers.
    public var seed: UInt64 { host.seed }

    /// The offset of the server's clock from the time source; positive is ahead.
    public var clockOffset: Duration {
        get { host.clockOffset }
        nonmutating set { host.clockOffset = newValue }
    }

    /// Closes all connections and listeners.
    ///
    /// A second call does nothing.
    public func shutdown() async { await host.shutdown() }

    /// Adds fault rules after the existing ones.
    public func add(_ rules: FaultRule...) { host.add(rules) }

    /// Adds fault rules after the existing ones.
    public func add(_ rules: [FaultRule]) { host.add(rules) }

    /// Removes the fault rules with this name, all of them when nil, and returns how many there were.
    @discardableResult
    public func removeRules(named name: String? = nil) -> Int { host.removeRules(named: name) }

    /// Removes all fault rules.
    public func removeFaults() { removeRules() }
}
