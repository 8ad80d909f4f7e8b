internal import PushCore
internal import PushQueue

/// The requests that are with a backend which takes several messages in one, and how many more are worth a claim: a
/// plain value.
///
/// No more is claimed than goes into the requests that may be sent now, and one request more while a backlog is
/// waiting, so that an answered one is replaced without a trip to the store. What is not claimed waits in the store,
/// goes in full requests, and can be taken by another gateway.
struct OpenRequests: Sendable, Equatable {
    /// What a backend takes.
    struct Limit: Sendable, Equatable {
        /// The most requests at once: connections, or their streams.
        var requests: Int
        var batching: RequestBatching

        /// What a window of messages makes of them.
        init(window: Int, _ batching: RequestBatching) {
            requests = max(1, window / batching.limit)
            self.batching = batching
        }

        /// The most messages under way, those of the request that waits included.
        var messages: Int { requests.adding(clamping: 1).multiplied(clamping: batching.limit) }
    }

    /// What may be claimed now.
    struct Room: Equatable {
        var messages: Int
        var requests: Int
        /// Whether the look may wait for work: one that is there before the others are answered must not go out half
        /// full.
        var mayWait: Bool
    }

    /// Those of a request at the beginning, until it is known how many recipients a notification has.
    private static let firstGuess = 16

    /// With the backend, or about to be.
    private(set) var open = 0
    /// Whether the last look found as much as it asked for.
    private(set) var hasBacklog = false
    /// How many messages a request may be expected to take.
    private(set) var perRequest: Int

    init(_ limit: Limit) {
        perRequest = limit.batching.isMixed ? limit.batching.limit : min(limit.batching.limit, Self.firstGuess)
    }

    /// What may be claimed, with room for so many messages.
    func room(_ limit: Limit, messages: Int) -> Room {
        let free = limit.requests - open + (hasBacklog ? 1 : 0)
        // One trip to the store for two of them, while the others are busy.
        let least = hasBacklog && open > 0 ? min(2, limit.requests) : 1
        guard free >= least, messages > 0 else { return Room(messages: 0, requests: 0, mayWait: false) }
        let size = limit.batching.isMixed ? limit.batching.limit : min(perRequest, limit.batching.limit)
        return Room(
            messages: min(messages, free.multiplied(clamping: size)),
            requests: free,
            mayWait: open < limit.requests
        )
    }

    /// A look for work on behalf of requests.
    struct Look {
        let limit: Limit
        /// The number of requests that were reserved for it.
        let reserved: Int
        /// It asked for so many messages.
        let asked: Int
        /// It found so many.
        var messages = 0
        /// In so many requests.
        var requests = 0
    }

    /// Requests are reserved for a look.
    mutating func reserve(_ count: Int) { open += count }

    /// A look is over.
    mutating func end(_ look: Look) {
        open = max(0, open + look.requests - look.reserved)
        hasBacklog = look.messages > 0 && look.messages >= look.asked
        guard !look.limit.batching.isMixed, look.requests > 0 else { return }
        // A notification to many recipients fills requests within a few looks; the first look at different ones may
        // take too many.
        let average = max(1, (look.messages + look.requests - 1) / look.requests)
        let isGrowing = hasBacklog && look.requests < look.reserved
        perRequest = min(look.limit.batching.limit, isGrowing ? max(average, perRequest * 2) : average)
    }

    /// A request is over; those of a backend before a reload may be more than were counted since.
    mutating func end() { open = max(0, open - 1) }
}

extension RequestBatching {
    /// Parts claims into requests.
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
