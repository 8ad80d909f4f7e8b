/// The source of the workers' status: the dispatcher, or a stand-in in a test.
package protocol WorkerObserver: Sendable {
    /// Every worker, in the order of the configuration.
    var workers: [WorkerStatus] { get }
    /// The invalidations, for an operator to resolve quarantined ones; nil where there are none.
    var invalidations: TokenInvalidation? { get }
    /// The deliveries for backends that are no longer configured, for an operator to move or drop; nil where there are
    /// none.
    var goneBackends: GoneBackends? { get }
    /// Ends the pauses of a backend that no platform asked for; returns those that it ended and those that stay.
    func endOwnPauses(of backend: String) -> EndedPauses
}

extension WorkerObserver {
    /// No invalidations.
    package var invalidations: TokenInvalidation? { nil }
    /// No gone backends.
    package var goneBackends: GoneBackends? { nil }
    /// Ends nothing.
    package func endOwnPauses(of backend: String) -> EndedPauses { EndedPauses() }
}
