internal import ChaparCore
internal import Synchronization

/// The contents of a ``Mailbox``, which gather until its task receives them.
protocol MailboxContents {
    /// Makes empty contents.
    init()
    /// Whether there is nothing to receive.
    var isEmpty: Bool { get }
}

extension Array: MailboxContents {}

/// A mailbox that collects work from any thread for the one task that does it.
///
/// Work that arrives while the task is busy is received together at its next turn. The mailbox has no limit; its
/// senders bound the contents.
final class Mailbox<Contents: MailboxContents & Sendable>: Sendable {
    private struct State {
        var contents = Contents()
        var isFinished = false
        var isOver = false
    }

    private let state = Mutex(State())
    private let signal = AsyncSignal()

    /// Changes the contents and wakes the task; false, without a change, once ``receive()`` has returned nil.
    @discardableResult
    func put(_ body: (inout Contents) -> Void) -> Bool {
        let isOpen = state.withLock { state in
            if !state.isOver { body(&state.contents) }
            return !state.isOver
        }
        if isOpen { signal.signal() }
        return isOpen
    }

    /// Lets ``receive()`` return nil once everything was taken out.
    func finish() {
        state.withLock { $0.isFinished = true }
        signal.signal()
    }

    /// Waits for contents and takes them out; nil when ``finish()`` was called and nothing is left.
    ///
    /// It does not end when the task is cancelled, since the contents must still be handled.
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
