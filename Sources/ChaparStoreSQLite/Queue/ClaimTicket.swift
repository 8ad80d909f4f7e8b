import ChaparCore
import ChaparQueue
import Synchronization

/// A call of `claim` that waits for work.
final class ClaimTicket: Sendable {
    let backend: String
    let limit: Int
    /// The most deliveries of normal priority.
    let normal: Int
    /// The end of its wait, in milliseconds since 1970.
    let until: Int64
    private let reply = Mutex<Reply<[ClaimedDelivery]>?>(nil)
    private let cancellation = Atomic(false)

    init(backend: String, limit: Int, normal: Int, until: Int64) {
        self.backend = backend
        self.limit = limit
        self.normal = normal
        self.until = until
    }

    /// Whether the caller has gone: the writer gives it nothing.
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
