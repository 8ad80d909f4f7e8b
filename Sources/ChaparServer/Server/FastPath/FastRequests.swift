internal import Foundation
internal import NIOCore
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparCore
internal import ChaparQueue

/// The state that the connections of one event loop share: their port to the store, and the text of the `Date` field.
///
/// Work goes straight to the store; the answers of one commit return together, with one hop to the loop. Used only on
/// its loop.
final class FastRequests {
    private let loop: any EventLoop
    private var port: (any EnqueuePort)?
    /// The connections that wait for the store; a ticket is an index of this list.
    private var waiting: [ConnectionHandler?] = []
    private var freeIndices: [Int] = []
    /// The batches that go to the store at the end of this tick.
    private var gathered: [(batch: EnqueueBatch, ticket: Int)] = []
    private var dateSecond = -1
    private var dateText = ""

    /// Makes the requests of the current event loop.
    init(_ loop: any EventLoop, _ store: any NotificationStore) {
        self.loop = loop
        // Weak, since the store keeps the port and must not keep a gateway that has ended.
        let requests = NIOLoopBound(WeakRequests(requests: self), eventLoop: loop)
        port = store.makePort { answers in
            loop.execute { requests.value.requests?.receive(answers) }
        }
    }

    private struct WeakRequests {
        weak var requests: FastRequests?
    }

    /// Submits work to the store; the connection is called with the result.
    func submit(_ batch: EnqueueBatch, for connection: ConnectionHandler) {
        let ticket: Int
        if let index = freeIndices.popLast() {
            waiting[index] = connection
            ticket = index
        } else {
            ticket = waiting.count
            waiting.append(connection)
        }
        gathered.append((batch, ticket))
        // Once for all connections of this tick, so that the store is woken when all their work is there.
        if gathered.count == 1 { loop.assumeIsolated().execute { self.handOver() } }
    }

    private func handOver() {
        for (batch, ticket) in gathered { port?.enqueue(batch, ticket: ticket) }
        gathered.removeAll(keepingCapacity: true)
    }

    private func receive(_ answers: [EnqueueAnswer]) {
        for answer in answers {
            guard let connection = waiting[answer.ticket] else { continue }
            waiting[answer.ticket] = nil
            freeIndices.append(answer.ticket)
            connection.finish(answer.result)
        }
    }

    /// The current value of the `Date` field.
    var date: String {
        let now = Date()
        let second = Int(clamping: now.timeIntervalSince1970)
        if second != dateSecond {
            dateSecond = second
            dateText = HTTPDate.text(now)
        }
        return dateText
    }
}
