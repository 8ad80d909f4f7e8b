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
    /// Whether it waits at all, as those of workers do.
    let waits: Bool
    let continuation: Continuation
}

/// The calls of `claim` that wait on this node, and what is kept for those to come.
///
/// A call gets what was claimed for this node before it came (``ClaimReserve``), unless there is news of something else
/// that is due. Else it is looked for at once (`ClaimLoop`); when there was nothing, or a moment ago, it is parked, and
/// then gets what is accepted on this node without another statement. While somebody looks or accepts for it, a ticket
/// is in hand: not here, so that nobody else serves it.
final class ClaimWaiters: Sendable {
    private struct State {
        var waiting: [String: [ClaimTicket]] = [:]
        /// What was claimed for the calls to come.
        var reserves: [String: ClaimReserve] = [:]
        /// Backends whose tickets are to be looked for, since something may be due that was not given to them.
        var stirred: Set<String> = []
        /// When a look found nothing more at a backend.
        var emptied: [String: ContinuousClock.Instant] = [:]
        /// What the last look took for workers at a backend where more was due.
        var filled: [String: Portion] = [:]
        /// Until when nothing is claimed ahead at a backend, since it was not taken.
        var aheadAfter: [String: ContinuousClock.Instant] = [:]
        /// The backend that is looked at for calls to come, whose tickets wait for that meanwhile.
        var lookedAhead: String?
        /// Backends at which something may wait that was due long ago.
        var older: Set<String> = []
        /// When something comes due that this node knows of, the earliest for each backend.
        var dueTimes: [String: Int64] = [:]
        /// Numbers of tickets in hand, and those among them whose callers have gone.
        var inHand: Set<UInt64> = []
        var gone: Set<UInt64> = []
        var nextNumber: UInt64 = 0
        var nextPoll: Int64 = .min
        /// The backend that was the last one in the last look.
        var lastLooked = ""
        var isClosed = false

        /// Whether there is no news of a backend since what is in its reserve was claimed.
        func isCalm(_ backend: String, now: Int64) -> Bool {
            !stirred.contains(backend) && !older.contains(backend) && now < nextPoll && now < dueTimes[backend] ?? .max
        }

        /// Whether a call at a backend has nothing to look for itself: a look found nothing more a moment ago, or is
        /// under way.
        func isLookedFor(_ backend: String) -> Bool {
            lookedAhead == backend || emptied[backend].map { $0.duration(to: .now) < ClaimWaiters.moment } ?? false
        }

        /// Takes what is kept for a ticket.
        mutating func take(for ticket: ClaimTicket) -> [Claim] {
            guard let claims = reserves[ticket.backend]?.take(ticket.limit, normal: ticket.normal), !claims.isEmpty
            else {
                return []
            }
            reserves[ticket.backend]?.noteTaken(claims.count)
            return claims
        }

        /// Serves parked tickets of a backend with what is kept.
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
    struct Portion: Equatable {
        var count: Int
        var normal: Int
    }

    /// The interval, in milliseconds, at which new work of other nodes is searched for.
    private static let pollIntervals: ClosedRange<Int64> = 850...1_150
    /// A call that waits is parked without another search for this long after one that found nothing more.
    fileprivate static let moment = Duration.milliseconds(100)
    /// The pause in claiming ahead for a backend whose workers did not come for what was claimed.
    private static let aheadPause = Duration.seconds(10)
    /// The number of backends that one look is made at.
    static let mostBackends = 32
    /// The interval, in milliseconds, at which reserves that no worker takes from are inspected.
    private static let reserveInterval: Int64 = 250

    private let state = Mutex(State())
    let signal = AsyncSignal()

    func makeNumber() -> UInt64 {
        state.withLock { state in
            state.nextNumber += 1
            return state.nextNumber
        }
    }

    /// Takes a ticket, or answers it: from what is kept, or because it is closed.
    func add(_ ticket: ClaimTicket, now: Int64) {
        typealias Answer = Result<[ClaimedDelivery], StoreError>
        let (answer, isNews): (Answer?, Bool) = state.withLock { state in
            guard !state.isClosed else { return (.failure(.closed), false) }
            if state.isCalm(ticket.backend, now: now) {
                let claims = state.take(for: ticket)
                if !claims.isEmpty { return (.success(claims.map(\.delivery)), state.filled[ticket.backend] != nil) }
            }
            if ticket.until <= now || !state.isCalm(ticket.backend, now: now) || !state.isLookedFor(ticket.backend) {
                state.stirred.insert(ticket.backend)
            }
            state.waiting[ticket.backend, default: []].append(ticket)
            return (nil, true)
        }
        if let answer { ticket.continuation.resume(returning: answer) }
        if isNews { signal.signal() }
    }

    // MARK: The reserve

    /// How many deliveries of a backend may be claimed for calls to come.
    func room(_ backend: String) -> Int {
        // During a look ahead what is accepted goes to the table: older ones are on their way into the reserve.
        state.withLock { $0.isClosed || $0.lookedAhead == backend ? 0 : $0.reserves[backend]?.room() ?? 0 }
    }

    /// Keeps what was claimed for calls to come.
    func keep(_ claims: [Claim], of backend: String) {
        let (served, isNews) = state.withLock { state in
            let isNews = state.reserves[backend]?.count ?? 0 == 0
            state.reserves[backend, default: ClaimReserve()].keep(claims)
            return (state.serve(backend), isNews)
        }
        for (ticket, claims) in served {
            ticket.continuation.resume(returning: .success(claims.map(\.delivery)))
        }
        if isNews { signal.signal() }  // Somebody has to see to it that it does not stay.
    }

    /// How many are kept for a backend.
    func kept(_ backend: String) -> Int { state.withLock { $0.reserves[backend]?.count ?? 0 } }

    /// Takes what is kept for a ticket that is in hand and got some already.
    func takeKept(_ ticket: ClaimTicket, limit: Int, normal: Int) -> [Claim] {
        state.withLock { $0.reserves[ticket.backend]?.take(limit, normal: normal) ?? [] }
    }

    /// Takes what was kept for too long, or all of it.
    func takeOverdue(all: Bool = false) -> [String: [Claim]] {
        state.withLock { state in
            var found: [String: [Claim]] = [:]
            for backend in state.reserves.keys {
                let claims = all ? state.reserves[backend]?.takeAll() : state.reserves[backend]?.takeOverdue()
                guard let claims, !claims.isEmpty else { continue }
                found[backend] = claims
                state.aheadAfter[backend] = .now + Self.aheadPause
            }
            return found
        }
    }

    /// A look at a backend took all that is due.
    func noteEmpty(_ backend: String) {
        state.withLock { state in
            state.emptied[backend] = .now
            state.filled[backend] = nil
        }
    }

    /// A look at a backend took so many and left some that are due: the next call is looked for as well, unless this
    /// look was for it.
    ///
    /// - Parameters:
    ///   - backend: The backend.
    ///   - portion: What it took for workers, who will come for more; nil when it was for others.
    ///   - isAhead: Whether it was ahead of the next call.
    func noteFilled(_ backend: String, by portion: Portion?, isAhead: Bool) {
        state.withLock { state in
            state.emptied[backend] = nil
            state.filled[backend] = portion
            if !isAhead { state.stirred.insert(backend) }
        }
    }

    // MARK: Looks ahead

    /// A backend to look at before its next call comes, and what for.
    ///
    /// The last look took at least ``ClaimReserve/least`` and left some that are due, nothing is kept, and there is
    /// room for as many. So a single worker's next portion is claimed while it ends the one before.
    func takeAhead(at now: ContinuousClock.Instant = .now) -> (backend: String, portion: Portion)? {
        state.withLock { state in
            guard !state.isClosed else { return nil }
            for (backend, portion) in state.filled where portion.count >= ClaimReserve.least {
                guard state.waiting[backend]?.isEmpty ?? true, state.aheadAfter[backend] ?? now <= now,
                    state.reserves[backend]?.count == 0, state.reserves[backend]?.room(at: now) ?? 0 >= portion.count
                else { continue }
                state.filled[backend] = nil  // Not once more, unless this look is filled as well.
                state.stirred.remove(backend)
                state.lookedAhead = backend
                return (backend, portion)
            }
            return nil
        }
    }

    /// A look ahead has ended: tickets that came meanwhile and got nothing are looked for.
    func endAhead(_ backend: String) {
        state.withLock { state in
            state.lookedAhead = nil
            if !state.isLookedFor(backend), state.waiting[backend]?.isEmpty == false { state.stirred.insert(backend) }
        }
    }

    // MARK: Looks

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
            guard !state.stirred.contains(backend), state.lookedAhead != backend,
                let place = state.waiting[backend]?.firstIndex(where: { isUrgent || $0.normal > 0 })
            else { return nil }
            let ticket = state.waiting[backend]?.remove(at: place)
            if let ticket { state.inHand.insert(ticket.number) }
            return ticket
        }
    }

    /// Takes the tickets of the backends that are to be looked at now, ``mostBackends`` at most.
    ///
    /// A look at all of many backends would be one long statement, and one of them that is slow would hold up the
    /// others. They take turns in the order of their names: a call begins behind the last backend of the one before.
    func takeStirred(now: Int64) -> [String: [ClaimTicket]] {
        state.withLock { state in
            for (backend, due) in state.dueTimes where due <= now {
                state.dueTimes[backend] = nil
                state.stirred.insert(backend)
            }
            let left = state.nextPoll.subtracting(clamping: now)
            if left <= 0 || left > 2_000 {  // Or the time has gone back.
                state.nextPoll = now.adding(clamping: .random(in: Self.pollIntervals))
                state.stirred.formUnion(state.waiting.keys)
                for (backend, reserve) in state.reserves where reserve.count > 0 { state.stirred.insert(backend) }
            }
            var taken: [String: [ClaimTicket]] = [:]
            for backend in state.stirred where state.waiting[backend]?.isEmpty == true { state.waiting[backend] = nil }
            let wanted = state.stirred.filter { state.waiting[$0] != nil }.sorted()
            let first = wanted.firstIndex { $0 > state.lastLooked } ?? 0
            for backend in (wanted[first...] + wanted[..<first]).prefix(Self.mostBackends) {
                guard let tickets = state.waiting.removeValue(forKey: backend) else { continue }
                state.inHand.formUnion(tickets.map(\.number))
                taken[backend] = tickets
                state.lastLooked = backend
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
                state.reserves[ticket.backend, default: ClaimReserve()].noteTaken(claims.count, at: now)
            }
        }
        ticket.continuation.resume(returning: result)
    }

    /// Puts back tickets that were in hand and got nothing; those whose time is over are answered.
    ///
    /// They are parked where nothing was due for them.
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
            // Some may have been kept since the look.
            let served = Set(tickets.map(\.backend)).flatMap { state.serve($0) }
            return (over, served, state.isClosed)
        }
        for (ticket, claims) in served {
            ticket.continuation.resume(returning: .success(claims.map(\.delivery)))
        }
        for ticket in over { ticket.continuation.resume(returning: isClosed ? .failure(.closed) : .success([])) }
        if !isParked { signal.signal() }
    }

    /// Answers those whose time is over, and gives how long nothing is to be done, in milliseconds.
    func expire(now: Int64) -> Int64 {
        let (over, span) = state.withLock { state in
            var over: [ClaimTicket] = []
            var next = state.waiting.isEmpty ? now.adding(clamping: 3_600_000) : state.nextPoll
            if state.reserves.values.contains(where: { $0.count > 0 }) {
                next = min(next, now.adding(clamping: Self.reserveInterval))
            }
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
            return (over, max(0, next.subtracting(clamping: now)))
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
