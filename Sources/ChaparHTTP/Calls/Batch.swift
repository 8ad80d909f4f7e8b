import NIOCore
import ChaparCore
import Synchronization

/// The calls of one `send` with their results so far.
///
/// At any time a call is in exactly one place: the pool's submissions, its waiting queue, a connection's stream table,
/// or reported. This ensures that each is reported exactly once.
///
/// It is `@unchecked Sendable`: `calls`, `start`, `permit` and `report` never change, `cancelled` is atomic, and the
/// rest is set before the batch is handed to the pool (through its mutex) and used on the pool's event loop only.
final class Batch: @unchecked Sendable {
    let calls: [HTTPCall]
    let start: NIODeadline
    let report: @Sendable ([HTTPReply]) -> Void
    private let cancelled = Atomic(false)
    private let permit: SendPermit?

    /// Resumed after the last report.
    var continuation: CheckedContinuation<Void, Never>?
    /// The replies of this turn of the event loop that are not yet reported.
    var pending: [HTTPReply] = []
    /// The number of calls whose reply is not yet reported.
    var unreported: Int

    init(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) {
        self.calls = calls
        self.start = .now()
        self.report = report
        self.unreported = calls.count
        permit = SendPermit.current
    }

    /// Whether the caller gave up; calls that are not written yet then fail.
    var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    /// Whether its calls may be written now (``SendPermit``).
    var mayWrite: Bool { permit?.mayWrite ?? true }

    /// The failure of a call that may not be written.
    static let withdrawn = HTTPFailure(.notProcessed, .cancelled, "its sender has lost what it had claimed")

    func cancel() { cancelled.store(true, ordering: .relaxed) }

    /// Returns the deadline of a call's answer.
    func deadline(of index: Int, default timeout: TimeAmount) -> NIODeadline {
        start + (calls[index].template.deadline.map { TimeAmount($0) } ?? timeout)
    }
}
