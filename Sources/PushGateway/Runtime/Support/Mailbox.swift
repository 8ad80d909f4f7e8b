internal import PushCore
internal import Synchronization

/// What a ``Mailbox`` gathers until its task receives it.
protocol MailboxContents {
    /// Makes empty contents.
    init()
    /// Whether there is nothing to take out.
    var isEmpty: Bool { get }
}

extension Array: MailboxContents {}

/// Gathers work from any thread for one task that does it.
///
/// What comes while the task works is received together at its next turn. It has no bound of its own: what is in it is
/// bounded by those who put something in.
final class Mailbox<Contents: MailboxContents & Sendable>: Sendable {
    private struct State {
        var contents = Contents()
        var isFinished = false
        var isOver = false
    }

    private let state = Mutex(State())
    private let signal = AsyncSignal()

    /// Changes the contents and wakes the task; false when ``take()`` has returned nil, and nothing was changed.
    @discardableResult
    func put(_ body: (inout Contents) -> Void) -> Bool {
        let isOpen = state.withLock { state in
            if !state.isOver { body(&state.contents) }
            return !state.isOver
        }
        if isOpen { signal.signal() }
        return isOpen
    }

    /// Lets ``take()`` return nil once everything was taken out.
    func finish() {
        state.withLock { $0.isFinished = true }
        signal.signal()
    }

    /// Waits until there is something and takes it out; nil when ``finish()`` was called and nothing is left.
    ///
    /// Goes on when the task is cancelled, since what is in the mailbox is still to be done.
    func receive() async -> Contents? {
        while true {
            let mark = signal.mark
            let (contents, isOver) = state.withLock { state in
                defer { state.contents = Contents() }
                state.isOver = state.isFinished && state.contents.isEmpty
                return (state.contents, state.isOver)
            }
            if isOver { return nil }
            if !contents.isEmpty { return contents }
            await signal.waitThroughCancellation(after: mark)
        }
    }
}
