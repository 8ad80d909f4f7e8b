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
}
