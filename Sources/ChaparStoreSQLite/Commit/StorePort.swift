import ChaparCore
import ChaparQueue
import Synchronization

/// A port of the store that collects answers until a transaction is over, and delivers them together.
final class StorePort: EnqueuePort {
    /// The data of a batch that its answer needs.
    struct Call: Sendable {
        var ticket: Int
        var deliveries: Int
        var key: Inbox.KeyName?
    }

    private let inbox: Inbox
    private let receive: @Sendable ([EnqueueAnswer]) -> Void
    private let answers = Mutex<[EnqueueAnswer]>([])

    init(_ inbox: Inbox, _ receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) {
        self.inbox = inbox
        self.receive = receive
    }

    func enqueue(_ batch: EnqueueBatch, ticket: Int) {
        let key = batch.idempotency.map { Inbox.KeyName(caller: $0.caller, key: $0.key) }
        let call = Call(ticket: ticket, deliveries: batch.deliveries, key: key)
        guard let refusal = inbox.admit(.enqueue(batch, .port(self, call)), key: key).refusal else { return }
        receive([EnqueueAnswer(ticket: ticket, deliveries: call.deliveries, result: refusal)])
    }

    /// Records the answer to a batch; ``flush()`` follows.
    func answer(_ call: Call, _ result: Result<EnqueueResult, StoreError>) {
        if let key = call.key { inbox.release(key) }
        let answer = EnqueueAnswer(ticket: call.ticket, deliveries: call.deliveries, result: result)
        answers.withLock { $0.append(answer) }
    }

    /// Delivers the answers recorded so far.
    func flush() {
        let ready = answers.withLock { answers in
            var ready: [EnqueueAnswer] = []
            swap(&ready, &answers)
            return ready
        }
        if !ready.isEmpty { receive(ready) }
    }
}

/// Every port of a store: a few, made at the start.
final class StorePorts: Sendable {
    private let ports = Mutex<[StorePort]>([])

    func add(_ port: StorePort) { ports.withLock { $0.append(port) } }

    /// Releases all of them when the store is closed, since what they refer to may refer to the store.
    func removeAll() { ports.withLock { $0 = [] } }

    /// Delivers the answers of the last transaction.
    func flush() { for port in ports.withLock({ $0 }) { port.flush() } }
}

extension Inbox.Admission {
    /// The answer to a batch that was not admitted; nil when it was.
    var refusal: Result<EnqueueResult, StoreError>? {
        switch self {
        case .admitted: nil
        case .keyInUse: .success(.keyInUse)
        case .closed: .failure(.closed)
        case .full:
            .failure(.full(reason: "more is being stored than the disk can follow", retryAfter: .seconds(1)))
        }
    }
}
