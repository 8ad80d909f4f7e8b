internal import Synchronization

/// Whether what a send has to write may still leave this process: asked by transports right before they write a call.
///
/// A process may stand still between the last look at its claims and the write, for longer than the claims hold. By
/// then another gateway has sent the same messages, and what came late would not say that it is a copy.
///
/// A task that a backend starts within a send and keeps, such as one that watches something, inherits the permit; after
/// the send it allows everything.
package final class SendPermit: Sendable {
    /// The permit of the task; without one every call may be written.
    ///
    /// A reference, not a closure: with one as the value a release build (Swift 6.3.1, Linux) died in
    /// `swift_task_localValuePush`.
    @TaskLocal package static var current: SendPermit?

    private let holds: @Sendable () -> Bool
    private let isOver = Atomic(false)

    /// Makes the permit of a send.
    ///
    /// - Parameter holds: Whether the claims still hold: asked from any thread for each call, so it must be quick.
    package init(_ holds: @escaping @Sendable () -> Bool) { self.holds = holds }

    /// Whether a call may be written at this moment.
    package var mayWrite: Bool { isOver.load(ordering: .relaxed) || holds() }

    /// The send is over.
    package func end() { isOver.store(true, ordering: .relaxed) }
}
