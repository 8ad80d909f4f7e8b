internal import PushCore

/// What somebody asks a ``GroupLoop`` for.
protocol GroupRequest: Sendable {
    /// How much it adds to a transaction.
    var weight: Int { get }
    /// Answers the caller when nothing was changed.
    var fail: @Sendable (StoreError) -> Void { get }
}

/// Commits what callers ask for: one transaction for all that came while the one before was under way.
///
/// A group that met another transaction, or lacks a partition, is committed once more. When the server refuses what one
/// of several asks for, each is done alone; not after a timeout, which nobody's request alone is to blame for.
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
    /// Hands in a request, whose caller is answered at once when it cannot be taken.
    func hand(in request: Item) {
        switch add(request, weight: request.weight) {
        case .admitted: break
        case .closed: request.fail(.closed)
        case .full:
            request.fail(.full(reason: "more changes come than the database can follow", retryAfter: .seconds(1)))
        }
    }
}
