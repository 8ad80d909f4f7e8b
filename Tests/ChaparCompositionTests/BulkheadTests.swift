import ChaparCore
import ChaparComposition
import ChaparTesting
import Synchronization
import Testing

@Suite("Bulkhead", .timeLimit(.minutes(1)))
struct BulkheadTests {
    /// Holds sends until it is opened.
    private final class Gate: Sendable {
        private let state = Mutex((isOpen: false, waiting: [CheckedContinuation<Void, Never>]()))

        var waiting: Int { state.withLock { $0.waiting.count } }

        func wait() async {
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    if !state.isOpen { state.waiting.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
        }

        func open() {
            let waiting = state.withLock { state in
                state.isOpen = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }
    }

    private static let recipients = (0..<40).map { Recipient.token(DeviceToken("t\($0)", service: .iOSAPNs)) }

    private static func isFull(_ outcome: DeliveryOutcome) -> Bool {
        outcome.refusal?.reason == "bulkhead_full" && outcome.refusal?.advice == .retry(after: .seconds(1))
    }

    @Test("Never more under way than the limit, and every message gets its turn")
    func limit() async {
        let inner = ScriptedBackend(pause: { await Task.yield() })
        let bulkhead = BulkheadBackend(inner, limit: 7, waiting: 1_000)
        await withDiscardingTaskGroup { tasks in
            for _ in 0..<20 { tasks.addTask { _ = await bulkhead.send(PushNotification(), to: Self.recipients) } }
        }
        #expect(inner.taken == 800)
        #expect(inner.mostUnderWay <= 7)
        #expect(bulkhead.inFlight == 0)
    }

    @Test("A send that finds no room to wait is refused at once, with advice")
    func full() async {
        let gate = Gate()
        let inner = ScriptedBackend(pause: { await gate.wait() })
        let bulkhead = BulkheadBackend(inner, limit: 4, waiting: 10)
        let sending = Task { await bulkhead.send(PushNotification(), to: Self.recipients) }
        while gate.waiting == 0 { await Task.yield() }
        #expect(bulkhead.inFlight == 4)
        #expect(await bulkhead.send(PushNotification(), to: [Self.recipients[0]]).allSatisfy(Self.isFull))
        gate.open()
        let outcomes = await sending.value
        #expect(outcomes.filter(Self.isFull).count == 26)
        #expect(inner.taken == 14)
        #expect(bulkhead.inFlight == 0)
    }

    @Test("Waiting ends with the longest wait, and nothing is kept of it")
    func maximumWait() async {
        let gate = Gate()
        let time = ManualTime()
        let inner = ScriptedBackend(pause: { await gate.wait() })
        let bulkhead = BulkheadBackend(inner, limit: 1, waiting: 1, maximumWait: .seconds(30), time: time)
        let first = Task { await bulkhead.send(PushNotification(), to: [Self.recipients[0]]) }
        while gate.waiting == 0 { await Task.yield() }
        let second = Task { await bulkhead.send(PushNotification(), to: [Self.recipients[1]]) }
        while time.sleeping == 0 { await Task.yield() }
        time.advance(by: .seconds(30))
        #expect(await second.value.allSatisfy(Self.isFull))
        gate.open()
        _ = await first.value
        #expect(await bulkhead.send(PushNotification(), to: Array(Self.recipients.prefix(2))).count == 2)
        #expect(inner.taken == 3)
    }

    @Test("Waiting ends with the time to live, and a message without one goes on waiting")
    func timeToLive() async {
        let gate = Gate()
        let time = ManualTime()
        let inner = ScriptedBackend(pause: { await gate.wait() })
        let bulkhead = BulkheadBackend(inner, limit: 1, waiting: 2, maximumWait: .seconds(30), time: time)
        let first = Task { await bulkhead.send(PushNotification(), to: Self.recipients[0]) }
        while gate.waiting == 0 { await Task.yield() }
        let second = Task {
            await bulkhead.send([
                PushRequest(PushNotification(timeToLive: .seconds(5)), to: [Addressee(Self.recipients[1])]),
                PushRequest(PushNotification(), to: [Addressee(Self.recipients[2])]),
            ])
        }
        while time.sleeping == 0 { await Task.yield() }
        let now = await bulkhead.send(PushNotification(timeToLive: .zero), to: Self.recipients[3])
        #expect(Self.isFull(now), "no place to wait")
        time.advance(by: .seconds(5))
        while time.sleeping == 0 { await Task.yield() }
        #expect(inner.taken == 0)
        gate.open()
        let outcomes = await second.value
        #expect(outcomes[0][0].refusal?.reason == "expired")
        #expect(outcomes[0][0].refusal?.advice == .never)
        #expect(outcomes[1][0].isAccepted)
        #expect(await first.value.isAccepted)
        #expect(bulkhead.inFlight == 0)
    }

    @Test("Cancelling one who waits lets the others through")
    func cancellation() async {
        let gate = Gate()
        let inner = ScriptedBackend(pause: { await gate.wait() })
        let bulkhead = BulkheadBackend(inner, limit: 1, waiting: 5, time: ManualTime())
        let first = Task { await bulkhead.send(PushNotification(), to: [Self.recipients[0]]) }
        while gate.waiting == 0 { await Task.yield() }
        let second = Task { await bulkhead.send(PushNotification(), to: [Self.recipients[1]]) }
        let third = Task { await bulkhead.send(PushNotification(), to: [Self.recipients[2]]) }
        second.cancel()
        #expect(await second.value[0].refusal?.reason == "cancelled")
        gate.open()
        _ = await first.value
        #expect(await third.value[0].isAccepted)
    }
}
