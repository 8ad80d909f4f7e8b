import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

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

    @Test("goes by what the machine has counted, however far its clock was set before the start", arguments: [1, -1])
    func setAhead(direction: TimeInterval) async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let time = MachineTime(boot: 7)
            let store = try SQLiteStore(options, time: time)
            let id = try await store.accept(time.manual)
            await store.close()
            time.manual.advance(by: .seconds(600))
            time.manual.set(time.manual.now.addingTimeInterval(direction * 20 * 365 * 86_400))
            let again = try SQLiteStore(options, time: time)
            let expired = try await again.claimExpired(limit: 10)
            #expect(expired.isEmpty, "it lives for an hour, of which ten minutes have passed")
            #expect(abs(again.time.steady.timeIntervalSince(store.time.steady)) < 1)
            time.manual.advance(by: .seconds(3_001))
            #expect(try await again.claimExpired(limit: 10).map(\.notificationID) == [id])
            await again.close()
        }
    }

    @Test(
        "keeps to the millisecond how far the time of day is ahead over a restart, so that a time to send at is shown alike",
        arguments: [-3, -1, 0, 1, 3] as [Int64],
        [0, 400, 600]
    )
    func keepsAhead(error: Int64, microseconds: Int) async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            var time = MachineTime(boot: 7)
            time.manual.set(time.manual.now.addingTimeInterval(3_600))
            let store = try SQLiteStore(options, time: time)
            try await store.accept(time.manual)
            let before = store.time.now.timeIntervalSince(store.time.steady)
            await store.close()
            time.manual.advance(by: .seconds(90) + .microseconds(microseconds))
            time.error = error
            let again = try SQLiteStore(options, time: time)
            let after = again.time.now.timeIntervalSince(again.time.steady)
            #expect(abs(after - before) < 0.0005, "\(after - before)")
            await again.close()
        }
    }

    @Test("goes by the time of day after the machine was started again")
    func otherBoot() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let (time, later) = (MachineTime(boot: 7), MachineTime(boot: 8))
            let store = try SQLiteStore(options, time: time)
            try await store.accept(time.manual)
            await store.close()
            later.manual.advance(by: .seconds(3_601))
            let again = try SQLiteStore(options, time: later)
            #expect(try await again.claimExpired(limit: 10).count == 1)
            await again.close()
        }
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

/// A machine whose clock a test sets; its own count of time goes on.
private struct MachineTime: BootTimeSource {
    let manual = ManualTime()
    let boot: Int64
    /// By how much a reading of what the machine has counted is wrong, in milliseconds.
    var error: Int64 = 0

    var now: Date { manual.now }
    var steady: Date { manual.steady }
    var bootTime: BootTime? {
        BootTime(boot: boot, uptime: manual.steady.millisecondsSince1970 - 1_700_000_000_000 + error)
    }
    func sleep(for duration: Duration) async throws { try await manual.sleep(for: duration) }
    func sleep(until steady: Date) async throws { try await manual.sleep(until: steady) }
}
