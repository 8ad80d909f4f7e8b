import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPNs

@Suite("Credentials over real sockets", .timeLimit(.minutes(1)))
struct APNsCredentialSocketTests {
    @Test("A thousand expired tokens at once: one mint, each message accepted once, the connection replaced")
    func expired() async throws {
        let time = ManualTime()
        try await SocketHarness.run(time: time) { harness in
            await harness.warmUp()
            let recipients = harness.register(1000)
            // Apple's clock is ahead: it calls a token of 45 minutes expired.
            time.advance(by: .seconds(45 * 60))
            harness.simulator.clockOffset = .seconds(30 * 60)
            harness.simulator.add(FaultRule(at: .requestHeaders, .wedgeAfterExpiry))
            let outcomes = await harness.backend.send(PushNotification(title: "x"), to: recipients)
            // The new token is 30 minutes old by Apple's clock, which it takes.
            #expect(
                outcomes.count { $0.acceptance != nil } == 1000,
                "\(outcomes.first { $0.acceptance == nil }.debugDescription)"
            )
            let counters = harness.simulator.counters
            #expect(harness.backend.tokens?.generation == 2)
            #expect(counters.duplicateIDs == 0)
            #expect(counters.refused["ExpiredProviderToken", default: 0] >= 1)
            #expect(counters.refused["ExpiredProviderToken", default: 0] <= 1000)
            #expect(counters.refused["TooManyProviderTokenUpdates"] == nil)
            #expect(harness.backend.health.status == .ok)
        }
    }

    @Test("With sister connections open, a replay does not meet the refused token again")
    func sisters() async throws {
        let time = ManualTime()
        var configuration = APNsSimulatorConfiguration()
        configuration.streams.afterFirstPush = 20
        try await SocketHarness.run(configuration, time: time) { harness in
            let recipients = harness.register(400)
            // Slow answers keep the first connection full, until the pool opens others.
            harness.simulator.add(FaultRule(name: "slow", .delay(.milliseconds(150))))
            _ = await harness.backend.send(PushNotification(title: "x"), to: recipients)
            #expect(harness.simulator.counters.connectionsOpened >= 2)
            harness.simulator.removeRules(named: "slow")
            time.advance(by: .seconds(45 * 60))
            harness.simulator.clockOffset = .seconds(30 * 60)
            let outcomes = await harness.backend.send(PushNotification(title: "y"), to: recipients)
            #expect(outcomes.count { $0.acceptance != nil } == 400)
            #expect(harness.backend.tokens?.generation == 2)
        }
    }

    @Test("A clock far behind Apple's: parked after one replay, with a word about the clock; set right, it goes on")
    func wrongClock() async throws {
        let time = ManualTime()
        try await SocketHarness.run(time: time) { harness in
            harness.simulator.register(tokens: [goodToken], topic: bundleID)
            harness.simulator.clockOffset = .seconds(2 * 3600)
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.advice == .parkBackend)
            #expect(refusal.detail?.contains("clock") == true)
            let seen = harness.simulator.counters.requests
            #expect(seen == 2)
            #expect(await harness.send().refusal?.advice == .parkBackend)
            #expect(harness.simulator.counters.requests == seen, "held")
            #expect(harness.backend.health.status != .ok)
            // The operator sets the clock: two hours later by it, and Apple agrees.
            time.advance(by: .seconds(2 * 3600))
            harness.simulator.clockOffset = .zero
            #expect(await harness.send().acceptance != nil)
            #expect(harness.backend.health.status == .ok)
        }
    }

    @Test("A clock ahead of Apple's is named as well")
    func clockAhead() async throws {
        let time = ManualTime()
        try await SocketHarness.run(time: time) { harness in
            harness.simulator.clockOffset = .seconds(-2 * 3600)
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.reason == "InvalidProviderToken")
            #expect(refusal.advice == .parkBackend)
        }
    }

    @Test("Over two hours of traffic the token changes on a connection, and Apple never complains")
    func rotation() async throws {
        let time = ManualTime()
        try await SocketHarness.run(time: time, state: MemoryState()) { harness in
            await harness.warmUp()
            for _ in 0..<24 {
                time.advance(by: .seconds(5 * 60))
                // The pool asks the policy once a second, by its own clock.
                let deadline = ContinuousClock.now + .seconds(10)
                let generation = harness.backend.tokens?.generation
                var outcome = await harness.send()
                while outcome.acceptance == nil, ContinuousClock.now < deadline { outcome = await harness.send() }
                #expect(outcome.acceptance != nil, "\(outcome), generation \(generation ?? 0)")
            }
            let refused = harness.simulator.counters.refused
            #expect(refused["TooManyProviderTokenUpdates"] == nil)
            #expect((harness.backend.tokens?.generation ?? 0) >= 4)
        }
    }

    @Test("Tokens changed too often, once: the message goes out with the same token on another connection")
    func tooMany() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken])
            harness.simulator.add(
                FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(429, "TooManyProviderTokenUpdates")))
            )
            #expect(await harness.send().acceptance != nil)
            #expect(harness.backend.tokens?.generation == 1)
            #expect(harness.simulator.counters.connectionsOpened == 2)
            #expect(harness.backend.health.detail?.contains("too often") == true, "doctor and health say so")
            harness.simulator.add(
                FaultRule(match: FaultMatch(count: 2), .answer(FaultAnswer(429, "TooManyProviderTokenUpdates")))
            )
            #expect(await harness.send().refusal?.advice == .slowBackend(after: nil), "refused there, too")
            #expect(await harness.send().acceptance != nil, "a probe with the same token goes through")
            #expect(harness.backend.tokens?.generation == 1)
        }
    }

    @Test("A key of another team, an unknown key, a key of the other environment: parked, each with its words")
    func wrongKeys() async throws {
        let stranger = ChaparSandbox.APNsSigningKey(teamID: "STRANGER01", keyID: "STRANGER01")
        try await SocketHarness.run(credential: { _ in try APNsOptions.sample(stranger).credential }) { harness in
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.reason == "InvalidProviderToken")
            #expect(refusal.advice == .parkBackend)
            #expect(refusal.detail?.contains("key_id") == true)
        }
        var configuration = APNsSimulatorConfiguration()
        configuration.keys = [ChaparSandbox.APNsSigningKey(environments: [.development])]
        try await SocketHarness.run(configuration) { harness in
            let refusal = try #require(await harness.send().refusal)
            #expect(["BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken"].contains(refusal.reason))
            #expect(refusal.detail?.contains("environment") == true)
        }
    }

    @Test("Two environments: a token of one is unknown to the other")
    func environments() async throws {
        for environment in [APNsOptions.Environment.production, .development] {
            try await SocketHarness.run(environment: environment) { harness in
                harness.simulator.register(tokens: [goodToken], environment: .development)
                let outcome = await harness.send()
                if environment == .development {
                    #expect(outcome.acceptance != nil)
                } else {
                    #expect(outcome.refusal?.reason == "BadDeviceToken")
                    #expect(outcome.refusal?.invalidation?.isCertain == false, "it may only be the wrong environment")
                    #expect(outcome.refusal?.detail?.contains("Xcode") == true)
                }
            }
        }
    }

    // MARK: TLS

    static func identity(
        _ simulator: APNsSimulator,
        topics: [String] = [bundleID, "\(bundleID).voip"],
        environments: Set<APNsEnvironment> = [.development, .production],
        issued: Date = Date()
    ) throws -> APNsOptions.Credential {
        let identity = try simulator.authority.providerIdentity(
            APNsProviderCertificate(topics: topics, environments: environments),
            now: issued
        )
        return .certificate(
            try APNsCertificate(chainPEM: identity.certificatePEM, keyPEM: Secret(identity.privateKeyPEM))
        )
    }

    static var asking: APNsSimulatorConfiguration {
        var configuration = APNsSimulatorConfiguration()
        configuration.asksForClientCertificate = true
        return configuration
    }

    @Test("With a client certificate there is no token, and its topics are allowed")
    func certificate() async throws {
        try await SocketHarness.run(Self.asking, credential: { try Self.identity($0) }) { harness in
            harness.simulator.register(tokens: [goodToken])
            #expect(await harness.send().acceptance != nil)
            let voip = await harness.backend.send(APNsHeadersTests.typed("voip"), to: [recipient()])[0]
            #expect(voip.acceptance != nil)
            #expect(harness.simulator.inbox.map(\.topic) == [bundleID, "\(bundleID).voip"])
        }
    }

    @Test("A certificate that ends within 30 days still sends, and health tells when it ends")
    func endingCertificate() async throws {
        for (daysLeft, status) in [(40.0, BackendHealth.Status.ok), (10, .degraded)] {
            let issued = Date() - (365 - daysLeft) * 86_400  // It is made for a year.
            try await SocketHarness.run(Self.asking, credential: { try Self.identity($0, issued: issued) }) { harness in
                harness.simulator.register(tokens: [goodToken])
                #expect(await harness.send().acceptance != nil)
                let health = harness.backend.health
                #expect(health.status == status, "\(health.detail ?? "")")
                let end = try #require(health.credentialExpiries["client_certificate"])
                #expect(abs(end.timeIntervalSince(issued + 365 * 86_400)) < 2)
            }
        }
    }

    @Test("A client certificate that Apple does not take in the handshake parks the backend, with what to do")
    func refusedCertificate() async throws {
        let stranger = try SandboxCertificateAuthority()
        let identity = try stranger.providerIdentity(
            APNsProviderCertificate(topics: [bundleID], environments: [.development, .production])
        )
        let credential = APNsOptions.Credential.certificate(
            try APNsCertificate(chainPEM: identity.certificatePEM, keyPEM: Secret(identity.privateKeyPEM))
        )
        try await SocketHarness.run(Self.asking, credential: { _ in credential }) { harness in
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.kind == .account && refusal.reason == "tls_failed")
            #expect(refusal.advice == .parkBackend)
            #expect(refusal.detail?.contains("renew it") == true, "\(refusal.detail ?? "")")
            #expect(harness.simulator.counters.requests == 0)
        }
    }

    @Test("A topic that the certificate lacks is refused by Apple as an operator's matter")
    func foreignTopic() async throws {
        try await SocketHarness.run(
            Self.asking,
            credential: { try Self.identity($0, topics: ["com.example.other"]) }
        ) { harness in
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.reason == "TopicDisallowed")
            #expect(refusal.advice == .parkBackend)
            let finding = await harness.backend.diagnose().first { $0.check == "topic" }
            #expect(finding?.verdict == .failure)
            #expect(finding?.fix?.contains("com.example.other") == true)
        }
    }

    @Test("A certificate of the other environment is an operator's matter")
    func foreignEnvironment() async throws {
        try await SocketHarness.run(
            Self.asking,
            credential: { try Self.identity($0, environments: [.development]) }
        ) { harness in
            #expect(await harness.send().refusal?.reason == "BadCertificateEnvironment")
        }
    }

    @Test("A server whose certificate is not trusted, expired or of another host gets nothing, and the worker parks")
    func untrusted() async throws {
        for (kind, trusts) in [
            (SandboxCertificateAuthority.ServerCertificate.valid, false), (.expired, true), (.wrongHost, true),
        ] {
            var configuration = APNsSimulatorConfiguration()
            configuration.serverCertificate = kind
            try await SocketHarness.run(configuration, trusts: trusts) { harness in
                let refusal = try #require(await harness.send().refusal)
                #expect(refusal.reason == "tls_failed", "\(kind)")
                #expect(refusal.kind == .account)
                #expect(refusal.advice == .parkBackend)
                #expect(harness.simulator.counters.requests == 0)
                let finding = await harness.backend.diagnose().first { $0.check == "reachability" }
                #expect(finding?.verdict == .failure)
                #expect(finding?.fix?.contains("ca_file") == true)
            }
        }
    }

    @Test("A peer that does not choose h2 is an error that says so")
    func noALPN() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.usesALPN = false
        try await SocketHarness.run(configuration) { harness in
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.reason == "protocol_not_negotiated")
            #expect(refusal.detail?.contains("h2") == true)
            #expect(refusal.advice == .parkBackend)
        }
    }

    // MARK: Doctor

    @Test("The doctor finds a healthy connection, and a clock that is off")
    func doctor() async throws {
        try await SocketHarness.run { harness in
            let findings = await harness.backend.diagnose()
            #expect(findings.allSatisfy { $0.verdict == .ok }, "\(findings)")
            #expect(harness.simulator.counters.accepted == 0)
        }
        try await SocketHarness.run { harness in
            harness.simulator.clockOffset = .seconds(7200)
            let findings = await harness.backend.diagnose()
            #expect(findings.contains { $0.verdict == .failure && $0.fix?.contains("clock") == true }, "\(findings)")
        }
    }

    // MARK: Broadcast

    static func update(_ event: String = "update") -> PushNotification {
        var notification = PushNotification()
        notification.overrides["apns"] = [
            "headers": ["apns-push-type": "liveactivity"],
            "payload": ["aps": ["timestamp": 1, "event": .string(event), "content-state": ["stopsLeft": 3]]],
        ]
        return notification
    }

    @Test("Channels are made, read, listed, sent to and deleted")
    func channels() async throws {
        try await SocketHarness.run { harness in
            let channels = try #require(harness.backend.channels)
            let keeping = try await channels.create(storage: .newest)
            let passing = try await channels.create(storage: .none)
            #expect(try await channels.read(keeping) == .newest)
            #expect(try await channels.read(passing) == ChannelStorage.none)
            #expect(try await Set(channels.list()) == [keeping, passing])
            for channel in [keeping, passing] {
                let request = PushRequest(
                    Self.update(),
                    to: [Addressee(.platformID(channel))],
                    expiration: .at(Int64(Date().timeIntervalSince1970) + 3600)
                )
                let outcome = await harness.backend.send([request])[0][0]
                #expect(outcome.acceptance?.isForAudience == true, "\(outcome): expiration 0 where nothing is stored")
                #expect(outcome.acceptance?.platformID != nil, "Apple gives a broadcast's id in apns-request-id")
            }
            #expect(harness.simulator.counters.broadcasts == 2)
            #expect(try await channels.delete(keeping))
            #expect(try await !channels.delete(keeping), "it is gone")
            #expect(try await channels.list() == [passing])
            let gone = await harness.backend.send(Self.update(), to: [.platformID(keeping)])[0]
            #expect(gone.refusal?.kind == .token)
            #expect(gone.refusal?.advice == .never)
            #expect(gone.refusal?.invalidation == nil)
            #expect(try await channels.read(keeping) == nil)
            await #expect(throws: PushError.self, "no text of a channel's form") { try await channels.read("?") }
        }
    }

    @Test("As many channels as Apple allows: creation is refused with the count")
    func channelLimit() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.rules.maximumChannels = 1
        try await SocketHarness.run(configuration) { harness in
            let channels = try #require(harness.backend.channels)
            _ = try await channels.create()
            let error = await #expect(throws: PushError.self) { try await channels.create() }
            #expect(error?.code == .invalidRequest)
            #expect(error?.message.contains("1 now") == true)
        }
    }

    @Test("Broadcast that is not enabled is an operator's matter")
    func broadcastDisabled() async throws {
        var configuration = APNsSimulatorConfiguration()
        configuration.rules.broadcastBundleIDs = []
        try await SocketHarness.run(configuration) { harness in
            let channels = try #require(harness.backend.channels)
            let error = await #expect(throws: PushError.self) { try await channels.create() }
            #expect(error?.code == .credentialsRefused)
            #expect(error?.reason == "FeatureNotEnabled")
        }
    }

    @Test("A channel call with an expired token is replayed once")
    func channelReplay() async throws {
        try await SocketHarness.run { harness in
            let channels = try #require(harness.backend.channels)
            harness.simulator.add(
                FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(403, "ExpiredProviderToken")))
            )
            #expect(try await channels.list() == [])
        }
    }
}
