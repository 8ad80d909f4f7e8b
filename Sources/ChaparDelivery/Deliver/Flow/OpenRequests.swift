internal import ChaparCore
internal import ChaparQueue

/// The open requests of a backend that takes several messages in one request, and the number of further requests for
/// which a claim is worth while.
///
/// No more is claimed than fits into the requests that may be sent now, and one request more while there is a backlog,
/// so that an answered request is replaced without a trip to the store. Unclaimed deliveries wait in the store, where
/// another gateway can take them, and go out in full requests.
struct OpenRequests: Sendable, Equatable {
    /// The limits of a backend.
    struct Limit: Sendable, Equatable {
        /// The most requests at a time: its connections, or their streams.
        var requests: Int
        var batching: RequestBatching

        /// Computes the limit from a window of messages.
        init(window: Int, _ batching: RequestBatching) {
            requests = max(1, window / batching.limit)
            self.batching = batching
        }

        /// The most messages under way, including those of the request in reserve.
        var messages: Int { requests.adding(clamping: 1).multiplied(clamping: batching.limit) }
    }

    /// The capacity for a claim.
    struct Room: Equatable {
        var messages: Int
        var requests: Int
        /// Whether the claim may wait for work: a reserve request that could wait would go out half full.
        var mayWait: Bool
    }

    /// The assumed messages of a request, until it is known how many recipients a notification has.
    private static let firstGuess = 16

    /// The requests with the backend, or about to be.
    private(set) var open = 0
    /// Whether the last claim found as much as it asked for.
    private(set) var hasBacklog = false
    /// The expected number of messages in a request.
    private(set) var perRequest: Int

    init(_ limit: Limit) {
        perRequest = limit.batching.isMixed ? limit.batching.limit : min(limit.batching.limit, Self.firstGuess)
    }

    /// Returns the capacity for a claim, given the room in the window, in messages.
    func room(_ limit: Limit, messages: Int) -> Room {
        let free = limit.requests - open + (hasBacklog ? 1 : 0)
        // Two requests share one trip to the store while the others are under way.
        let least = hasBacklog && open > 0 ? min(2, limit.requests) : 1
        guard free >= least, messages > 0 else { return Room(messages: 0, requests: 0, mayWait: false) }
        let size = limit.batching.isMixed ? limit.batching.limit : min(perRequest, limit.batching.limit)
        return Room(
            messages: min(messages, free.multiplied(clamping: size)),
            requests: free,
            mayWait: open < limit.requests
        )
    }

    /// A claim for requests.
    struct RequestClaim {
        let limit: Limit
        /// The number of requests that were reserved for it.
        let reserved: Int
        /// The number of messages that it asked for.
        let asked: Int
        /// The number of messages that it found.
        var messages = 0
        /// The number of requests that they fill.
        var requests = 0
    }

    /// Reserves requests for a claim.
    mutating func reserve(_ count: Int) { open += count }

    /// Ends a claim's reservation and counts the requests that it made.
    mutating func end(_ claim: RequestClaim) {
        open = max(0, open + claim.requests - claim.reserved)
        hasBacklog = claim.messages > 0 && claim.messages >= claim.asked
        guard !claim.limit.batching.isMixed, claim.requests > 0 else { return }
        // A notification to many recipients fills requests within a few claims; the first claim of different
        // notifications may take too many.
        let average = max(1, (claim.messages + claim.requests - 1) / claim.requests)
        let isGrowing = hasBacklog && claim.requests < claim.reserved
        perRequest = min(claim.limit.batching.limit, isGrowing ? max(average, perRequest * 2) : average)
    }

    /// Counts a request as over.
    ///
    /// Requests from before a reload may exceed those counted since.
    mutating func end() { open = max(0, open - 1) }
}

extension RequestBatching {
    /// Splits claims into requests.
    func parts(_ claims: [ClaimedDelivery]) -> [[ClaimedDelivery]] {
        var parts: [[ClaimedDelivery]] = []
        var start = 0
        for index in claims.indices {
            let isFull = index - start >= limit
            let isOther = !isMixed && claims[index].notificationID != claims[start].notificationID
            guard isFull || isOther else { continue }
            parts.append(Array(claims[start..<index]))
            start = index
        }
        if start < claims.count { parts.append(Array(claims[start...])) }
        return parts
    }
}
