/// A name that callers or operators write or read, and its former name, which is still accepted and shown.
///
/// The list below is deleted with the first minor version after the one that has the current names (docs/Upgrading.md).
/// Delete the list then, and the code that no longer compiles. After that inputs take only the current names, and
/// answers, metrics and commands show and read only them. Until then inputs take either name and refuse both at once,
/// and answers and metrics show both.
///
/// These names have no current name yet, and change with the same version: `gateway.lanes`, the type of an event, with
/// the former names in it, and `invalidations_held`, a reason (`FlowGate.State.blockReason`) and a pause
/// (`EndedPauses.Kind`). Change docs/, the OpenAPI description and the dashboard as well. Names in stores, and in
/// notices between gateways, are not changed: `patience` in a stored plan, and `held` in a stored tombstone and in a
/// notice to other gateways.
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
