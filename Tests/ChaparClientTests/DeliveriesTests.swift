import Foundation
import ChaparClient
import Synchronization
import Testing

/// The promises of `deliveries(of:to:)`: a cold sequence that sends at the pace at which it is read.
@Suite("Deliveries", .timeLimit(.minutes(1)))
struct DeliveriesTests {
    private static let phones = (1...5).map { Recipient.token("phone-\($0)", service: .iOSAPNs) }

    @Test("gives each recipient its outcome, in order, and names the dead token")
    func outcomes() async {
        let backend = CountingBackend()
        let phones = Self.phones + [.token("dead", service: .iOSAPNs)]
        var seen: [Delivery] = []
        for await delivery in backend.deliveries(of: PushNotification(body: "b"), to: phones, window: 4) {
            seen.append(delivery)
        }
        #expect(seen.map(\.index) == Array(0..<6))
        #expect(seen.map(\.recipient) == phones)
        #expect(seen.map(\.isAccepted) == [true, true, true, true, true, false])
        #expect(seen.compactMap(\.deadToken) == [DeviceToken("dead", service: .iOSAPNs)])
        #expect(backend.sent.map(\.count) == [4, 2])
    }

    @Test("sends nothing before it is iterated, and no window that is not asked for")
    func backPressure() async {
        let backend = CountingBackend()
        let deliveries = backend.deliveries(of: PushNotification(body: "b"), to: Self.phones, window: 2)
        #expect(backend.sent.isEmpty)
        var taken = 0
        for await _ in deliveries {
            taken += 1
            #expect(backend.sent.count == (taken + 1) / 2, "the next window waits for its reader")
            if taken == 3 { break }
        }
        #expect(backend.sent.map(\.count) == [2, 2])
    }

    @Test("ends after the window under way when its task is cancelled")
    func cancelled() async {
        let backend = CountingBackend()
        let deliveries = backend.deliveries(of: PushNotification(body: "b"), to: Self.phones, window: 2)
        let task = Task {
            var taken = 0
            for await _ in deliveries {
                taken += 1
                withUnsafeCurrentTask { $0?.cancel() }
            }
            return taken
        }
        #expect(await task.value == 2, "the outcomes of what was sent are handed out")
        #expect(backend.sent.map(\.count) == [2])
    }

    @Test("has one expiry for all windows, and chooses the language that it was given")
    func requests() async {
        let backend = CountingBackend()
        let message = PushNotification(body: "b", timeToLive: .seconds(60))
        let deliveries = backend.deliveries(of: message, to: Self.phones, language: "fa", window: 1)
        for await _ in deliveries {}
        let expirations = backend.sent.map(\.expiration)
        #expect(expirations.count == 5 && expirations[0] != nil)
        #expect(Set(expirations).count == 1, "a time to live counts from the first window")
        #expect(backend.sent.allSatisfy { $0.languages == ["fa"] })
    }

    @Test("ends at once without recipients, and a window has at least one")
    func edges() async {
        let backend = CountingBackend()
        for await _ in backend.deliveries(of: PushNotification(body: "b"), to: []) { Issue.record("there is nobody") }
        #expect(backend.sent.isEmpty)
        var taken = 0
        for await _ in backend.deliveries(of: PushNotification(body: "b"), to: Self.phones, window: 0) { taken += 1 }
        #expect(taken == 5)
    }
}

/// Takes every message, but for those to the token `dead` and to `elsewhere`, for which its account is none, and keeps
/// what it was handed.
final class CountingBackend: PushBackend {
    struct Sent {
        var count: Int
        var expiration: PushRequest.Expiration?
        var languages: Set<String?>
    }

    let kind: BackendKind = "counting"
    let audience = BackendAudience(services: [.iOSAPNs])
    private let requests = Mutex<[Sent]>([])

    var sent: [Sent] { requests.withLock { $0 } }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        for (row, request) in requests.enumerated() {
            let languages = Set(request.recipients.map(\.language))
            self.requests.withLock {
                $0.append(Sent(count: request.recipients.count, expiration: request.expiration, languages: languages))
            }
            for (place, addressee) in request.recipients.enumerated() {
                let isDead = addressee.recipient == .token("dead", service: .iOSAPNs)
                let invalidation = Refusal.Invalidation(asOf: .now, isCertain: true)
                let isElsewhere = addressee.recipient == .token("elsewhere", service: .iOSAPNs)
                let outcome: DeliveryOutcome =
                    isElsewhere
                    ? .refused(Refusal(.account, reason: "NoAccount", advice: .never))
                    : isDead
                        ? .refused(Refusal(.token, reason: "Unregistered", advice: .never, invalidation: invalidation))
                        : .accepted(Acceptance())
                report([DeliveryReport(request: row, recipient: place, outcome: outcome)])
            }
        }
    }
}
