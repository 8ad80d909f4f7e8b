import ChaparAPNs
import ChaparSandbox
import Testing

/// An account in code, as an application writes it.
@Suite("Account at Apple", .timeLimit(.minutes(1)))
struct APNsAccountTests {
    private static let phone = Recipient.token("ab" + String(repeating: "0", count: 62), service: .iOSAPNs)

    @Test("sends with the key of a team, or as a simulator hands it out, and manages no channels at Apple then")
    func simulated() async throws {
        try await APNsSimulator.run(.demonstration) { simulator in
            try await PushClient.run(logger: Logger(label: "test")) { client in
                let simulated = try simulator.pushAccount
                let backend = try client.add(.apns(simulated), as: "ios")
                #expect(await backend.send(PushNotification(body: "b"), to: Self.phone).isAccepted)
                let written = try PushAccount.apns(
                    key: simulator.key.pem,
                    keyID: simulator.key.keyID,
                    teamID: simulator.key.teamID,
                    topic: Sandbox.topic,
                    environment: .production,
                    common: simulated.common
                )
                let second = try client.add(written, as: "written")
                #expect(await second.send(PushNotification(body: "b"), to: Self.phone).isAccepted)
                #expect(second.channels == nil)
            }
        }
    }

    @Test("is refused for a text that is no key, and for a simulator that does not run")
    func mistakes() throws {
        #expect(throws: APNsAuthKey.Mistake.self) {
            try PushAccount.apns(key: "none", keyID: "K", teamID: "T", topic: "t", environment: .production)
        }
        let simulator = try APNsSimulator()
        #expect(throws: InvalidAddress.self) { try simulator.pushAccount }
    }
}
