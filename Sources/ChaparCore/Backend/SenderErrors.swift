public import Foundation

// Foundation shows the description of these errors instead of "error 1", for example as `localizedDescription`.

extension HTTPPoolError: LocalizedError {
    /// The description.
    public var errorDescription: String? { description }
}

extension InvalidToken: LocalizedError {
    /// The description.
    public var errorDescription: String? { description }
}

extension PayloadError: LocalizedError {
    /// The description.
    public var errorDescription: String? { description }
}

extension PushError: LocalizedError {
    /// The description.
    public var errorDescription: String? { description }
}
