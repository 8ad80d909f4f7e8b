import NIOCore
import ChaparCore

/// One call that left the queue, or was returned to it.
struct QueuedCall {
    let batch: Batch
    let index: Int
    /// The number of times it was sent and surely not processed.
    var tries: Int
}

/// The calls of a pool that wait for a stream, in order.
///
/// It stores ranges of batches, so that a thousand calls cost one entry. It has no rules of its own: the pool applies
/// deadlines and limits through these methods.
struct WaitingQueue {
    private struct Span {
        let batch: Batch
        var next: Int
        var end: Int
        var tries: Int
        /// The earliest deadline in it, once the pool has computed it.
        var earliest: NIODeadline?

        var count: Int { end - next }
    }

    private var spans = CircularBuffer<Span>()
    /// The number of waiting calls.
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// Appends a whole batch.
    mutating func append(_ batch: Batch) {
        spans.append(Span(batch: batch, next: 0, end: batch.calls.count, tries: 0))
        count += batch.calls.count
    }

    /// Returns a call to the front, since it has waited longest.
    mutating func putBack(_ call: QueuedCall) {
        spans.prepend(Span(batch: call.batch, next: call.index, end: call.index + 1, tries: call.tries))
        count += 1
    }

    /// Removes and returns the first call.
    mutating func popFirst() -> QueuedCall? {
        guard !spans.isEmpty else { return nil }
        let index = spans.startIndex
        let call = QueuedCall(batch: spans[index].batch, index: spans[index].next, tries: spans[index].tries)
        spans[index].next += 1
        count -= 1
        if spans[index].next == spans[index].end { spans.removeFirst() }
        return call
    }

    /// Removes calls from the end until at most `limit` remain.
    mutating func trim(to limit: Int) -> [QueuedCall] {
        var removed: [QueuedCall] = []
        while count > limit, var span = spans.popLast() {
            let excess = min(count - limit, span.count)
            span.end -= excess
            removed += (span.end..<span.end + excess).map {
                QueuedCall(batch: span.batch, index: $0, tries: span.tries)
            }
            count -= excess
            if span.count > 0 { spans.append(span) }
        }
        return removed
    }

    /// Removes every call of a batch, or every call at all.
    mutating func removeAll(of batch: Batch? = nil) -> [QueuedCall] {
        removeAll { span, _ in batch == nil || span === batch }
    }

    /// Removes the calls whose deadline is at or before `now`.
    mutating func removeExpired(_ now: NIODeadline, default timeout: TimeAmount) -> [QueuedCall] {
        for index in spans.indices where spans[index].earliest == nil {
            let span = spans[index]
            spans[index].earliest = (span.next..<span.end).map { span.batch.deadline(of: $0, default: timeout) }.min()
        }
        guard spans.contains(where: { $0.earliest.map { $0 <= now } ?? false }) else { return [] }
        return removeAll { batch, index in batch.deadline(of: index, default: timeout) <= now }
    }

    /// Removes matching calls; the others keep their order.
    private mutating func removeAll(where matches: (Batch, Int) -> Bool) -> [QueuedCall] {
        var removed: [QueuedCall] = []
        var kept = CircularBuffer<Span>()
        for span in spans {
            var open: Span?
            for index in span.next..<span.end {
                if matches(span.batch, index) {
                    removed.append(QueuedCall(batch: span.batch, index: index, tries: span.tries))
                    if let done = open { kept.append(done) }
                    open = nil
                } else if open == nil {
                    open = Span(batch: span.batch, next: index, end: index + 1, tries: span.tries)
                } else {
                    open?.end = index + 1
                }
            }
            if let done = open { kept.append(done) }
        }
        spans = kept
        count -= removed.count
        return removed
    }
}
