import Synchronization

/// A step that is done once, no matter how often it is requested, such as the shutdown of a backend.
///
/// It needs no lock, and callers do not wait for the end of the step.
package final class OneTimeStep: Sendable {
    private let hasBegun = Atomic(false)

    package init() {}

    /// Begins the step; returns true only for the first caller, which then does it.
    package func begin() -> Bool { !hasBegun.exchange(true, ordering: .acquiringAndReleasing) }
}
