package import ChaparCore

/// The connection between a ``MemoryStore`` and its database: it may delay a call, or lose it or its answer.
package protocol MemoryConnection: Sendable {
    /// Delays or loses a call before the database gets it; throws ``MemoryConnectionLoss/error`` when it is lost.
    func request() async throws(StoreError)

    /// Delays or loses an answer after the database has carried the call out; throws ``MemoryConnectionLoss/error``
    /// when it is lost.
    func answer() async throws(StoreError)

    /// Whether the database can be reached.
    var isThere: Bool { get }
}

/// The failure of a call whose connection was lost.
package enum MemoryConnectionLoss {
    /// The error of all such calls.
    package static let error = StoreError.full(reason: "the database cannot be reached", retryAfter: .seconds(5))
}

/// A connection that loses nothing and takes no time.
package struct SafeConnection: MemoryConnection {
    package init() {}
    package var isThere: Bool { true }
    package func request() async throws(StoreError) {}
    package func answer() async throws(StoreError) {}
}
