import Synchronization

/// A step that is done once however often it is called for, such as the shutdown of a backend.
///
/// Lock-free; it does not wait for the end of the step.
package final class OneTimeStep: Sendable {
    private let hasBegun = Atomic(false)

    package init() {}

    /// Begins the step: true for the first caller only, which then does it.
    package func begin() -> Bool { !hasBegun.exchange(true, ordering: .acquiringAndReleasing) }
}
