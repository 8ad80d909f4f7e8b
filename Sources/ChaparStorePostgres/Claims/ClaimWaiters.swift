internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// A call of `claim` that waits for deliveries.
struct ClaimTicket: Sendable {
    typealias Continuation = CheckedContinuation<Result<[ClaimedDelivery], StoreError>, Never>

    let number: UInt64
    let backend: String
    let limit: Int
    /// The most deliveries of normal priority that it may take.
    let normal: Int
    /// The end of its wait, in steady milliseconds.
    let until: Int64
    /// Whether it waits at all, as the calls of workers do.
    let waits: Bool
    let continuation: Continuation
}

/// The calls of `claim` that wait on this node, and the claims that are kept for later calls.
///
/// A call gets what this node has already claimed (``PrefetchedClaims``), unless something else may be due. Otherwise
/// there is a search at once (`ClaimLoop`). When it finds nothing, or one found nothing a moment ago, the call is
/// parked, and then gets what is accepted on this node without another statement. While a search or an acceptance
/// serves a ticket, it is in hand: it is not in this list, so that nothing else serves it.
final class ClaimWaiters: Sendable {
    private struct State {
        var waiting: [String: [ClaimTicket]] = [:]
        /// The claims that are kept for later calls.
        var prefetched: [String: PrefetchedClaims] = [:]
        /// The backends whose tickets need a search, since something may be due that they were not given.
        var stirred: Set<String> = []
        /// The time of the last search at a backend that found nothing more.
        var emptied: [String: ContinuousClock.Instant] = [:]
        /// The amount that the last search claimed for workers at a backend where more was due.
        var filled: [String: Amount] = [:]
        /// The time before which nothing is claimed ahead at a backend, since its workers did not come for it.
        var aheadAfter: [String: ContinuousClock.Instant] = [:]
        /// The backend at which claims are made ahead; its tickets wait for them meanwhile.
        var prefetching: String?
        /// The backends where something may wait that was due long ago.
        var older: Set<String> = []
        /// The earliest due time that this node knows of, by backend.
        var dueTimes: [String: Int64] = [:]
        /// The numbers of tickets in hand; ``gone`` has those whose callers have gone.
        var inHand: Set<UInt64> = []
        var gone: Set<UInt64> = []
        var nextNumber: UInt64 = 0
        var nextPoll: Int64 = .min
        /// The last backend of the last search.
        var lastSearched = ""
        var isClosed = false

        /// Whether nothing has happened at a backend since its claims were prefetched.
        func isCalm(_ backend: String, now: Int64) -> Bool {
            !stirred.contains(backend) && !older.contains(backend) && now < nextPoll && now < dueTimes[backend] ?? .max
        }

        /// Whether a call at a backend needs no search of its own: one found nothing more a moment ago, or is under
        /// way.
        func isSearched(_ backend: String) -> Bool {
            prefetching == backend || emptied[backend].map { $0.duration(to: .now) < ClaimWaiters.moment } ?? false
        }

        /// Takes prefetched claims for a ticket.
        mutating func take(for ticket: ClaimTicket) -> [Claim] {
            guard let claims = prefetched[ticket.backend]?.take(ticket.limit, normal: ticket.normal), !claims.isEmpty
            else {
                return []
            }
            prefetched[ticket.backend]?.noteTaken(claims.count)
            return claims
        }

        /// Serves parked tickets of a backend with prefetched claims.
        mutating func serve(_ backend: String) -> [(ClaimTicket, [Claim])] {
            guard !stirred.contains(backend), let tickets = waiting[backend] else { return [] }
            var served: [(ClaimTicket, [Claim])] = []
            var rest: [ClaimTicket] = []
            for ticket in tickets {
                let claims = take(for: ticket)
                if claims.isEmpty { rest.append(ticket) } else { served.append((ticket, claims)) }
            }
            if !served.isEmpty { waiting[backend] = rest.isEmpty ? nil : rest }
            return served
        }
    }

    /// A number of deliveries, and how many of them may be of normal priority.
    struct Amount: Equatable {
        var count: Int
        var normal: Int
    }

    /// The interval, in milliseconds, at which new work of other nodes is searched for.
    private static let pollIntervals: ClosedRange<Int64> = 850...1_150
    /// A call that waits is parked without another search for this long after one that found nothing more.
    fileprivate static let moment = Duration.milliseconds(100)
    /// The pause in claiming ahead for a backend whose workers did not come for what was claimed.
    private static let aheadPause = Duration.seconds(10)
    /// The most backends that one search covers.
    static let mostBackends = 32
    /// The interval, in milliseconds, at which prefetched claims that no worker takes are inspected.
    private static let prefetchInterval: Int64 = 250

    private let state = Mutex(State())
    let signal = AsyncSignal()

    func makeNumber() -> UInt64 {
        state.withLock { state in
            state.nextNumber += 1
            return state.nextNumber
        }
    }

    /// Adds a ticket, or answers it: with prefetched claims, or because the store is closed.
    func add(_ ticket: ClaimTicket, now: Int64) {
        typealias Answer = Result<[ClaimedDelivery], StoreError>
        let (answer, isNews): (Answer?, Bool) = state.withLock { state in
            guard !state.isClosed else { return (.failure(.closed), false) }
            if state.isCalm(ticket.backend, now: now) {
                let claims = state.take(for: ticket)
                if !claims.isEmpty { return (.success(claims.map(\.delivery)), state.filled[ticket.backend] != nil) }
            }
            if ticket.until <= now || !state.isCalm(ticket.backend, now: now) || !state.isSearched(ticket.backend) {
                state.stirred.insert(ticket.backend)
            }
            state.waiting[ticket.backend, default: []].append(ticket)
            return (nil, true)
        }
        if let answer { ticket.continuation.resume(returning: answer) }
        if isNews { signal.signal() }
    }

    // MARK: Prefetched claims

    /// Returns how many deliveries of a backend may be claimed for later calls.
    func room(_ backend: String) -> Int {
        // During a claim ahead, accepted deliveries go to the table: older ones are being prefetched.
        state.withLock { $0.isClosed || $0.prefetching == backend ? 0 : $0.prefetched[backend]?.room() ?? 0 }
    }

    /// Keeps claims for later calls, and serves parked ones.
    func keep(_ claims: [Claim], of backend: String) {
        let (served, isNews) = state.withLock { state in
            let isNews = state.prefetched[backend]?.count ?? 0 == 0
            state.prefetched[backend, default: PrefetchedClaims()].keep(claims)
            return (state.serve(backend), isNews)
        }
        for (ticket, claims) in served {
            ticket.continuation.resume(returning: .success(claims.map(\.delivery)))
        }
        if isNews { signal.signal() }  // The claim loop gives back what no call takes.
    }

    /// Returns how many claims are kept for a backend.
    func kept(_ backend: String) -> Int { state.withLock { $0.prefetched[backend]?.count ?? 0 } }

    /// Takes prefetched claims for a ticket that is in hand and got some already.
    func takeKept(_ ticket: ClaimTicket, limit: Int, normal: Int) -> [Claim] {
        state.withLock { $0.prefetched[ticket.backend]?.take(limit, normal: normal) ?? [] }
    }

    /// Takes the claims that were kept too long, or all of them.
    func takeOverdue(all: Bool = false) -> [String: [Claim]] {
        state.withLock { state in
            var found: [String: [Claim]] = [:]
            for backend in state.prefetched.keys {
                let claims = all ? state.prefetched[backend]?.takeAll() : state.prefetched[backend]?.takeOverdue()
                guard let claims, !claims.isEmpty else { continue }
                found[backend] = claims
                state.aheadAfter[backend] = .now + Self.aheadPause
            }
            return found
        }
    }

    /// Records that a search at a backend claimed all that is due.
    func noteEmpty(_ backend: String) {
        state.withLock { state in
            state.emptied[backend] = .now
            state.filled[backend] = nil
        }
    }

    /// Records that more was due at a backend than a search claimed.
    ///
    /// The next call gets a search as well, unless this search was made ahead of that call.
    ///
    /// - Parameters:
    ///   - backend: The backend.
    ///   - amount: The amount that it claimed for workers, which will call again; nil when it was for others.
    ///   - isAhead: Whether it was ahead of the next call.
    func noteFilled(_ backend: String, by amount: Amount?, isAhead: Bool) {
        state.withLock { state in
            state.emptied[backend] = nil
            state.filled[backend] = amount
            if !isAhead { state.stirred.insert(backend) }
        }
    }

    // MARK: Prefetching

    /// Returns a backend at which to claim ahead of its next call, and the amount to claim.
    ///
    /// The last search claimed at least ``PrefetchedClaims/least`` and left some that are due, nothing is prefetched,
    /// and there is room for as many. So the next deliveries of a single worker are claimed while it works on the
    /// present ones.
    func takeAhead(at now: ContinuousClock.Instant = .now) -> (backend: String, amount: Amount)? {
        state.withLock { state in
            guard !state.isClosed else { return nil }
            for (backend, amount) in state.filled where amount.count >= PrefetchedClaims.least {
                guard state.waiting[backend]?.isEmpty ?? true, state.aheadAfter[backend] ?? now <= now,
                    state.prefetched[backend]?.count == 0, state.prefetched[backend]?.room(at: now) ?? 0 >= amount.count
                else { continue }
                state.filled[backend] = nil  // Not again, unless this search is filled as well.
                state.stirred.remove(backend)
                state.prefetching = backend
                return (backend, amount)
            }
            return nil
        }
    }

    /// Ends a claim ahead: tickets that came meanwhile and got nothing need a search.
    func endAhead(_ backend: String) {
        state.withLock { state in
            state.prefetching = nil
            if !state.isSearched(backend), state.waiting[backend]?.isEmpty == false { state.stirred.insert(backend) }
        }
    }

    // MARK: Searches

    /// Answers a caller whose task was cancelled; a ticket in hand still gets what is found for it.
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

    /// Returns whether something may wait at a backend that was due long ago, and resets that.
    func takeOlder(_ backend: String) -> Bool { state.withLock { $0.older.remove(backend) != nil } }

    /// Records that something may be due at a backend, now or at a time; `isOlder` when it may have been due for long.
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
            guard !state.stirred.contains(backend), state.prefetching != backend,
                let place = state.waiting[backend]?.firstIndex(where: { isUrgent || $0.normal > 0 })
            else { return nil }
            let ticket = state.waiting[backend]?.remove(at: place)
            if let ticket { state.inHand.insert(ticket.number) }
            return ticket
        }
    }

    /// Takes the tickets of the backends that need a search now, ``mostBackends`` at most.
    ///
    /// A search at all of many backends would be one long statement, and a slow one of them would hold up the others.
    /// They take turns in the order of their names: a call begins after the last backend of the one before.
    func takeStirred(now: Int64) -> [String: [ClaimTicket]] {
        state.withLock { state in
            for (backend, due) in state.dueTimes where due <= now {
                state.dueTimes[backend] = nil
                state.stirred.insert(backend)
            }
            let left = state.nextPoll.subtracting(clamping: now)
            if left <= 0 || left > 2_000 {  // The second is for a clock that went back.
                state.nextPoll = now.adding(clamping: .random(in: Self.pollIntervals))
                state.stirred.formUnion(state.waiting.keys)
                for (backend, claims) in state.prefetched where claims.count > 0 { state.stirred.insert(backend) }
            }
            var taken: [String: [ClaimTicket]] = [:]
            for backend in state.stirred where state.waiting[backend]?.isEmpty == true { state.waiting[backend] = nil }
            let wanted = state.stirred.filter { state.waiting[$0] != nil }.sorted()
            let first = wanted.firstIndex { $0 > state.lastSearched } ?? 0
            for backend in (wanted[first...] + wanted[..<first]).prefix(Self.mostBackends) {
                guard let tickets = state.waiting.removeValue(forKey: backend) else { continue }
                state.inHand.formUnion(tickets.map(\.number))
                taken[backend] = tickets
                state.lastSearched = backend
            }
            for backend in taken.keys { state.stirred.remove(backend) }
            return taken
        }
    }

    /// Answers a ticket that was in hand.
    func complete(
        _ ticket: ClaimTicket,
        _ result: Result<[ClaimedDelivery], StoreError>,
        at now: ContinuousClock.Instant = .now
    ) {
        state.withLock { state in
            state.inHand.remove(ticket.number)
            state.gone.remove(ticket.number)
            if case .success(let claims) = result {
                state.prefetched[ticket.backend, default: PrefetchedClaims()].noteTaken(claims.count, at: now)
            }
        }
        ticket.continuation.resume(returning: result)
    }

    /// Puts back tickets that were in hand and got nothing; answers those whose time is over.
    ///
    /// With `isParked` they need no search, since nothing was due for them.
    func putBack(_ tickets: [ClaimTicket], isParked: Bool, now: Int64) {
        let (over, served, isClosed) = state.withLock { state in
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
            // Claims may have been kept since the search.
            let served = Set(tickets.map(\.backend)).flatMap { state.serve($0) }
            return (over, served, state.isClosed)
        }
        for (ticket, claims) in served {
            ticket.continuation.resume(returning: .success(claims.map(\.delivery)))
        }
        for ticket in over { ticket.continuation.resume(returning: isClosed ? .failure(.closed) : .success([])) }
        if !isParked { signal.signal() }
    }

    /// Answers tickets whose time is over; returns the milliseconds until something is to be done.
    func expire(now: Int64) -> Int64 {
        let (over, span) = state.withLock { state in
            var over: [ClaimTicket] = []
            var next = state.waiting.isEmpty ? now.adding(clamping: 3_600_000) : state.nextPoll
            if state.prefetched.values.contains(where: { $0.count > 0 }) {
                next = min(next, now.adding(clamping: Self.prefetchInterval))
            }
            for (backend, tickets) in state.waiting {
                // A new ticket gets one search, however short its wait.
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
            return (over, max(0, next.subtracting(clamping: now)))
        }
        for ticket in over { ticket.continuation.resume(returning: .success([])) }
        return span
    }

    /// Answers all tickets, and every later one, with `StoreError.closed`.
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
