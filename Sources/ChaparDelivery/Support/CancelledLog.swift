package import Logging

extension Logger {
    /// The logger for a failed call of the store; nil in a cancelled task.
    ///
    /// The cancellation ends the call with an error, which says nothing about the store. It looks at the task and not
    /// at the error, since `StoreError` has no case of its own for a cancellation: a cancelled read looks like a failed
    /// one.
    package var unlessCancelled: Logger? { Task.isCancelled ? nil : self }
}
