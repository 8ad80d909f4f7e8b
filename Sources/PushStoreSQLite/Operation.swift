import Foundation
import PushCore
import Synchronization

/// Where the answer to a call goes.
struct Reply<Value: Sendable>: Sendable {
    let continuation: CheckedContinuation<Result<Value, StoreError>, Never>

    func succeed(_ value: Value) { continuation.resume(returning: .success(value)) }
    func fail(_ error: StoreError) { continuation.resume(returning: .failure(error)) }
}

/// Where the answer to new work goes: to a task that waits, or to a port.
enum EnqueueReply: Sendable {
    case task(Reply<EnqueueResult>)
    case port(StorePort, StorePort.Call)

    func succeed(_ value: EnqueueResult) { answer(.success(value)) }
    func fail(_ error: StoreError) { answer(.failure(error)) }

    private func answer(_ result: Result<EnqueueResult, StoreError>) {
        switch self {
        case .task(let reply): reply.continuation.resume(returning: result)
        case .port(let port, let call): port.answer(call, result)
        }
    }
}

/// A call of `claim` that waits for work.
final class ClaimTicket: Sendable {
    let lane: String
    let limit: Int
    let lease: Duration
    /// When its patience ends, in milliseconds since 1970.
    let until: Int64
    private let reply = Mutex<Reply<[ClaimedDelivery]>?>(nil)
    private let cancellation = Atomic(false)

    init(lane: String, limit: Int, lease: Duration, until: Int64) {
        self.lane = lane
        self.limit = limit
        self.lease = lease
        self.until = until
    }

    /// Whether the caller has gone: the writer gives it nothing any more.
    var isCancelled: Bool { cancellation.load(ordering: .acquiring) }
    func cancel() { cancellation.store(true, ordering: .releasing) }

    func expect(_ reply: Reply<[ClaimedDelivery]>) { self.reply.withLock { $0 = reply } }
    func answer(_ result: Result<[ClaimedDelivery], StoreError>) {
        let reply = reply.withLock { reply in
            defer { reply = nil }
            return reply
        }
        reply?.continuation.resume(returning: result)
    }
}

/// What a purge has still to do and what it did: it goes in steps, between which other work gets its turn.
struct PurgeStep: Sendable {
    /// Removes what has not changed since this moment, in milliseconds since 1970.
    var before: Int64
    /// Removes at most so many rows.
    var limit: Int
    /// Goes on with the first notification at or above this number.
    var cursor: Int64
    /// What it removed.
    var removed = 0
    /// Whether there is nothing more to look at.
    var isFinished = false
}

/// What a cancellation has still to do and what it did.
struct CancelStep: Sendable {
    var id: NotificationID
    var event: @Sendable (ClaimedDelivery) -> [UInt8]
    /// Goes on above this number.
    var after: Int64
    var cancelled = 0
}

/// One call, as the writer gets it.
enum Operation: Sendable {
    case enqueue(EnqueueBatch, EnqueueReply)
    case claim(ClaimTicket)
    case claimExpired(limit: Int, lease: Duration, Reply<[ClaimedDelivery]>)
    case record([Resolution], Reply<Void>)
    case cancel(CancelStep, Reply<Cancellation?>)
    case publish([[UInt8]], Reply<Void>)
    case saveState(name: String, value: [UInt8]?, Reply<Void>)
    case purge(PurgeStep, Reply<PurgeStep>)
    /// Changes tables of which the writer keeps nothing in memory.
    case work(TableWork)
    /// Looks at what is in memory, between commits, or learns why it cannot.
    case inspect(@Sendable (Result<Book, StoreError>) -> Void)
    /// Nothing to write: something may have come due or been given up.
    case look

    /// About how many rows it writes.
    var rows: Int {
        switch self {
        case .enqueue(let batch, _): batch.deliveries
        case .record(let resolutions, _): resolutions.count
        case .publish(let events, _): events.count / 8 + 1
        case .claimExpired: 500
        case .cancel, .purge: 1_000
        case .saveState: 1
        case .work(let work): work.rows
        case .claim, .inspect, .look: 0
        }
    }

    /// Answers with an error.
    func fail(_ error: StoreError) {
        switch self {
        case .enqueue(_, let reply): reply.fail(error)
        case .claim(let ticket): ticket.answer(.failure(error))
        case .claimExpired(_, _, let reply): reply.fail(error)
        case .record(_, let reply): reply.fail(error)
        case .cancel(_, let reply): reply.fail(error)
        case .publish(_, let reply): reply.fail(error)
        case .saveState(_, _, let reply): reply.fail(error)
        case .purge(_, let reply): reply.fail(error)
        case .work(let work): work.fail(error)
        case .inspect(let look): look(.failure(error))
        case .look: break
        }
    }
}
