import ChaparSandbox
import ChaparWebPush
import Testing

/// An account in code, as an application writes it.
@Suite("Account for browsers", .timeLimit(.minutes(1)))
struct WebPushAccountTests {
    @Test("sends as a simulator hands it out, to each of its push services")
    func simulated() async throws {
        try await WebPushSimulator.run { simulator in
            try await PushClient.run(logger: Logger(label: "test")) { client in
                let backend = try client.add(.webPush(simulator.pushAccount), as: "browsers")
                for service in WebPushService.allCases {
                    let key = simulator.applicationServerKey
                    let token = simulator.subscription("id-1", at: service, applicationServerKey: key)
                    let page = Recipient.token(token, service: .webPush)
                    #expect(await backend.send(PushNotification(title: "t"), to: page).isAccepted, "\(service)")
                }
            }
        }
    }

    @Test("is refused for another platform's simulator")
    func mistake() async throws {
        try await FCMSimulator.run { simulator in
            let google = try simulator.pushAccount
            #expect(throws: PushError.self) { try PushAccount.webPush(google) }
        }
    }
}
