/// A name that callers or operators write or read, with the former name that goes on beside it.
///
/// The list below ends with the first minor version after the one that has the present names (docs/Upgrading.md).
/// To end it, delete the list, and then what no longer compiles: from there on inputs take the present names only, and
/// answers, metrics and commands show and read no others. Until then inputs take either name and refuse two values at
/// once, and answers and metrics show both.
///
/// Some names go on without a present one beside them, and change on that day: `gateway.lanes`, the type of an event,
/// with the former names in it, and `invalidations_held`, a reason (`FlowGate.State.blockReason`) and a pause
/// (`EndedPauses.Kind`). docs/, the OpenAPI description and the dashboard follow. What stores keep and gateways tell
/// each other is no name of this kind: `patience` in a stored plan, `held` in a stored tombstone and in a note to other
/// gateways stay.
package struct FormerName: Sendable {
    /// The name that has taken its place.
    package let present: StaticString
    /// The former name.
    package let former: StaticString

    private init(_ former: StaticString, of present: StaticString) {
        (self.present, self.former) = (present, former)
    }
}

extension FormerName {
    // MARK: Answers, and devices that are sent back

    /// The worker of a backend.
    package static let worker = Self("lane", of: "worker")
    /// Whether quarantined tokens stop a worker.
    package static let invalidationsQuarantined = Self("invalidations_held", of: "invalidations_quarantined")
    /// The quarantined tokens of a backend, whether a tombstone is quarantined, and the command that shows them.
    package static let quarantined = Self("held", of: "quarantined")

    // MARK: Parameters of a query

    /// The parameter that adds the workers to a stream of events.
    package static let workers = Self("lanes", of: "workers")

    // MARK: Keys of the configuration

    /// The time after which a message goes on to the next backend.
    package static let fallbackAfter = Self("patience", of: "fallback_after")

    // MARK: Metrics

    /// The metric of paused workers.
    package static let workerPaused = Self("chapar_lane_paused", of: "chapar_worker_paused")
    /// The metric of quarantined dead-token answers.
    package static let invalidationsQuarantinedTotal = Self(
        "chapar_invalidations_held_total",
        of: "chapar_invalidations_quarantined_total"
    )
}
