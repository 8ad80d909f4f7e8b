import PushCore
import PushQueue
import Testing

@testable import PushStorePostgres

@Suite("Calls that wait for deliveries")
struct ClaimWaitersTests {
    @Test("A call that does not want to wait is looked for once all the same")
    func withoutWaiting() async throws {
        let waiters = ClaimWaiters()
        #expect(waiters.takeStirred(now: 5).isEmpty)
        let answered = Task {
            await withCheckedContinuation { continuation in
                waiters.add(
                    ClaimTicket(number: 1, backend: "apns", limit: 1, normal: 1, until: 5, continuation: continuation),
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
    private typealias Answer = Result<[ClaimedDelivery], StoreError>

    /// A call that takes as many as make a reserve; its answer comes when the waiters give one.
    private func call(_ waiters: ClaimWaiters, _ number: UInt64) async -> Task<Answer, Never> {
        let mark = waiters.signal.mark
        let answered = Task {
            await withCheckedContinuation { continuation in
                waiters.add(
                    ClaimTicket(
                        number: number,
                        backend: "apns",
                        limit: ClaimReserve.least,
                        normal: ClaimReserve.least,
                        until: 1_000,
                        continuation: continuation
                    ),
                    now: 0
                )
            }
        }
        await waiters.signal.wait(after: mark, atMost: .seconds(10), SystemTime())
        return answered
    }

    private let claims = ClaimReserveTests.claims(1...Int64(ClaimReserve.least))

    /// A look gave as many to a call and left some.
    private func fill(_ waiters: ClaimWaiters, by count: Int = ClaimReserve.least) async throws {
        let answered = await call(waiters, 1)
        for ticket in waiters.takeStirred(now: 0)["apns"] ?? [] {
            waiters.complete(ticket, .success(claims.prefix(count).map(\.delivery)))
        }
        waiters.noteFilled("apns", by: count, isAhead: false)
        #expect(try await answered.value.get().count == count)
    }

    @Test("What a look left is looked for ahead of the next call, which waits for that and gets what is found")
    func ahead() async throws {
        let waiters = ClaimWaiters()
        try await fill(waiters)
        let ahead = try #require(waiters.takeAhead())
        #expect(ahead == ("apns", ClaimReserve.least))
        let answered = await call(waiters, 2)
        #expect(waiters.takeStirred(now: 0).isEmpty)
        #expect(waiters.takeParked("apns", isUrgent: true) == nil)
        waiters.keep(claims, of: "apns")
        #expect(try await answered.value.get().map(\.id) == claims.map(\.delivery.id))
        waiters.noteFilled("apns", by: claims.count, isAhead: true)
        waiters.endAhead("apns")
        // What is kept is enough.
        waiters.keep(claims, of: "apns")
        #expect(waiters.takeAhead() == nil)
    }

    @Test("A call that waited for a look ahead that failed is looked for itself, and nothing more is looked for ahead")
    func failedAhead() async throws {
        let waiters = ClaimWaiters()
        try await fill(waiters)
        _ = try #require(waiters.takeAhead())
        waiters.endAhead("apns")
        #expect(waiters.takeAhead() == nil)
        try await fill(waiters)
        _ = try #require(waiters.takeAhead())
        let answered = await call(waiters, 2)
        waiters.endAhead("apns")
        let tickets = waiters.takeStirred(now: 0)["apns"] ?? []
        #expect(tickets.map(\.number) == [2])
        for ticket in tickets { waiters.complete(ticket, .success([])) }
        waiters.close()
        #expect(try await answered.value.get().isEmpty)
    }

    @Test("Nothing is looked for ahead where calls take little, or all")
    func nothingAhead() async throws {
        let waiters = ClaimWaiters()
        for _ in 0..<2 { try await fill(waiters, by: ClaimReserve.least - 1) }
        #expect(waiters.takeAhead() == nil)
        try await fill(waiters)
        waiters.noteEmpty("apns")
        #expect(waiters.takeAhead() == nil)
    }
}
