import Foundation
import NIOSSL
import ChaparCore
import ChaparSandbox
import Testing

// Source: specs, APNs, sections 8 and 15.3.
@Suite("How a connection behaves, frame by frame", .timeLimit(.minutes(1)))
struct ConnectionBehaviourTests {
    static let token = String(repeating: "a1", count: 32)

    private func run(
        _ configuration: APNsSimulatorConfiguration = APNsSimulatorConfiguration(),
        _ body: (APNsSimulator, String) async throws -> Void
    ) async throws {
        try await APNsSimulator.run(configuration) { simulator in
            simulator.register(tokens: [Self.token])
            simulator.register(tokens: [Self.token + "de"], environment: .development)
            try await body(simulator, simulator.key.providerToken(issuedAt: Date()))
        }
    }

    private static func settings(_ event: RawClient.Event) -> [UInt16: UInt32]? {
        if case .settings(let settings) = event { settings } else { nil }
    }

    private static func goAway(_ event: RawClient.Event) -> (last: Int32, code: UInt32, debugData: String)? {
        if case .goAway(let last, let code, let debugData) = event { (last, code, debugData) } else { nil }
    }

    @Test("It opens with what APNs opens with, and with one stream")
    func opening() async throws {
        try await run { simulator, _ in
            let client = try await RawClient.connect(to: simulator)
            let settings = await client.first(Self.settings)
            #expect(settings == [1: 4096, 3: 1, 4: 65535, 5: 16384, 6: 8000])
            await client.close()
        }
    }

    @Test("The first accepted push raises the limit; a refused one does not")
    func raised() async throws {
        try await run { simulator, jwt in
            let client = try await RawClient.connect(to: simulator)
            client.push(1, to: "00", jwt: jwt)
            #expect(await client.answer(1)?.body == #"{"reason":"BadDeviceToken"}"#)
            client.push(3, to: Self.token, jwt: jwt)
            // The first SETTINGS went by with the first answer, so the next one is the raise.
            #expect(await client.first(Self.settings) == [3: 1000])
            await client.close()
        }
    }

    @Test("A stream beyond the limit is refused, and the connection goes on")
    func refusedStream() async throws {
        try await run { simulator, jwt in
            let client = try await RawClient.connect(to: simulator)
            client.sendHeaders(1, RawClient.fields(to: Self.token, jwt: jwt))
            client.sendHeaders(3, RawClient.fields(to: Self.token, jwt: jwt))
            let refused = await client.resetCode(of: 3)
            #expect(refused == 7)
            client.sendData(3, "{}")
            client.sendData(1, "{}")
            #expect(await client.answer(1)?.status == "200")
            #expect(simulator.counters.streamsRefused == 1)
            await client.close()
        }
    }

    @Test("With strict flow a refusal takes the limit back to one")
    func strictFlow() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.streams.isStrictFlow = true
        try await run(configuration) { simulator, jwt in
            simulator.unregister(token: "aa")
            let client = try await RawClient.connect(to: simulator)
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.first { Self.settings($0)?[3] == 1000 ? true : nil } == true)
            client.push(3, to: "aa", jwt: jwt)
            #expect(await client.answer(3)?.status == "410", "does not count")
            client.push(5, to: "00", jwt: jwt)
            #expect(await client.first(Self.settings) == [3: 1])
            client.push(7, to: Self.token, jwt: jwt)
            #expect(await client.first(Self.settings) == [3: 1000])
            await client.close()
        }
    }

    @Test("Too many bad device tokens end the connection")
    func badTokens() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.badDeviceTokenLimit = 3
        try await run(configuration) { simulator, jwt in
            let client = try await RawClient.connect(to: simulator)
            for stream: Int32 in [1, 3] {
                client.push(stream, to: "00", jwt: jwt)
                #expect(await client.answer(stream)?.status == "400")
            }
            client.push(5, to: "00", jwt: jwt)
            let goAway = try #require(await client.first(Self.goAway))
            #expect(goAway.debugData == #"{"reason":"BadDeviceToken"}"#)
            #expect(goAway.last == 5)
            #expect(await client.end() == "", "closed in order")
        }
    }

    @Test("An idle connection is told so")
    func idle() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.idleTimeout = .milliseconds(50)
        try await run(configuration) { simulator, _ in
            let client = try await RawClient.connect(to: simulator)
            let goAway = try #require(await client.first(Self.goAway))
            #expect(goAway.debugData == #"{"reason":"IdleTimeout"}"#)
            #expect(goAway.code == 0)
            #expect(await client.end() == "")
        }
    }

    @Test("Pings are answered, but not two in a second")
    func pings() async throws {
        try await run { simulator, _ in
            let client = try await RawClient.connect(to: simulator)
            // Both at once, so that a busy machine does not put a second between them.
            client.ping()
            client.ping()
            let isAnswered = await client.first { if case .ping(true) = $0 { true } else { nil } }
            #expect(isAnswered == true)
            #expect(await client.first(Self.goAway)?.code == 11)
        }
    }

    @Test("Only the development host gives a unique id")
    func uniqueID() async throws {
        try await run { simulator, jwt in
            for (listener, token) in [(APNsListener.production, Self.token), (.development, Self.token + "de")] {
                let client = try await RawClient.connect(to: simulator, listener)
                client.push(1, to: token, jwt: jwt)
                let answer = try #require(await client.answer(1))
                #expect(answer.status == "200")
                #expect(answer.body.isEmpty)
                #expect(UUID(uuidString: answer.headers["apns-id"] ?? "") != nil, "made up when absent")
                #expect((answer.headers["apns-unique-id"] != nil) == (listener == .development))
                await client.close()
            }
        }
    }

    @Test("A client that offers other protocols is refused by TLS")
    func otherProtocols() async throws {
        try await run { simulator, _ in
            let client = try await RawClient.connect(to: simulator, protocols: ["http/1.1"])
            #expect(await client.end().contains("NO_APPLICATION_PROTOCOL"))
            let silent = try await RawClient.connect(to: simulator, protocols: [])
            #expect(await silent.first(Self.settings) == nil, "no protocol at all: closed after the handshake")
            #expect(simulator.counters.requests == 0)
        }
    }

    @Test("Without ALPN it speaks HTTP/2 with every client")
    func withoutALPN() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.usesALPN = false
        try await run(configuration) { simulator, _ in
            let client = try await RawClient.connect(to: simulator, protocols: [])
            #expect(await client.first(Self.settings)?[3] == 1)
            await client.close()
        }
    }

    @Test(
        "A certificate that is expired or for another host fails verification",
        arguments: [SandboxCertificateAuthority.ServerCertificate.expired, .wrongHost]
    )
    func badServerCertificate(_ kind: SandboxCertificateAuthority.ServerCertificate) async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.serverCertificate = kind
        try await run(configuration) { simulator, _ in
            let client = try await RawClient.connect(to: simulator)
            let error = await client.end()
            #expect(error.contains(kind == .expired ? "CERTIFICATE_VERIFY_FAILED" : "failedToValidateHostname"))
        }
    }

    @Test("A client certificate allows its topics, with all streams from the start")
    func clientCertificate() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.asksForClientCertificate = true
        try await run(configuration) { simulator, jwt in
            let identity = try simulator.authority.providerIdentity(
                APNsProviderCertificate(topics: ["com.example.app", "com.example.app.voip"])
            )
            let client = try await RawClient.connect(to: simulator, identity: identity)
            #expect(await client.first(Self.settings)?[3] == 1000)
            let cases: [(String?, String)] = [
                ("com.example.app", ""), ("com.example.app.voip", ""), (nil, #"{"reason":"MissingTopic"}"#),
                ("com.example.other", #"{"reason":"TopicDisallowed"}"#),
            ]
            for (index, (topic, body)) in cases.enumerated() {
                let stream = Int32(index * 2 + 1)
                client.push(stream, to: Self.token, jwt: nil, topic: topic)
                #expect(await client.answer(stream)?.body == body)
            }
            await client.close()
            let bare = try await RawClient.connect(to: simulator)
            bare.push(1, to: Self.token, jwt: jwt)
            #expect(await bare.answer(1)?.status == "200", "a certificate is optional")
            await bare.close()
        }
    }

    @Test("A client certificate of another authority fails the handshake")
    func strangersCertificate() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.asksForClientCertificate = true
        try await run(configuration) { simulator, jwt in
            let stranger = try SandboxCertificateAuthority()
            let identity = try stranger.providerIdentity(APNsProviderCertificate(topics: ["com.example.app"]))
            let client = try await RawClient.connect(to: simulator, identity: identity)
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.answer(1) == nil)
            #expect(simulator.counters.requests == 0)
        }
    }

    @Test("A client that breaks the protocol gets GOAWAY, and its connection is closed")
    func brokenProtocol() async throws {
        try await run { simulator, _ in
            let client = try await RawClient.connect(to: simulator)
            client.sendData(1, "on a stream that was never opened")
            #expect(await client.first(Self.goAway)?.code == 1)
            #expect(await client.end() == "")
            #expect(await simulator.wait { $0.connectionsOpen == 0 })
        }
    }

    @Test("A header list beyond 8000 bytes is not taken")
    func headerList() async throws {
        try await run { simulator, jwt in
            let client = try await RawClient.connect(to: simulator)
            client.push(1, to: Self.token, jwt: jwt, more: [("x-padding", String(repeating: "x", count: 8000))])
            #expect(await client.answer(1)?.status == "431")
            await client.close()
        }
    }
}
