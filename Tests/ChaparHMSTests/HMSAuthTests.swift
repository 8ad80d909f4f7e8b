import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparHMS

@Suite("Signing in at Huawei", .timeLimit(.minutes(1)))
struct HMSAuthTests {
    @Test("A secret with every awkward character works, and one token serves many messages")
    func secret() async throws {
        try await Harness.run { harness in
            for number in 0..<5 { #expect(await harness.sendOne(number).acceptance != nil) }
            #expect(harness.simulator.counters.tokensIssued == 1)
            #expect(harness.simulator.counters.tokensRefused == 0)
        }
    }

    @Test("A thousand refused requests cause one refresh", arguments: ["80200001", "80200003"])
    func oneRefresh(code: String) async throws {
        try await Harness.run { harness in
            let recipients = harness.register(0..<1000)
            await harness.sendOne(0)
            if code == "80200001" { harness.simulator.revokeTokens() } else { harness.simulator.expireTokens() }
            await withTaskGroup(of: [DeliveryOutcome].self) { group in
                for place in recipients.indices {
                    group.addTask { await harness.send([recipients[place]], title: "Number \(place)") }
                }
                for await outcomes in group { #expect(outcomes[0].acceptance != nil) }
            }
            #expect(harness.simulator.counters.tokensIssued == 2)
            #expect(harness.simulator.counters.accepted == 1001)
            #expect((harness.simulator.counters.answers[code] ?? 0) > 0)
        }
    }

    @Test("A plain 401 is answered with a fresh token, once")
    func plain401() async throws {
        try await Harness.run { harness in
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: HMSSimulator.push, count: 1), .answer(FaultAnswer(401)))
            )
            #expect(await harness.sendOne().acceptance != nil)
            #expect(harness.simulator.counters.tokensIssued == 2)
            #expect(harness.simulator.connections.requests == 4)
        }
    }

    @Test("Huawei's own trouble with OAuth is no reason for a fresh token")
    func noRefresh() async throws {
        try await Harness.run { harness in
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(FaultAnswer(503, "80600003")))
            )
            #expect(await harness.sendOne().refusal?.advice == .retry(after: nil))
            #expect(harness.simulator.counters.tokensIssued == 1)
        }
    }

    @Test(
        "Without a token nothing is sent, and messages wait",
        arguments: [
            (FaultAnswer(503), "oauth_503"), (FaultAnswer(500), "oauth_500"), (FaultAnswer(504), "oauth_504"),
            (FaultAnswer(200, body: Array(#"{"access_token":"","expires_in":3600}"#.utf8)), "bad-answer"),
            (FaultAnswer(200, body: Array(#"{"expires_in":3600}"#.utf8)), "bad-answer"),
            (FaultAnswer(200, body: Array("<html>".utf8)), "bad-answer"),
        ]
    )
    func tokenTrouble(answer: FaultAnswer, reason: String) async throws {
        try await Harness.run { harness in
            harness.simulator.add(FaultRule(match: FaultMatch(listener: HMSSimulator.token), .answer(answer)))
            let refusal = try #require(await harness.sendOne().refusal)
            #expect(refusal.kind == .platform)
            #expect(refusal.reason == reason)
            guard case .slowBackend = refusal.advice else {
                Issue.record("the worker does not wait: \(refusal.advice)")
                return
            }
            #expect(harness.simulator.counters.sends == 0)
        }
    }

    @Test(
        "One odd answer of the token endpoint fails no message",
        arguments: [
            FaultAnswer(500), FaultAnswer(503), FaultAnswer(200, body: Array("<html>".utf8)),
            FaultAnswer(200, body: Array(#"{"access_token":"","expires_in":3600}"#.utf8)),
        ]
    )
    func oddToken(answer: FaultAnswer) async throws {
        try await Harness.run { harness in
            harness.simulator.add(FaultRule(match: FaultMatch(listener: HMSSimulator.token, count: 1), .answer(answer)))
            #expect(await harness.sendOne().acceptance != nil)
            #expect(harness.simulator.counters.tokensIssued == 1)
        }
    }

    @Test(
        "Wrong credentials park the backend and say which value is wrong",
        arguments: [
            ("wrong", "100200300", "oauth_20173", "client_secret"), ("a+b/c&d=e%f==", "999", "oauth_20003", "app_id"),
        ]
    )
    func wrongSecret(secret: String, client: String, reason: String, hint: String) async throws {
        try await Harness.run(change: { options, _ in options.credential = .client(id: client, secret: Secret(secret)) }
        ) { harness in
            let refusal = try #require(await harness.sendOne().refusal)
            #expect(refusal.kind == .account)
            #expect(refusal.advice == .parkBackend)
            #expect(refusal.reason == reason)
            #expect(refusal.detail?.contains(hint) == true)
            #expect(harness.backend.health.status == .degraded)
            let failure = await harness.backend.diagnose().first { $0.verdict == .failure }
            #expect(failure?.check == "credentials")
        }
    }

    @Test(
        "Every sub-error of Huawei's list has its own words",
        arguments: [20001, 20002, 20003, 12304, 20173, 20171, 20172, 20182]
    )
    func subErrors(number: Int) throws {
        let body = #"{"error":1101,"sub_error":\#(number),"error_description":"x"}"#
        let error = #expect(throws: PushError.self) {
            try HMSTokenEndpoint.read(HTTPAnswer(status: 400, body: Array(body.utf8)), now: .now)
        }
        #expect(error?.code == .credentialsRefused)
        #expect(error?.reason == "oauth_\(number)")
        #expect(error?.message.contains("app_id, client_secret and token_url") == false)
    }

    @Test("A token is decoded from JSON, whose slashes are escaped")
    func escapedToken() throws {
        let body = #"{"access_token":"CgB6\/x\/y","expires_in":"1800","token_type":"Bearer"}"#
        let token = try HMSTokenEndpoint.read(HTTPAnswer(status: 200, body: Array(body.utf8)), now: .now)
        #expect(token.value.reveal() == "CgB6/x/y")
        #expect(token.lifetime == .seconds(1800))
    }

    @Test("A service account signs PS256 tokens that the platform takes, in v1 and in v2", arguments: [1, 2])
    func serviceAccount(version: Int) async throws {
        try await Harness.run(change: { options, simulator in
            let account = try HMSServiceAccount(json: Array(simulator.serviceAccountFile.utf8))
            options.credential = .serviceAccount(account)
            if version == 2 { options.api = .v2(projectID: simulator.app.projectID) }
        }) { harness in
            #expect(await harness.sendOne().acceptance != nil)
            #expect(harness.simulator.counters.tokensIssued == 0)
        }
    }

    @Test("A clock that is wrong is told apart from a wrong key")
    func clock() async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.clockOffset = .seconds(7200)
        try await Harness.run(
            configuration,
            change: { options, simulator in
                options.credential = .serviceAccount(
                    try HMSServiceAccount(json: Array(simulator.serviceAccountFile.utf8))
                )
            }
        ) { harness in
            let refusal = try #require(await harness.sendOne().refusal)
            #expect(refusal.reason == "80200005")
            #expect(refusal.detail?.contains("clock") == true)
            #expect(harness.backend.health.detail?.contains("clock") == true)
            #expect(await harness.backend.diagnose().contains { $0.check == "clock" && $0.verdict == .failure })
        }
    }

    @Test("The simulator's v3 takes the JWT, wants a push type, and reaches devices that v1 does not")
    func v3() async throws {
        try await Harness.run(.demonstration) { harness in
            let account = try HMSServiceAccount(json: Array(harness.simulator.serviceAccountFile.utf8))
            let bearer = "Bearer " + (try account.token(at: .now)).value.reveal()
            let transport = NIOTransport(logger: quiet)
            let endpoint = try #require(HTTPEndpoint(url: harness.simulator.url(HMSSimulator.push)))
            var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http2)
            configuration.extraTrustPEM = harness.simulator.authority.certificatePEM
            let pool = try transport.pool(configuration)
            let plain = #""category":"IM","title":"T","body":"B","clickAction":{"actionType":0}"#
            func send(_ headers: [HTTPHeader], _ fields: String, _ more: String = "") async throws -> HMSAnswer {
                let template = HTTPCallTemplate(
                    method: "POST",
                    headers: [HTTPHeader("authorization", bearer)] + headers
                )
                let target = #""target":{"token":["sim-v3-1","sim-dead-1"]}"#
                let body = #"{"payload":{"notification":{\#(fields)}},\#(more)\#(target)}"#
                let path = "/v3/\(harness.simulator.app.projectID)/messages:send"
                let answer = try await pool.send(HTTPCall(template, path: path, body: Array(body.utf8)))
                return HMSAnswer(answer, now: .now)
            }
            #expect(try await send([], plain).code == "80100001")
            let type = [HTTPHeader("push-type", "0")]
            // Huawei's page on answers: a wrong payload is a wrong structure, with the sample of a badge.
            for wrong in [plain + #","badge":{"setNum":100}"#, #""title":"T","body":"B""#] {
                #expect(try await send(type, wrong).code == "80100003")
            }
            #expect(try await send(type, plain, #""pushOptions":{"collapseKey":101},"#).code == "80100001")
            let answer = try await send(type, plain)
            #expect(answer.code == "80100000")
            #expect(answer.partial?.refused.map(\.token) == ["sim-dead-1"])
            #expect(answer.partial?.refused.first?.reason == "tokenFormatError")
            await transport.shutdown(grace: .seconds(1))
        }
    }

    // MARK: The kit

    @Test("The conformance kit passes with client credentials", arguments: AuthStrategyConformance.checks)
    func clientCredentials(check: ConformanceCheck<AuthStrategyConformance.Subject>) async throws {
        try await Harness.run { harness in
            try await check.run(
                AuthStrategyConformance.Subject(
                    strategy: harness.backend.auth,
                    destination: harness.backend.options.endpoint,
                    refreshes: { harness.simulator.counters.tokensIssued },
                    curable: (401, "80200003"),
                    hopeless: (400, "80300002")
                )
            )
        }
    }

    @Test("The conformance kit passes with a service account", arguments: AuthStrategyConformance.checks)
    func accounts(check: ConformanceCheck<AuthStrategyConformance.Subject>) async throws {
        let file = HMSSandboxServiceAccount().keyFile(projectID: "1")
        let account = try HMSServiceAccount(json: Array(file.utf8))
        let time = CountingTime()
        try await check.run(
            AuthStrategyConformance.Subject(
                strategy: HMSAuth(account: account, time: time),
                destination: HMSOptions.pushEndpoint,
                refreshes: { time.reads.load(ordering: .relaxed) },
                curable: (401, "80200005"),
                hopeless: (400, "80300036")
            )
        )
    }

    /// A clock that counts how often a token was made of it.
    final class CountingTime: TimeSource {
        let reads = Atomic(0)
        var now: Date {
            reads.add(1, ordering: .relaxed)
            return Date()
        }
        func sleep(for duration: Duration) async throws { try await SystemTime().sleep(for: duration) }
    }
}
