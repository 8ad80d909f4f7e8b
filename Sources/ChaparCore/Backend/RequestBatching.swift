/// The way a platform takes several messages in one request.
///
/// The number of requests that may be in flight at once is ``PushBackend/window`` divided by ``limit``. A gateway
/// claims no more messages than these requests take. The other messages wait in its store, where they can fill later
/// requests or be claimed by another gateway.
public struct RequestBatching: Sendable, Hashable {
    /// The most messages in one request, at least 1.
    public var limit: Int
    /// Whether one request takes different notifications; otherwise it takes one notification to several recipients.
    public var isMixed: Bool

    /// Makes a description.
    ///
    /// - Parameters:
    ///   - limit: The most messages in one request; less than 1 counts as 1.
    ///   - isMixed: Whether one request takes different notifications.
    public init(limit: Int, isMixed: Bool) {
        self.limit = max(1, limit)
        self.isMixed = isMixed
    }
}
