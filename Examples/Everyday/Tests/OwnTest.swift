import ChaparAPNs
import ChaparSandbox
import Testing

/// Your own code, sending to a simulator of Apple: real TLS and HTTP/2, Apple's rules, and an inbox to look into.
@Suite("One's own code, tried against the sandbox")
struct OwnTest {
    @Test("announces an order")
    func shipping() async throws {
        try await Sandbox.run { sandbox in
            try await PushClient.run(logger: Logger(label: "test")) { client in
                try client.add(.apns(sandbox.apns.pushAccount), as: "ios")
                try await Shop(push: client).ship(order: 42, to: .token(Shop.phone, service: .iOSAPNs))
                #expect(sandbox.apns.inbox.count == 1)
            }
        }
    }
}
