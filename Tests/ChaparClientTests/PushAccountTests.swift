import ChaparClient
import Synchronization
import Testing

/// The promises of an account to the client that it is added to.
@Suite("Push account", .timeLimit(.minutes(1)))
struct PushAccountTests {
    @Test("makes a backend with the name that it is added with, which is taken then")
    func add() async throws {
        let names = Mutex<[String]>([])
        let account = PushAccount { context in
            names.withLock { $0.append(context.name) }
            return CountingBackend()
        }
        try await PushClient.run(logger: Logger(label: "test")) { client in
            let phone = Recipient.token("phone", service: .iOSAPNs)
            let backend = try client.add(account, as: "ios")
            #expect(await backend.send(PushNotification(body: "b"), to: phone).isAccepted)
            #expect(throws: HTTPPoolError.self) { try client.add(account, as: "ios") }
            try client.add(account, as: "second")
            #expect(names.withLock { $0 } == ["ios", "second"], "one account serves for two backends")
            try await client.post(PushNotification(body: "b"), to: phone, via: "second")
        }
    }

    @Test("is wrapped with the name that it is added with")
    func map() async throws {
        let names = Mutex<[String]>([])
        let account = PushAccount { _ in CountingBackend() }
            .map { backend, context in
                names.withLock { $0.append(context.name) }
                return backend.breaking()
            }
        try await PushClient.run(logger: Logger(label: "test")) { client in
            let backend: CircuitBreakingBackend = try client.add(account, as: "ios")
            #expect(backend.kind == "counting")
            #expect(names.withLock { $0 } == ["ios"])
        }
    }

    @Test("of a simulator is refused by the plugin of another platform")
    func simulated() throws {
        let account = SimulatedAccount("apns", ["key": "k"], common: CommonBackendOptions())
        #expect(try account.field("key", of: "apns") == "k")
        #expect(throws: PushError.self) { try account.field("key", of: "fcm") }
        #expect(throws: PushError.self) { try account.field("topic", of: "apns") }
    }

    @Test("A token provider checks the form of a text unless it says otherwise")
    func tokenForm() throws {
        struct Provider: TokenProvider {
            let service = TokenService.iOSAPNs
            func token() async throws(PushError) -> DeviceToken? { nil }
        }
        #expect(try Provider().validate(" ab12\n") == DeviceToken("ab12", service: .iOSAPNs))
        #expect(throws: InvalidToken.self) { try Provider().validate("ab 12") }
        #expect(throws: InvalidToken.self) { try Provider().validate("  ") }
        #expect(throws: InvalidToken.self) { try Provider().validate(String(repeating: "a", count: 4_097)) }
    }
}
