import ChaparRuStore
import ChaparSandbox
import Testing

/// An account in code, as an application writes it.
@Suite("Account at RuStore", .timeLimit(.minutes(1)))
struct RuStoreAccountTests {
    @Test("sends as a simulator hands it out, through either API, to the tokens of that API")
    func simulated() async throws {
        try await RuStoreSimulator.run(.demonstration) { simulator in
            try await PushClient.run(logger: Logger(label: "test")) { client in
                let direct = try client.add(.ruStore(simulator.pushAccount), as: "direct")
                let phone = Recipient.token("rustore-1", service: .androidRuStore)
                #expect(await direct.send(PushNotification(title: "t", body: "b"), to: phone).isAccepted)
                let universal = try client.add(.ruStore(simulator.universalPushAccount), as: "universal")
                let other = Recipient.token("rustore-2", service: .androidRuStoreUniversal)
                #expect(await universal.send(PushNotification(title: "t", body: "b"), to: other).isAccepted)
                #expect(simulator.counters.accepted == 2)
            }
        }
    }

    @Test("is refused for another platform's simulator")
    func mistake() async throws {
        try await FCMSimulator.run { simulator in
            let google = try simulator.pushAccount
            #expect(throws: PushError.self) { try PushAccount.ruStore(google) }
        }
    }
}
