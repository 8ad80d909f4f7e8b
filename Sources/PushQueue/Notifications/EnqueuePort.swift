public import PushCore

/// A caller's own way into a store: it hands work in without waiting, and gets the results in groups.
///
/// Made by ``NotificationStore/makePort(receive:)``, one for each event loop or other place that wants its results
/// together. For callers that would spend more on a suspended task for each request than on the request itself.
public protocol EnqueuePort: Sendable {
    /// Hands in what ``NotificationStore/enqueue(_:)`` takes; never blocks.
    ///
    /// The result comes to `receive` exactly once, with this ticket.
    func enqueue(_ batch: EnqueueBatch, ticket: Int)
}

/// What became of a batch that was handed to an ``EnqueuePort``.
public struct EnqueueAnswer: Sendable {
    /// The number under which the caller handed it in.
    public var ticket: Int
    /// How many deliveries the batch had.
    public var deliveries: Int
    /// What ``NotificationStore/enqueue(_:)`` would have returned or thrown.
    public var result: Result<EnqueueResult, StoreError>

    /// Makes an answer.
    public init(ticket: Int, deliveries: Int, result: Result<EnqueueResult, StoreError>) {
        self.ticket = ticket
        self.deliveries = deliveries
        self.result = result
    }
}

extension EnqueueBatch {
    /// How many deliveries it has: the recipients of all its notifications.
    package var deliveries: Int {
        var sum = 0
        // By index: going over the notifications themselves would copy each, and it is asked for several times.
        for place in notifications.indices { sum += notifications[place].recipients.count }
        return sum
    }
}

extension NotificationStore {
    /// A port over ``NotificationStore/enqueue(_:)``, with a task for each batch: for stores that have nothing better.
    public func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort {
        AwaitingPort(store: self, receive: receive)
    }
}

/// Waits for the store in the caller's place.
private struct AwaitingPort<Store: NotificationStore>: EnqueuePort {
    let store: Store
    let receive: @Sendable ([EnqueueAnswer]) -> Void

    func enqueue(_ batch: EnqueueBatch, ticket: Int) {
        // Unstructured: the caller does not wait. Its end is the answer, which the caller expects.
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
