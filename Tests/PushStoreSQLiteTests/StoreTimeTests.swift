import Foundation
import PushCore
import PushTesting
import Testing

@testable import PushStoreSQLite

@Suite("The clock of a store", .timeLimit(.minutes(1)))
struct StoreTimeTests {
    @Test("waits until a time of its own, however far that is from the clock below it", arguments: [0, 5_000, -5_000])
    func waits(shift: Int64) async throws {
        let base = ManualTime()
        let time = StoreTime(base: base, shift: shift)
        async let wait: Void = time.sleep(until: time.steady.addingTimeInterval(10))
        while base.sleeping == 0 { await Task.yield() }
        base.advance(by: .seconds(9))
        #expect(base.sleeping == 1)
        base.advance(by: .seconds(1))
        #expect(base.sleeping == 0)
        try await wait
    }

    @Test("does not wait until a time that passed between the look at the clock and the wait")
    func passed() async throws {
        let base = ManualTime()
        let time = StoreTime(base: base, shift: 5_000)
        let end = time.steady.addingTimeInterval(10)
        base.advance(by: .seconds(11))
        let signal = AsyncSignal()
        await signal.wait(after: signal.mark, until: end, time)
        #expect(base.sleeping == 0)
    }
}
