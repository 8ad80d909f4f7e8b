/// Whether what a task sends may still leave this process: asked by transports right before they write a call.
///
/// A process may stand still between the last look at its claims and the write, for longer than the claims hold. By then another gateway
/// has sent the same messages, and what came late would not say that it is a copy.
package enum SendPermit {
    /// The question, asked from any thread for each call, so it must be quick; without one every call may be written.
    @TaskLocal package static var mayWrite: (@Sendable () -> Bool)?
}
