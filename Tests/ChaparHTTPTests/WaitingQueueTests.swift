import NIOCore
import ChaparCore
import Testing

@testable import ChaparHTTP

/// The queue and the backoff as plain values.
@Suite("Waiting and backing off", .serialized, .timeLimit(.minutes(1)))
struct WaitingQueueTests {
    private func batch(_ deadlines: [Duration?]) -> Batch {
        Batch(deadlines.map { HTTPCall(HTTPCallTemplate(method: "GET", deadline: $0), path: "/") }) { _ in }
    }

    private func drain(_ queue: inout WaitingQueue) -> [Int] {
        var indices: [Int] = []
        while let call = queue.popFirst() { indices.append(call.index) }
        return indices
    }

    @Test("Calls leave in order; one that is put back leaves first")
    func order() {
        var queue = WaitingQueue()
        queue.append(batch([nil, nil, nil]))
        queue.append(batch([nil, nil]))
        let first = queue.popFirst()
        #expect(first?.index == 0)
        if var first {
            first.tries = 1
            queue.putBack(first)
        }
        #expect(queue.count == 5)
        #expect(drain(&queue) == [0, 1, 2, 0, 1])
        #expect(queue.isEmpty)
    }

    @Test("Trimming takes the newest calls")
    func trim() {
        var queue = WaitingQueue()
        queue.append(batch([nil, nil, nil]))
        queue.append(batch([nil, nil]))
        let removed = queue.trim(to: 2)
        #expect(removed.map(\.index) == [0, 1, 2])
        #expect(drain(&queue) == [0, 1])
    }

    @Test("Expired calls are taken out of the middle, the others keep their order")
    func expiry() {
        var queue = WaitingQueue()
        let mixed = batch([.seconds(1), .seconds(100), .seconds(1), nil, .seconds(1)])
        queue.append(mixed)
        let removed = queue.removeExpired(mixed.start + .seconds(10), default: .seconds(50))
        #expect(removed.map(\.index) == [0, 2, 4])
        #expect(queue.count == 2)
        let later = queue.removeExpired(mixed.start + .seconds(60), default: .seconds(50))
        #expect(later.map(\.index) == [3])
        #expect(drain(&queue) == [1])
    }

    @Test("Removing a batch leaves the others")
    func removal() {
        var queue = WaitingQueue()
        let (first, second) = (batch([nil, nil]), batch([nil]))
        queue.append(first)
        queue.append(second)
        #expect(queue.removeAll(of: first).count == 2)
        #expect(queue.removeAll(of: first).isEmpty)
        #expect(queue.popFirst()?.batch === second)
    }

    @Test("The backoff doubles to its ceiling, with full jitter, and a success ends it")
    func backoff() {
        var backoff = Backoff(.seconds(1) ... .seconds(10))
        let now = NIODeadline.now()
        var longest: [Duration] = []
        for _ in 0..<6 {
            backoff.fail(now, isUnreachable: false, random: 1)
            longest.append(backoff.ceiling)
            #expect(backoff.notBefore == now + TimeAmount(backoff.ceiling))
        }
        #expect(longest == [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(10), .seconds(10)])
        backoff.fail(now, isUnreachable: false, random: 0)
        #expect(backoff.notBefore == now)
        backoff.succeed()
        #expect(backoff.notBefore == nil)
        #expect(backoff.failures == 0)
    }
}
