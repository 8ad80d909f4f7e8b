package import Logging

extension Logger {
    /// The logger for a failed call of the store; nil in a cancelled task.
    ///
    /// The cancellation ends the call with an error, which says nothing about the store.
    package var unlessCancelled: Logger? { Task.isCancelled ? nil : self }
}
