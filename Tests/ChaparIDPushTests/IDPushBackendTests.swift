import Foundation
import OneSignalBench
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparIDPush
@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

/// The server-side backend: registers through IDPush, sends through OneSignal.
@Suite("IDPush: the backend", .timeLimit(.minutes(5)))
struct IDPushBackendTests {
    @Test("A device that was registered through IDPush gets what is sent through OneSignal")
    func wholeTrick() async throws {
        try await Harness.run { harness in
            let id = try await #require(harness.idPush.devices).register(.sample())
            let player = try #require(harness.simulator.player(id))
            #expect(player.project == harness.simulator.rules.projectID && player.testType == 2)
            #expect(player.fields["game_version"] == "3.4.1" && player.fields["device_os"] == "17.5.1")
            let outcomes = await harness.idPush.send(.sample, to: [.device("d-1"), .platformID(id)])
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.player(id)?.received == ["Order 42"])
            #expect(harness.simulator.counters.idPushRequests == 2, "language and time zone need an edit")
        }
    }

    @Test("Without a OneSignal section it registers, and refuses to send with a sentence that helps")
    func registersOnly() async throws {
        try await Harness.run { harness in
            let context = BackendContext(name: "p", http: harness.transport, time: harness.time, logger: quiet)
            let backend = try IDPushBackend(options: .sample(harness.simulator), context: context)
            let id = try await #require(backend.devices).register(.sample())
            let outcome = await backend.send(.sample, to: [.platformID(id)])[0]
            #expect(outcome.word == "account send_not_configured")
            #expect(outcome.refusal?.advice == .never)
            #expect(outcome.refusal?.detail?.contains("onesignal") == true)
            #expect(backend.cancellation == nil && backend.tracking == nil)
            #expect(await backend.diagnose().map(\.verdict) == [.warning])
            #expect(harness.simulator.counters.createRequests == 0)
            await backend.shutdown(grace: .zero)
        }
    }

    @Test("Only what has changed is sent again")
    func idempotentRegistration() async throws {
        try await Harness.run { harness in
            let devices = try #require(harness.idPush.devices)
            let id = try await devices.register(.sample())
            #expect(try await devices.register(.sample()) == id)
            #expect(harness.simulator.counters.idPushRequests == 2, "added, and edited for language and time zone")
            #expect(try await devices.register(.sample(user: "u")) == id)
            #expect(harness.simulator.aliases(of: id) == ["external_id": "u"])
            let fields = harness.simulator.player(id)?.fields
            #expect(fields?["language"] == "fa" && fields?["timezone"] == "12600")
            let other = try await devices.register(.sample(user: "u", token: token(1)))
            #expect(other != id)
            #expect(harness.simulator.counters.idPushRequests == 5)
            #expect(harness.simulator.aliases(of: other) == ["external_id": "u"], "a new player belongs to the user")
        }
    }

    @Test("Tags and registrations never opt a user in")
    func noOptIn() async throws {
        try await Harness.run { harness in
            let backend = harness.idPush
            let devices = try #require(backend.devices)
            let id = try await devices.register(.sample())
            try await backend.tags?.setTags(["city": "تهران", "vip": true], of: .sample())
            #expect(harness.simulator.tags(of: id) == ["city": "تهران", "vip": "true"])
            #expect(harness.simulator.player(id)?.isSubscribed == true)
            try await backend.subscriptions?.setStatus(.unsubscribed, of: .sample())
            #expect(try await backend.subscriptions?.status(of: .sample()) == .unsubscribed)
            try await backend.tags?.setTags(["city": nil], of: .sample())
            #expect(harness.simulator.player(id)?.notificationTypes == -2)
            #expect(harness.simulator.tags(of: id) == ["vip": "true"])
            let again = try await devices.register(.sample(token: token(3)))
            #expect(harness.simulator.player(again)?.isSubscribed == false, "a new token opts nobody in either")
            try await backend.subscriptions?.setStatus(.subscribed, of: .sample(token: token(3)))
            #expect(harness.simulator.player(again)?.isSubscribed == true)
        }
    }

    @Test("A player that is lost is registered again, whichever way IDPush says so", arguments: [true, false])
    func lost(answers404: Bool) async throws {
        var rules = OneSignalSimulator.Rules.lenient
        rules.idPushAnswers404 = answers404
        try await Harness.run(rules) { harness in
            let id = try await #require(harness.idPush.devices).register(.sample())
            harness.simulator.forget(id)
            try await harness.idPush.subscriptions?.setStatus(.unsubscribed, of: .sample())
            #expect(harness.simulator.players.map(\.notificationTypes) == [-2])
        }
    }

    @Test("Removing unsubscribes, since there is no route that deletes, and forgets")
    func remove() async throws {
        try await Harness.run { harness in
            let id = try await #require(harness.idPush.devices).register(.sample())
            try await harness.idPush.devices?.remove(.sample())
            #expect(harness.simulator.player(id)?.isSubscribed == false)
            #expect(await harness.idPush.send(.sample, to: [.device("d-1")])[0].word == "token not_registered")
        }
    }

    static let answers: [(FaultAnswer, String, PushError.Code, Int)] = [
        (FaultAnswer(401), "forbidden", .credentialsRefused, 1),
        (FaultAnswer(403), "forbidden", .credentialsRefused, 1),
        (FaultAnswer(404), "not_found", .credentialsRefused, 1), (FaultAnswer(422), "bad_request", .invalidRequest, 1),
        (FaultAnswer(429, retryAfter: 3), "rate_limited", .rateLimited, 1),
        (FaultAnswer(408), "unavailable", .unavailable, 1),
        (FaultAnswer(500), "unavailable", .unavailable, 1), (.htmlPage, "unavailable", .unavailable, 1),
        (FaultAnswer(302), "redirected", .credentialsRefused, 1),
        (FaultAnswer(200, "project is not active"), "refused_by_idpush", .invalidRequest, 1),
        (FaultAnswer(200, body: Array("<html>".utf8)), "invalid_response", .badAnswer, 3),
        (FaultAnswer(200, body: Array(#"{"status":1"#.utf8)), "invalid_response", .badAnswer, 3),
        (FaultAnswer(200, body: Array(#"{"status":"1"}"#.utf8)), "invalid_response", .badAnswer, 3),
        (FaultAnswer(200, body: Array(#"{"status":1,"player_id":4}"#.utf8)), "invalid_response", .badAnswer, 3),
        (FaultAnswer(200, body: []), "invalid_response", .badAnswer, 3),
    ]

    @Test("Every answer of IDPush has its meaning, and a bad one stores nothing", arguments: answers)
    func table(answer: FaultAnswer, reason: String, code: PushError.Code, requests: Int) async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(match: FaultMatch(listener: "idpush"), .answer(answer))])
            let error = await failure { () async throws(PushError) in
                _ = try await harness.idPush.devices?.register(.sample())
            }
            #expect(error?.reason == reason)
            #expect(error?.code == code)
            #expect(harness.simulator.counters.idPushRequests == requests)
            #expect(harness.state.values.isEmpty)
            #expect(error.map { "\($0)".contains(apnsToken) } == false)
        }
    }

    @Test("A store that fails makes no registration a success")
    func failingStore() async throws {
        try await Harness.run { harness in
            harness.state.fails = true
            let error = await failure { () async throws(PushError) in
                _ = try await harness.idPush.devices?.register(.sample())
            }
            #expect(error?.reason == "store_failed")
        }
    }

    @Test("A registration of one process is known to the next one")
    func restart() async throws {
        let state = MemoryState()
        try await Harness.run(state: state) { harness in
            _ = try await #require(harness.idPush.devices).register(.sample())
            let context = BackendContext(
                name: "campaigns",
                http: harness.transport,
                time: harness.time,
                state: state,
                logger: quiet
            )
            let again = try IDPushBackend(
                options: .sample(harness.simulator),
                context: context,
                sender: OneSignalOptions.sample(harness.simulator).sender
            )
            #expect(await again.send(.sample, to: [.device("d-1")])[0].acceptance != nil)
            try await again.subscriptions?.setStatus(.unsubscribed, of: .sample())
            #expect(harness.simulator.players.map(\.isSubscribed) == [false])
            await again.shutdown(grace: .zero)
        }
    }

    @Test("The backend keeps what every backend promises", arguments: BackendConformance.checks)
    func conformance(_ check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 120)
        let log = RecordedLog()
        let adjust: (inout OneSignalOptions) -> Void = { options in
            options.common.timeout = timeout
            options.schedulesOnPlatform = true
        }
        try await Harness.run(adjust: adjust, logger: log.logger) { harness in
            try await check.run(
                try await harness.bench.subject(
                    harness.idPush,
                    sender: harness.oneSignal,
                    payloadLimit: OneSignalCheck.payloadLimit,
                    deadline: timeout,
                    log: log
                )
            )
        }
    }
}
