internal import PushCore
internal import PushQueue
internal import Synchronization

/// A call of `claim` that waits for deliveries.
struct ClaimTicket: Sendable {
    typealias Continuation = CheckedContinuation<Result<[ClaimedDelivery], StoreError>, Never>

    let number: UInt64
    let backend: String
    let limit: Int
    /// How many of normal priority it may take.
    let normal: Int
    /// Until when it waits, in steady milliseconds.
    let until: Int64
    let continuation: Continuation
}

/// The calls of `claim` that wait on this node.
///
/// A call is looked for at once (`ClaimLoop`); when there was nothing it is parked, and then gets what is accepted on this node without
/// another statement. While somebody looks or accepts for it, a ticket is in hand: not here, so that nobody else serves it.
final class ClaimWaiters: Sendable {
    private struct State {
        var waiting: [String: [ClaimTicket]] = [:]
        /// Backends whose tickets are to be looked for, since something may be due that was not given to them.
        var stirred: Set<String> = []
        /// Backends at which something may wait that was due long ago.
        var older: Set<String> = []
        /// When something comes due that this node knows of, the earliest for each backend.
        var dueTimes: [String: Int64] = [:]
        /// Numbers of tickets in hand, and those among them whose callers have gone.
        var inHand: Set<UInt64> = []
        var gone: Set<UInt64> = []
        var nextNumber: UInt64 = 0
        var nextPoll: Int64 = .min
        var isClosed = false
    }

    /// So often what other nodes have accepted is looked for, in milliseconds.
    private static let pollInterval: Int64 = 1_000

    private let state = Mutex(State())
    let signal = AsyncSignal()

    func makeNumber() -> UInt64 {
        state.withLock { state in
            state.nextNumber += 1
            return state.nextNumber
        }
    }

    /// Takes a ticket; false when it is closed.
    func add(_ ticket: ClaimTicket) {
        let isOpen = state.withLock { state in
            guard !state.isClosed else { return false }
            state.waiting[ticket.backend, default: []].append(ticket)
            state.stirred.insert(ticket.backend)
            return true
        }
        if isOpen { signal.signal() } else { ticket.continuation.resume(returning: .failure(.closed)) }
    }

    /// Lets a caller go whose task was cancelled; what is in hand for it is given to it all the same.
    func cancel(_ number: UInt64) {
        let ticket = state.withLock { state -> ClaimTicket? in
            for (backend, tickets) in state.waiting {
                guard let place = tickets.firstIndex(where: { $0.number == number }) else { continue }
                return state.waiting[backend]?.remove(at: place)
            }
            if state.inHand.contains(number) { state.gone.insert(number) }
            return nil
        }
        ticket?.continuation.resume(returning: .success([]))
    }

    /// Whether something may wait at a backend that was due long ago; asked once.
    func takeOlder(_ backend: String) -> Bool { state.withLock { $0.older.remove(backend) != nil } }

    /// Something may be due at a backend, at once or at a time; `isOlder` when it may have been due for long.
    func stir(_ backend: String, due: Int64? = nil, isOlder: Bool = false) {
        let isNews = state.withLock { state in
            if isOlder { state.older.insert(backend) }
            if let due {
                let isEarlier = due < state.dueTimes[backend] ?? .max
                if isEarlier { state.dueTimes[backend] = due }
                return isEarlier && state.waiting[backend] != nil
            }
            return state.stirred.insert(backend).inserted && state.waiting[backend] != nil
        }
        if isNews { signal.signal() }
    }

    /// Takes a parked ticket for deliveries that are being accepted: nothing was due for it a moment ago.
    func takeParked(_ backend: String, isUrgent: Bool) -> ClaimTicket? {
        state.withLock { state in
            guard !state.stirred.contains(backend),
                let place = state.waiting[backend]?.firstIndex(where: { isUrgent || $0.normal > 0 })
            else { return nil }
            let ticket = state.waiting[backend]?.remove(at: place)
            if let ticket { state.inHand.insert(ticket.number) }
            return ticket
        }
    }

    /// Takes the tickets of all backends that are to be looked at now.
    func takeStirred(now: Int64) -> [String: [ClaimTicket]] {
        state.withLock { state in
            for (backend, due) in state.dueTimes where due <= now {
                state.dueTimes[backend] = nil
                state.stirred.insert(backend)
            }
            if now >= state.nextPoll {
                state.nextPoll = now + Self.pollInterval * Int64.random(in: 85...115) / 100
                state.stirred.formUnion(state.waiting.keys)
            }
            var taken: [String: [ClaimTicket]] = [:]
            for backend in state.stirred {
                guard let tickets = state.waiting.removeValue(forKey: backend), !tickets.isEmpty else { continue }
                state.inHand.formUnion(tickets.map(\.number))
                taken[backend] = tickets
            }
            for backend in taken.keys { state.stirred.remove(backend) }
            return taken
        }
    }

    /// Answers a ticket that was in hand.
    func complete(_ ticket: ClaimTicket, _ result: Result<[ClaimedDelivery], StoreError>) {
        state.withLock { state in
            state.inHand.remove(ticket.number)
            state.gone.remove(ticket.number)
        }
        ticket.continuation.resume(returning: result)
    }

    /// Puts back tickets that were in hand and got nothing; those whose time is over are answered.
    ///
    /// They are parked where nothing was due for them.
    func putBack(_ tickets: [ClaimTicket], isParked: Bool, now: Int64) {
        let (over, isClosed) = state.withLock { state in
            var over: [ClaimTicket] = []
            for ticket in tickets {
                state.inHand.remove(ticket.number)
                if state.gone.remove(ticket.number) != nil || ticket.until <= now || state.isClosed {
                    over.append(ticket)
                } else {
                    state.waiting[ticket.backend, default: []].append(ticket)
                    if !isParked { state.stirred.insert(ticket.backend) }
                }
            }
            return (over, state.isClosed)
        }
        for ticket in over { ticket.continuation.resume(returning: isClosed ? .failure(.closed) : .success([])) }
        if !isParked { signal.signal() }
    }

    /// Answers those whose time is over, and gives how long nothing is to be done, in milliseconds.
    func expire(now: Int64) -> Int64 {
        let (over, span) = state.withLock { state in
            var over: [ClaimTicket] = []
            var next = state.waiting.isEmpty ? now + 3_600_000 : state.nextPoll
            for (backend, tickets) in state.waiting {
                // What came a moment ago is looked for once, however short it waits.
                guard !state.stirred.contains(backend) else {
                    next = now
                    continue
                }
                over += tickets.filter { $0.until <= now }
                let rest = tickets.filter { $0.until > now }
                state.waiting[backend] = rest.isEmpty ? nil : rest
                for ticket in rest { next = min(next, ticket.until) }
                if let due = state.dueTimes[backend] { next = min(next, due) }
            }
            return (over, max(0, next - now))
        }
        for ticket in over { ticket.continuation.resume(returning: .success([])) }
        return span
    }

    /// Answers all who wait, and whoever comes later.
    func close() {
        let tickets = state.withLock { state in
            state.isClosed = true
            defer { state.waiting.removeAll() }
            return state.waiting.values.flatMap { $0 }
        }
        for ticket in tickets { ticket.continuation.resume(returning: .failure(.closed)) }
        signal.signal()
    }
}
