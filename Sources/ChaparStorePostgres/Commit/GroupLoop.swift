internal import ChaparCore

/// A request to a ``GroupLoop``.
protocol GroupRequest: Sendable {
    /// How much it adds to a transaction.
    var weight: Int { get }
    /// Answers the caller when nothing was changed.
    var fail: @Sendable (StoreError) -> Void { get }
}

/// Commits callers' requests: one transaction for all that arrived during the one before.
///
/// A group that collided with another transaction, or lacks a partition, is committed again. When the server refuses
/// one of several requests, each is committed alone; but not after a timeout, for which no single request is the cause.
struct GroupLoop<Request: GroupRequest>: Sendable {
    private static var mostAttempts: Int { 8 }

    let core: StoreCore
    let inbox: Inbox<Request>
    /// The most weight of a group, beyond its first request.
    let largestGroup: Int
    /// Commits a group; then answers its callers.
    let commit: @Sendable ([Request]) async throws(PostgresError) -> Void

    /// Works until the inbox is closed and empty.
    func run() async {
        while let groups = await inbox.take(groupsOfAtMost: largestGroup, \.weight) {
            for requests in groups { await write(requests) }
        }
    }

    private func write(_ requests: [Request]) async {
        var attempts = 0
        while true {
            do throws(PostgresError) {
                try await commit(requests)
                core.noteSuccess()
                return
            } catch {
                attempts += 1
                if core.mayRepeat(error), attempts < Self.mostAttempts { continue }
                if requests.count > 1, error.isOfOneRequest {
                    for request in requests { await write([request]) }
                } else {
                    core.noteFailure(error)
                    for request in requests { request.fail(error.storeError) }
                }
                return
            }
        }
    }
}

extension Inbox where Item: GroupRequest {
    /// Adds a request; answers its caller at once when it cannot be taken.
    func hand(in request: Item) {
        switch add(request, weight: request.weight) {
        case .admitted: break
        case .closed: request.fail(.closed)
        case .full:
            request.fail(.full(reason: "more changes come than the database can follow", retryAfter: .seconds(1)))
        }
    }
}
