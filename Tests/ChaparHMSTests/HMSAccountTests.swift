import ChaparHMS
import ChaparSandbox
import Testing

/// An account in code, as an application writes it.
@Suite("Account at Huawei", .timeLimit(.minutes(1)))
struct HMSAccountTests {
    @Test("sends as a simulator hands it out, with access tokens of its token endpoint")
    func simulated() async throws {
        try await HMSSimulator.run(.demonstration) { simulator in
            try await PushClient.run(logger: Logger(label: "test")) { client in
                let backend = try client.add(.hms(simulator.pushAccount), as: "huawei")
                let phone = Recipient.token("huawei-1", service: .androidHuawei)
                #expect(await backend.send(PushNotification(body: "b"), to: phone).isAccepted)
            }
        }
    }
}
