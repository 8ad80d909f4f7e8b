import ChaparCore
import ChaparQueue
import Testing

@testable import ChaparStorePostgres

@Suite("Calls that wait for deliveries")
struct ClaimWaitersTests {
    @Test("A call that does not want to wait is looked for once all the same")
    func withoutWaiting() async throws {
        let waiters = ClaimWaiters()
        #expect(waiters.takeStirred(now: 5).isEmpty)
        let answered = Task {
            await withCheckedContinuation { continuation in
                waiters.add(
                    ClaimTicket(
                        number: 1,
                        backend: "apns",
                        limit: 1,
                        normal: 1,
                        until: 5,
                        waits: false,
                        continuation: continuation
                    ),
                    now: 5
                )
            }
        }
        await waiters.signal.wait(after: .start, atMost: .seconds(10), SystemTime())
        #expect(waiters.expire(now: 5) == 0)
        let taken = waiters.takeStirred(now: 5)["apns"] ?? []
        #expect(taken.map(\.number) == [1])
        waiters.putBack(taken, isParked: true, now: 5)
        #expect(try await answered.value.get().isEmpty)
    }

    // MARK: Looks ahead

    private typealias Answer = Result<[ClaimedDelivery], StoreError>

    private static let least = PrefetchedClaims.least
    private let claims = PrefetchedClaimsTests.claims(1...Int64(least))
    private let start = ContinuousClock.now

    /// A worker's call; its answer comes when the waiters give one.
    private func call(
        _ waiters: ClaimWaiters,
        _ number: UInt64,
        at backend: String = "apns"
    ) async -> Task<Answer, Never> {
        let mark = waiters.signal.mark
        let answered = Task {
            await withCheckedContinuation { continuation in
                waiters.add(
                    ClaimTicket(
                        number: number,
                        backend: backend,
                        limit: Self.least,
                        normal: Self.least,
                        until: 1_000,
                        waits: true,
                        continuation: continuation
                    ),
                    now: 0
                )
            }
        }
        await waiters.signal.wait(after: mark, atMost: .seconds(10), SystemTime())
        return answered
    }

    @Test("One look is made at so many backends at most, and the others have their turn in the next one")
    func turns() async {
        let (waiters, most) = (ClaimWaiters(), ClaimWaiters.mostBackends)
        let names = (100..<108 + most).map { "b\($0)" }
        var answers: [Task<Answer, Never>] = []
        for (place, name) in names.enumerated() { answers.append(await call(waiters, UInt64(place), at: name)) }
        let first = waiters.takeStirred(now: 0)
        #expect(Set(first.keys) == Set(names.prefix(most)))
        // Those that were looked at want more at once.
        waiters.putBack(Array(first.values.joined()), isParked: false, now: 0)
        let second = waiters.takeStirred(now: 0)
        #expect(Set(second.keys) == Set(names.suffix(8) + names.prefix(most - 8)))
        for ticket in second.values.joined() { waiters.complete(ticket, .success([])) }
        waiters.close()
        for answer in answers { _ = await answer.value }
    }

    /// A look gave so many to a call, in a moment in which that is a lot, and left some.
    private func fill(_ waiters: ClaimWaiters, by count: Int = least, isForWorkers: Bool = true) async throws {
        let answered = await call(waiters, 1)
        let tickets = waiters.takeStirred(now: 0)["apns"] ?? []
        if tickets.isEmpty { waiters.close() }  // Else the call would wait for ever.
        for ticket in tickets {
            waiters.complete(ticket, .success(claims.prefix(count).map(\.delivery)), at: start)
        }
        waiters.noteFilled("apns", by: isForWorkers ? .init(count: count, normal: 7) : nil, isAhead: false)
        #expect(try await answered.value.get().count == count)
    }

    /// A call is to be looked for; then it ends.
    private func expectStirred(_ waiters: ClaimWaiters, _ number: UInt64, _ answered: Task<Answer, Never>) async {
        let tickets = waiters.takeStirred(now: 0)["apns"] ?? []
        #expect(tickets.map(\.number) == [number])
        for ticket in tickets { waiters.complete(ticket, .success([])) }
        waiters.close()
        _ = await answered.value
    }

    @Test("Deliveries left by a look are prefetched; the next call waits for them and gets them")
    func ahead() async throws {
        let waiters = ClaimWaiters()
        try await fill(waiters)
        let ahead = try #require(waiters.takeAhead(at: start))
        #expect(ahead == ("apns", .init(count: Self.least, normal: 7)))
        #expect(waiters.room("apns") == 0)
        let answered = await call(waiters, 2)
        try #require(waiters.takeStirred(now: 0).isEmpty)
        #expect(waiters.takeParked("apns", isUrgent: true) == nil)
        waiters.keep(claims, of: "apns")
        #expect(try await answered.value.get().map(\.id) == claims.map(\.delivery.id))
        waiters.noteFilled("apns", by: ahead.amount, isAhead: true)
        waiters.endAhead("apns")
        // What is kept is enough.
        waiters.keep(claims, of: "apns")
        #expect(waiters.takeAhead(at: start) == nil)
    }

    @Test("A call that waited for a look ahead that failed is looked for itself, and nothing more is looked for ahead")
    func failedAhead() async throws {
        let waiters = ClaimWaiters()
        try await fill(waiters)
        _ = try #require(waiters.takeAhead(at: start))
        waiters.endAhead("apns")
        try #require(waiters.takeAhead(at: start) == nil)
        try await fill(waiters)
        _ = try #require(waiters.takeAhead(at: start))
        let answered = await call(waiters, 2)
        waiters.endAhead("apns")
        await expectStirred(waiters, 2, answered)
    }

    @Test(
        "A call behind the one that took what was kept is looked for, though nothing was due a moment before the backlog"
    )
    func behind() async throws {
        let waiters = ClaimWaiters()
        waiters.noteEmpty("apns")
        waiters.stir("apns")
        try await fill(waiters)
        let ahead = try #require(waiters.takeAhead(at: start))
        waiters.keep(claims, of: "apns")
        waiters.noteFilled("apns", by: ahead.amount, isAhead: true)
        waiters.endAhead("apns")
        #expect(try await call(waiters, 2).value.get().count == Self.least)
        let answered = await call(waiters, 3)
        await expectStirred(waiters, 3, answered)
    }

    @Test("Nothing is prefetched for calls that take little or all, or that did not come again in time")
    func nothingAhead() async throws {
        let waiters = ClaimWaiters()
        for _ in 0..<2 { try await fill(waiters, by: Self.least - 1) }
        #expect(waiters.takeAhead(at: start) == nil)
        try await fill(waiters)
        waiters.noteEmpty("apns")
        #expect(waiters.takeAhead(at: start) == nil)
        waiters.stir("apns")
        try await fill(waiters, isForWorkers: false)
        #expect(waiters.takeAhead(at: start) == nil)
        try await fill(waiters)
        waiters.keep(claims, of: "apns")
        #expect(waiters.takeOverdue(all: true)["apns"]?.count == Self.least)
        #expect(waiters.takeAhead(at: start) == nil)
        #expect(waiters.takeAhead(at: start + .milliseconds(1)) == nil)
    }
}
