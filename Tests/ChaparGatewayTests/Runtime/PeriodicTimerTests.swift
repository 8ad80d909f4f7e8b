import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A loop that works at an interval", .timeLimit(.minutes(1)))
struct PeriodicTimerTests {
    @Test("begins another round when it is woken in the middle of one, and only one")
    func wokenInTheMiddle() async {
        let (timer, time) = (PeriodicTimer(every: .seconds(30)), ManualTime())
        timer.wake()
        #expect(await timer.next(time), "the clock stands: only the wake-up can end the wait")
        async let second = timer.next(time)
        while time.sleeping == 0 { await Task.yield() }
        time.advance(by: .seconds(30))
        #expect(await second)
        timer.stop()
        #expect(await !timer.next(time))
    }
}
