import Foundation
import ChaparCore
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("How long a backend gets no operations")
struct OutboxPauseTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    private func limited(_ seconds: Int?) -> PushError {
        PushError(.rateLimited, "429", retryAfter: seconds.map { .seconds($0) })
    }

    @Test("Of refusals that were under way together the longest pause counts", arguments: [false, true])
    func together(longestFirst: Bool) {
        var pause = OutboxPause()
        for seconds in longestFirst ? [3_000, nil, 60] : [nil, 60, 3_000] {
            _ = pause.recordFailure(limited(seconds), at: now)
        }
        #expect(pause.until == now + 3_000)
        let end = pause.endOwn(at: now)
        #expect(end.kept == now + 3_000 && !end.hasEnded, "the platform asked for it")
        let later = pause.endOwn(at: now + 3_000)
        #expect(later.kept == nil)
    }

    @Test("A pause of our own begins at two seconds and doubles, once for all that were refused together")
    func own() {
        var pause = OutboxPause()
        for _ in 0..<3 { _ = pause.recordFailure(limited(nil), at: now) }
        #expect(pause.until == now + 2)
        _ = pause.recordFailure(limited(nil), at: now + 2)
        #expect(pause.until == now + 6)
        let end = pause.endOwn(at: now + 3)
        #expect(end.hasEnded && end.kept == nil)
    }

    @Test("One refusal of the credentials pauses for a second, each in a row for twice as long, up to ten minutes")
    func credentials() {
        var pause = OutboxPause()
        var now = now
        for wait in [1.0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            let isPaused = pause.recordFailure(PushError(.credentialsRefused, "401"), at: now)
            #expect(isPaused && pause.until == now + wait)
            now += wait
        }
        pause.recordAnswer()
        _ = pause.recordFailure(PushError(.credentialsRefused, "401"), at: now)
        #expect(pause.until == now + 1)
    }
}
