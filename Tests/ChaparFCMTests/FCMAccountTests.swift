import ChaparFCM
import ChaparSandbox
import Testing

/// An account in code, as an application writes it.
@Suite("Account at Google", .timeLimit(.minutes(1)))
struct FCMAccountTests {
    @Test("sends with a key file, or as a simulator hands it out, and changes no topics at Google then")
    func simulated() async throws {
        try await FCMSimulator.run(.demonstration) { simulator in
            try await PushClient.run(logger: Logger(label: "test")) { client in
                let phone = Recipient.token("firebase-1", service: .androidFirebase)
                let simulated = try simulator.pushAccount
                let backend = try client.add(.fcm(simulated), as: "android")
                #expect(await backend.send(PushNotification(body: "b"), to: phone).isAccepted)
                let file = simulator.credentialsFile
                let written = try PushAccount.fcm(serviceAccount: file, common: simulated.common)
                let second = try client.add(written, as: "written")
                #expect(await second.send(PushNotification(body: "b"), to: phone).isAccepted)
                #expect(second.topics == nil)
            }
        }
    }

    @Test("is refused for a text that is no key file, and for another platform's simulator")
    func mistakes() async throws {
        #expect(throws: GoogleCredentialMistake.self) { try PushAccount.fcm(serviceAccount: "{}") }
        try await APNsSimulator.run { simulator in
            let apple = try simulator.pushAccount
            #expect(throws: PushError.self) { try PushAccount.fcm(apple) }
        }
    }
}
