import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparHTTP

/// A client as what application code sends through.
@Suite("A client as a sender", .timeLimit(.minutes(1)))
struct PushClientSenderTests {
    private static let phone = Recipient.token("1", service: .iOSAPNs)

    @Test("sends at once through the backend of the name, or through its only one")
    func posts() async throws {
        try await PushClient.run(logger: quiet) { client in
            let sender: any PushSender = client
            let none = await #expect(throws: PushError.self) {
                try await sender.post(.init(title: "t"), to: Self.phone)
            }
            #expect(none?.code == .invalidRequest)
            let ios = try client.add(as: "ios") { _ in Answering(.accepted(Acceptance(platformID: "p"))) }
            let posted = try await sender.post(PushNotification(title: "t"), to: [Self.phone, Self.phone])
            #expect(posted.outcomes?.count == 2 && posted.id == nil && !posted.isReplay)
            guard case .accepted(let acceptance)? = posted.outcomes?.first else {
                Issue.record("\(posted)")
                return
            }
            #expect(acceptance.platformID == "p")
            #expect(posted.warnings.map(\.code) == ["dropped"])

            let android = try client.add(as: "android") { _ in
                Answering(.refused(Refusal(.token, reason: "Unregistered", advice: .never)))
            }
            let named = try await sender.post(PushNotification(title: "t"), to: Self.phone, via: "android")
            guard case .refused(let refusal)? = named.outcomes?.first else {
                Issue.record("\(named)")
                return
            }
            #expect(refusal.reason == "Unregistered")
            #expect((ios.sent.count, android.sent.count) == (2, 1))

            let open = await #expect(throws: PushError.self) {
                try await sender.post(.init(title: "t"), to: Self.phone)
            }
            #expect(open?.message.contains("say which: android, ios") ?? false, "\(open as Any)")
            let unknown = await #expect(throws: PushError.self) {
                try await sender.post(PushNotification(title: "t"), to: Self.phone, via: "iso")
            }
            #expect(unknown?.message.contains("there are android, ios") ?? false, "\(unknown as Any)")
            #expect((ios.sent.count, android.sent.count) == (2, 1))
        }
    }

    @Test("keeps the caller's time to live, and refuses a key that it could not know again")
    func options() async throws {
        let client = PushClient(logger: quiet)
        let ios = try client.add(as: "ios") { _ in Answering(.accepted(Acceptance())) }
        let message = PushNotification(title: "t", timeToLive: .seconds(3_600))
        _ = try await client.post(message, to: Self.phone, options: SendOptions(timeToLive: .seconds(5)))
        _ = try await client.post(message, to: Self.phone)
        #expect(ios.sent.map(\.timeToLive) == [.seconds(5), .seconds(3_600)])
        let key = await #expect(throws: PushError.self) {
            try await client.post(message, to: Self.phone, options: SendOptions(idempotencyKey: "order-42"))
        }
        #expect(key?.code == .unsupported)
        await client.shutdown()
        await #expect(throws: HTTPPoolError.self) { try await client.post(message, to: Self.phone) }
        #expect(ios.sent.count == 2)
    }
}

/// A backend that gives one answer to everything, and drops the heading.
private final class Answering: PushBackend {
    let kind: BackendKind = "answering"
    let audience = BackendAudience(services: [.iOSAPNs])
    private let outcome: DeliveryOutcome
    private let seen = Mutex<[PushNotification]>([])

    init(_ outcome: DeliveryOutcome) { self.outcome = outcome }

    /// The message of each recipient.
    var sent: [PushNotification] { seen.withLock { $0 } }

    func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        PayloadCheck(warnings: [Finding(pointer: "#/content/title", code: "dropped", detail: "It has no title.")])
    }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        for (place, request) in requests.enumerated() {
            seen.withLock { seen in
                for _ in request.recipients { seen.append(request.notification) }
            }
            report(
                request.recipients.indices.map { DeliveryReport(request: place, recipient: $0, outcome: outcome) }
            )
        }
    }
}
