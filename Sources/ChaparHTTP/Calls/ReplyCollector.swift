import ChaparCore

/// Collects the replies of one turn of the event loop, so that a batch gets all of its own in one call.
///
/// Event loop only.
final class ReplyCollector {
    private var touched: [Batch] = []
    private var handover: [HTTPReply] = []

    /// Adds the result of a call.
    func add(_ call: QueuedCall, _ result: Result<HTTPAnswer, HTTPFailure>, connection: UInt64) {
        if call.batch.pending.isEmpty { touched.append(call.batch) }
        call.batch.pending.append(HTTPReply(index: call.index, result: result, connection: connection))
    }

    /// Reports the replies of every batch and wakes the callers whose batch is done.
    ///
    /// The array's memory is reused.
    func handOver() {
        guard !touched.isEmpty else { return }
        var batches: [Batch] = []
        swap(&batches, &touched)
        for batch in batches {
            swap(&handover, &batch.pending)
            batch.report(handover)
            batch.unreported -= handover.count
            handover.removeAll(keepingCapacity: true)
            if batch.unreported == 0, let continuation = batch.continuation {
                batch.continuation = nil
                continuation.resume()
            }
        }
    }
}
