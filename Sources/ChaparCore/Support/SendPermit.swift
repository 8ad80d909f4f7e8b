internal import Synchronization

/// Whether the calls of a send may still leave this process; transports ask right before they write a call.
///
/// A process may be suspended between its last check of its claims and the write, for longer than the claims are valid.
/// By then another gateway may have sent the same messages, and the late copies would not be marked as copies.
///
/// A long-lived task that a backend starts within a send, such as a watcher, inherits the permit. After the send the
/// permit allows every call.
package final class SendPermit: Sendable {
    /// The permit of the task; without one, every call may be written.
    ///
    /// It is an object, since with a closure as the value a release build (Swift 6.3.1, Linux) crashed in
    /// `swift_task_localValuePush`.
    @TaskLocal package static var current: SendPermit?

    private let holds: @Sendable () -> Bool
    private let isOver = Atomic(false)

    /// Makes the permit of a send.
    ///
    /// - Parameter holds: Whether the claims still hold. Called from any thread for each call, so it must be quick.
    package init(_ holds: @escaping @Sendable () -> Bool) { self.holds = holds }

    /// Whether a call may be written now.
    package var mayWrite: Bool { isOver.load(ordering: .relaxed) || holds() }

    /// Marks the send as over, after which everything may be written.
    package func end() { isOver.store(true, ordering: .relaxed) }
}
