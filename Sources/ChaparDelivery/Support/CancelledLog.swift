package import Logging

extension Logger {
    /// The logger for a failed call of the store; nil in a cancelled task.
    ///
    /// The cancellation ends the call with an error, which says nothing about the store. The task decides and not the
    /// error, since `StoreError` has no case of its own for a cancellation: a read that ends by it is a failed one.
    package var unlessCancelled: Logger? { Task.isCancelled ? nil : self }
}
