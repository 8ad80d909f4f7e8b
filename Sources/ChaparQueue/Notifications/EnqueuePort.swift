public import ChaparCore

/// A caller's own way to submit work to a store: it submits without waiting, and gets the results in groups.
///
/// ``NotificationStore/makePort(receive:)`` makes one for each event loop, or any other caller that wants its results
/// together. It serves callers for which a suspended task for each request would cost more than the request itself.
public protocol EnqueuePort: Sendable {
    /// Submits a batch like ``NotificationStore/enqueue(_:)``; never blocks.
    ///
    /// The result comes to `receive` exactly once, with this ticket.
    func enqueue(_ batch: EnqueueBatch, ticket: Int)
}

/// The result of a batch that was submitted to an ``EnqueuePort``.
public struct EnqueueAnswer: Sendable {
    /// The number that the caller submitted it with.
    public var ticket: Int
    /// The number of deliveries in the batch.
    public var deliveries: Int
    /// The result or error that ``NotificationStore/enqueue(_:)`` would have given.
    public var result: Result<EnqueueResult, StoreError>

    /// Makes an answer.
    public init(ticket: Int, deliveries: Int, result: Result<EnqueueResult, StoreError>) {
        self.ticket = ticket
        self.deliveries = deliveries
        self.result = result
    }
}

extension EnqueueBatch {
    /// The number of its deliveries: the recipients of all its notifications.
    package var deliveries: Int {
        var sum = 0
        // By index: iterating over the notifications would copy each, and this is called several times.
        for place in notifications.indices { sum += notifications[place].recipients.count }
        return sum
    }
}

extension NotificationStore {
    /// Makes a port over ``NotificationStore/enqueue(_:)``, with a task for each batch, for stores without a better
    /// one.
    public func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort {
        AwaitingPort(store: self, receive: receive)
    }
}

/// A port that waits for the store on behalf of the caller.
private struct AwaitingPort<Store: NotificationStore>: EnqueuePort {
    let store: Store
    let receive: @Sendable ([EnqueueAnswer]) -> Void

    func enqueue(_ batch: EnqueueBatch, ticket: Int) {
        // Unstructured: the caller does not wait, and gets the end as its answer.
        Task {
            let result: Result<EnqueueResult, StoreError>
            do throws(StoreError) {
                result = .success(try await store.enqueue(batch))
            } catch {
                result = .failure(error)
            }
            receive([EnqueueAnswer(ticket: ticket, deliveries: batch.deliveries, result: result)])
        }
    }
}
