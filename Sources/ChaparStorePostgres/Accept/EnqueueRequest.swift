internal import ChaparCore
internal import ChaparQueue

/// A batch to be stored, and the caller that waits for the answer.
struct EnqueueRequest: Sendable {
    enum Reply: Sendable {
        case task(CheckedContinuation<Result<EnqueueResult, StoreError>, Never>)
        case port(PostgresPort, ticket: Int)
    }

    var batch: EnqueueBatch
    var reply: Reply

    /// Whether one statement can store it: it has no idempotency key and no campaign, and replaces nothing.
    var isPlain: Bool {
        batch.idempotency == nil && batch.campaign == nil && batch.notifications.allSatisfy { $0.collapseID == nil }
    }
}

/// A port for a caller that does not wait; it receives the answers of a transaction in one call.
final class PostgresPort: EnqueuePort {
    private let inbox: Inbox<EnqueueRequest>
    let receive: @Sendable ([EnqueueAnswer]) -> Void

    init(_ inbox: Inbox<EnqueueRequest>, _ receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) {
        self.inbox = inbox
        self.receive = receive
    }

    func enqueue(_ batch: EnqueueBatch, ticket: Int) {
        let request = EnqueueRequest(batch: batch, reply: .port(self, ticket: ticket))
        if let error = inbox.refusal(of: request) {
            receive([EnqueueAnswer(ticket: ticket, deliveries: batch.deliveries, result: .failure(error))])
        }
    }
}

extension Inbox<EnqueueRequest> {
    /// Adds a request; returns the reason when it was refused, nil when it was added.
    func refusal(of request: EnqueueRequest) -> StoreError? {
        switch add(request, weight: request.batch.deliveries) {
        case .admitted: nil
        case .closed: .closed
        case .full:
            .full(reason: "more is being stored than the database can follow", retryAfter: .seconds(1))
        }
    }
}

/// The answers of one transaction, those of each port together.
struct EnqueueAnswers {
    private var ofPorts: [ObjectIdentifier: (port: PostgresPort, answers: [EnqueueAnswer])] = [:]

    mutating func add(_ request: EnqueueRequest, _ result: Result<EnqueueResult, StoreError>) {
        switch request.reply {
        case .task(let continuation): continuation.resume(returning: result)
        case .port(let port, let ticket):
            let answer = EnqueueAnswer(ticket: ticket, deliveries: request.batch.deliveries, result: result)
            ofPorts[ObjectIdentifier(port), default: (port, [])].answers.append(answer)
        }
    }

    func send() {
        for (port, answers) in ofPorts.values { port.receive(answers) }
    }
}
