import Foundation
import ChaparCore
import ChaparQueue

/// The receiver of the answer to new work: a task that waits, or a port.
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

/// The remaining work of a cancellation, and its counts so far.
struct CancelStep: Sendable {
    var id: NotificationID
    var event: @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    /// The number above which it continues.
    var after: Int64
    var cancelled = 0
    var inFlight = 0
}

/// Makes the event of a delivery that ends instead of waiting again, as its owner wanted.
typealias EndEvent = @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]

/// One call, in the form that the writer gets.
///
/// ``SQLiteStore`` puts it into the inbox, ``CommitLoop`` carries it out, and many share a transaction. A call whose
/// caller waits carries a reply, which gets an answer or an error.
enum StoreCommand: Sendable {
    case enqueue(EnqueueBatch, EnqueueReply)
    case claim(ClaimTicket)
    case claimExpired(limit: Int, Reply<[ClaimedDelivery]>)
    case record([Resolution], EndEvent, Reply<Void>)
    /// Decisions about deliveries that wait for a backend.
    case settle([Resolution], of: String, EndEvent, Reply<Set<Int64>>)
    /// Deliveries that wait at a backend for another attempt.
    case makeDue([Int64], of: String, Reply<Int>)
    case cancel(CancelStep, Reply<Cancellation?>)
    case move(backend: String, to: String, Reply<Int?>)
    /// The end of a backend's move: it is in use again.
    case endMove(String)
    case publish([[UInt8]], Reply<Void>)
    case saveState(name: String, value: [UInt8]?, Reply<Void>)
    case purge(Retention, Reply<Bool>)
    /// A change of tables of which the writer keeps nothing in memory.
    case work(TableWork)
    /// A read of memory between commits; gets an error when it cannot be made.
    case inspect(@Sendable (Result<QueueIndex, StoreError>) -> Void)
    /// Nothing to write: something may have become due, or a caller may have gone.
    case look

    /// About how many rows it writes.
    var rows: Int {
        switch self {
        case .enqueue(let batch, _): batch.deliveries
        case .record(let resolutions, _, _), .settle(let resolutions, _, _, _): resolutions.count
        case .makeDue(let deliveries, _, _): deliveries.count
        case .publish(let events, _): events.count / 8 + 1
        case .claimExpired: 500
        case .cancel, .purge: 1_000
        case .saveState, .move, .endMove: 1
        case .work(let work): work.rows
        case .claim, .inspect, .look: 0
        }
    }

    /// Its share of the inbox's capacity.
    var size: CommandSize {
        if case .enqueue(let batch, _) = self { return CommandSize(rows: batch.deliveries, bytes: batch.bytes) }
        return CommandSize(rows: rows, bytes: 0)
    }

    /// Answers with an error.
    func fail(_ error: StoreError) {
        switch self {
        case .enqueue(_, let reply): reply.fail(error)
        case .claim(let ticket): ticket.answer(.failure(error))
        case .claimExpired(_, let reply): reply.fail(error)
        case .record(_, _, let reply): reply.fail(error)
        case .settle(_, _, _, let reply): reply.fail(error)
        case .makeDue(_, _, let reply): reply.fail(error)
        case .cancel(_, let reply): reply.fail(error)
        case .move(_, _, let reply): reply.fail(error)
        case .publish(_, let reply): reply.fail(error)
        case .saveState(_, _, let reply): reply.fail(error)
        case .purge(_, let reply): reply.fail(error)
        case .work(let work): work.fail(error)
        case .inspect(let look): look(.failure(error))
        case .look, .endMove: break
        }
    }
}

/// The size of a command.
struct CommandSize {
    /// About how many rows it writes.
    var rows = 0
    /// About how much memory its messages take.
    var bytes = 0

    static func += (sum: inout CommandSize, more: CommandSize) {
        sum.rows += more.rows
        sum.bytes += more.bytes
    }

    static func -= (sum: inout CommandSize, less: CommandSize) {
        sum.rows -= less.rows
        sum.bytes -= less.bytes
    }
}

extension EnqueueBatch {
    /// About how much memory it takes, in bytes: contents count twice, since they are kept stored and decoded.
    var bytes: Int {
        var sum = 0
        for index in notifications.indices {
            sum += 1_024 + 2 * notifications[index].record.content.count + 192 * notifications[index].recipients.count
        }
        return sum
    }
}
