import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

@Suite("The HMS backend keeps every promise of a backend", .timeLimit(.minutes(1)))
struct HMSConformanceTests {
    @Test("The conformance kit passes over a socket", arguments: BackendConformance.checks)
    func backend(check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 60)
        let log = RecordedLog()
        let signing = HMSReceiptOptions(user: "chapar", secret: Secret("sandbox"), encoding: .raw)
        try await Harness.run(
            timeout: timeout,
            change: { options, _ in options.receipts = signing },
            logger: log.logger
        ) {
            harness in
            let simulator = harness.simulator
            harness.register(0..<1_010)
            simulator.setDevice(HMSDevice(), tokens: ["IQAAAACy0sampleOnIOS"])
            var subject = BackendConformance.Subject(
                backend: harness.backend,
                recipient: { android(androidToken($0)) },
                others: [.token(DeviceToken("IQAAAACy0sampleOnIOS", service: .iOSHuawei)), .topic("news")],
                deadRecipient: android("sample-dead"),
                foreignRecipient: .token(DeviceToken("fcm:APA91", service: .androidFirebase)),
                taken: { simulator.counters.accepted },
                payloadLimit: 4096,
                // Huawei gives one id to a request, and with it to all of its recipients.
                givesPlatformIDs: false,
                disturb: {
                    simulator.removeRules()
                    let trouble = try #require(FaultRule.Trouble(rawValue: $0.rawValue))
                    simulator.add(FaultRule.trouble(trouble, on: trouble == .unreachable ? nil : HMSSimulator.push))
                }
            )
            subject.deadline = timeout
            subject.log = log
            subject.secrets = [Secret(simulator.app.clientSecret)]
            subject.sent = { harness.sent.requests }
            subject.lacks = [.addresses]
            subject.refuseCredential = { simulator.add(FaultRule(.answer(FaultAnswer(401)))) }
            subject.expireCredential = { simulator.expireTokens() }
            subject.throttle = { pause in
                let answer = FaultAnswer(503, retryAfter: Int(clamping: pause.components.seconds))
                simulator.add(FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(answer)))
            }
            // Huawei says of single tokens under 200 what is wrong with them.
            subject.refusedUnderSuccess = android("sample-dead")
            subject.means.member = DeviceToken(androidToken(3), service: .androidHuawei)
            subject.means.callback = { HMSReceiptTests.callback(HMSReceiptTests.newer) }
            try await check.run(subject)
        }
    }

    static func provider(_ kind: String, _ service: TokenService) -> HMSTokenProvider {
        let deadline = Duration.milliseconds(kind == "hanging" ? 50 : 10_000)
        let fetch: @Sendable () async throws -> String? =
            switch kind {
            case "empty": { nil }
            case "hanging":
                {
                    try await ManualTime().sleep(for: .seconds(3600)); return nil
                }
            case "failing": { throw CancellationError() }
            default: { "IQAAAACy0sampleA" }
            }
        guard service == .iOSHuawei else { return .android(deadline: deadline, fetch: fetch) }
        return .iOS(apple: AppleTokens(), deadline: deadline) { _ in try await fetch() }
    }

    /// A provider of `ios-apns` that may have none.
    struct AppleTokens: TokenProvider {
        var value: String? = "abcd"
        var service: TokenService { .iOSAPNs }
        func token() async throws(PushError) -> DeviceToken? { value.map { DeviceToken($0, service: .iOSAPNs) } }
        func validate(_ text: String) throws(InvalidToken) -> DeviceToken { DeviceToken(text, service: .iOSAPNs) }
    }

    @Test(
        "The token providers pass their kit",
        arguments: TokenProviderConformance.checks,
        [TokenService.androidHuawei, .iOSHuawei]
    )
    func providers(check: ConformanceCheck<TokenProviderConformance.Subject>, service: TokenService) async throws {
        try await check.run(
            TokenProviderConformance.Subject(
                provider: Self.provider("good", service),
                empty: Self.provider("empty", service),
                hanging: Self.provider("hanging", service),
                failing: Self.provider("failing", service),
                invalidTexts: ["", "two words", "line\nbreak", String(repeating: "x", count: 1025)]
            )
        )
    }

    @Test("Without Apple's token there is none of Huawei's on iOS")
    func needsApple() async throws {
        let provider = HMSTokenProvider.iOS(apple: AppleTokens(value: nil)) { _ in "never asked" }
        #expect(try await provider.token() == nil)
    }

    @Test("Deleting asks the app, and a provider without a way to do it says so")
    func deletes() async throws {
        let token = DeviceToken("IQAAAACy0sampleA", service: .androidHuawei)
        try await confirmation { asked in
            let provider = HMSTokenProvider.android(
                fetch: { nil },
                delete: {
                    #expect($0 == token); asked()
                }
            )
            try await provider.delete(token)
        }
        let error = await #expect(throws: PushError.self) {
            try await HMSTokenProvider.android(fetch: { nil }).delete(token)
        }
        #expect(error?.code == .unsupported)
    }

    @Test("A token is checked with Huawei without a message, and deleted there")
    func online() async throws {
        try await Harness.run { harness in
            harness.register(0..<1)
            let good = DeviceToken(androidToken(0), service: .androidHuawei)
            #expect(try await harness.backend.verify(good) == .good)
            #expect(try await harness.backend.verify(DeviceToken("dead", service: .androidHuawei)) == .dead)
            try await harness.backend.deleteToken(good)
            #expect(try await harness.backend.verify(good) == .dead)
            #expect(harness.simulator.counters.accepted == 0)
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(FaultAnswer(200, "80300002")))
            )
            #expect(try await harness.backend.verify(good) == .unknown(reason: "80300002"))
        }
    }
}
