package import PushCore

/// What is between a ``MemoryStore`` and its database: it may delay a call, or lose it or its answer.
package protocol MemoryConnection: Sendable {
    /// Before the database has a call; throws ``MemoryConnectionLoss/error`` when it never gets it.
    func request() async throws(StoreError)

    /// After it has carried the call out; throws ``MemoryConnectionLoss/error`` when nobody hears of that.
    func answer() async throws(StoreError)

    /// Whether the database can be reached.
    var isThere: Bool { get }
}

/// How a call ends whose connection was lost.
package enum MemoryConnectionLoss {
    /// The error that all such calls end with.
    package static let error = StoreError.full(reason: "the database cannot be reached", retryAfter: .seconds(5))
}

/// A connection that loses nothing and takes no time.
package struct SafeConnection: MemoryConnection {
    package init() {}
    package var isThere: Bool { true }
    package func request() async throws(StoreError) {}
    package func answer() async throws(StoreError) {}
}
