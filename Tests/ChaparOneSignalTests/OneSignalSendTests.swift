import Foundation
import OneSignalBench
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

/// Sending, by what the simulator saw: specs/idpush-onesignal.md sections 14, 17, 18 and 21.
@Suite("OneSignal: sending", .timeLimit(.minutes(5)))
struct OneSignalSendTests {
    @Test(
        "Requests to the platform are the recipients divided by the limit, rounded up",
        arguments: [
            (45, 20, 3), (40, 20, 2), (1, 20, 1), (41, 20, 3), (2_500, 1_000, 3),
        ]
    )
    func batches(recipients: Int, limit: Int, requests: Int) async throws {
        try await Harness.run(adjust: { $0.batchSize = limit }) { harness in
            let outcomes = await harness.send(harness.simulator.addPlayers(recipients))
            #expect(outcomes.count == recipients)
            #expect(outcomes.allSatisfy { $0.acceptance?.platformID != nil })
            #expect(harness.simulator.counters.createRequests == requests)
            #expect(harness.simulator.counters.delivered == recipients)
            #expect(Set(outcomes.compactMap { $0.acceptance?.platformID }).count == requests)
        }
    }

    @Test("At the platform's own limit, 50,000 recipients are three requests")
    func largeBatches() async throws {
        try await Harness.run { harness in
            let outcomes = await harness.send(harness.simulator.addPlayers(50_000))
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.counters.createRequests == 3)
            #expect(harness.simulator.counters.delivered == 50_000)
        }
    }

    @Test("Two recipients with one id share a slot and an outcome")
    func duplicates() async throws {
        try await Harness.run(adjust: { $0.batchSize = 2 }) { harness in
            let ids = harness.simulator.addPlayers(3)
            let outcomes = await harness.send([ids[0], ids[1].uppercased(), ids[2], ids[0].uppercased(), ids[1]])
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(outcomes[0] == outcomes[3] && outcomes[1] == outcomes[4])
            #expect(harness.simulator.counters.createRequests == 2)
            #expect(harness.simulator.counters.delivered == 3)
        }
    }

    @Test("A malformed id is refused alone, and the other 999 are sent")
    func malformed() async throws {
        try await Harness.run { harness in
            var ids = harness.simulator.addPlayers(999)
            ids.insert("not-a-uuid", at: 500)
            let outcomes = await harness.send(ids)
            #expect(outcomes[500].word == "token malformed_platform_id")
            #expect(outcomes.filter { $0.acceptance != nil }.count == 999)
            #expect(harness.simulator.counters.createRequests == 1)
        }
    }

    @Test("Unsubscribed ids are refused and not dead; ids that the app does not know pass without a word")
    func partial() async throws {
        try await Harness.run { harness in
            let ids = harness.simulator.addPlayers(4)
            harness.simulator.setSubscribed(false, ids[1])
            let outcomes = await harness.send(ids + [UUID().uuidString])
            #expect(outcomes.map(\.word) == ["accepted", "token unsubscribed", "accepted", "accepted", "accepted"])
            #expect(outcomes[1].refusal?.advice == .never)
            #expect(outcomes[1].refusal?.invalidation == nil)
        }
    }

    @Test("A success code without an id is no success")
    func nobody() async throws {
        try await Harness.run { harness in
            let ids = harness.simulator.addPlayers(2)
            for id in ids { harness.simulator.setSubscribed(false, id) }
            let outcomes = await harness.send(ids)
            #expect(outcomes.map(\.word) == ["token unsubscribed_or_unknown", "token unsubscribed_or_unknown"])
            let everyone = await harness.oneSignal.send(.sample, to: [.everyone])
            #expect(everyone[0].word == "message nobody_matched")
            #expect(harness.simulator.counters.created == 0)
            #expect(harness.simulator.counters.createRequests == 2, "no retry")
        }
    }

    @Test("An app that refuses all recipients loses no device, and is announced")
    func wrongApp() async throws {
        try await Harness.run { harness in
            let registrar = try #require(harness.oneSignal.devices)
            var ids: [String] = []
            for number in 0..<4 {
                ids.append(try await registrar.register(.sample("d-\(number)", token: token(number))))
            }
            harness.simulator.rules.isWrongApp = true
            _ = await harness.send(ids)
            harness.simulator.rules.isWrongApp = false
            #expect(harness.oneSignal.health.status == .degraded)
            let outcomes = await harness.oneSignal.send(.sample, to: (0..<4).map { .device("d-\($0)") })
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.oneSignal.health.status == .ok)
        }
    }

    @Test("One device that unsubscribed is left out until it subscribes again")
    func remembersUnsubscribed() async throws {
        try await Harness.run { harness in
            let backend = harness.oneSignal
            for number in 0..<4 {
                _ = try await backend.devices?.register(.sample("d-\(number)", token: token(number)))
            }
            let devices = (0..<4).map { Recipient.device("d-\($0)") }
            let record = try #require(try await backend.players.load(device: "d-2"))
            harness.simulator.setSubscribed(false, record.platformID)
            #expect(await backend.send(.sample, to: devices)[2].word == "token unsubscribed")
            let before = harness.simulator.counters.createRequests
            #expect(await backend.send(.sample, to: [devices[2]])[0].word == "token unsubscribed")
            #expect(harness.simulator.counters.createRequests == before, "refused without asking")
            try await backend.subscriptions?.setStatus(.subscribed, of: .sample("d-2", token: token(2)))
            #expect(await backend.send(.sample, to: [devices[2]])[0].acceptance != nil)
        }
    }

    @Test("Users, segments, tags and everybody are one request each, of one kind")
    func audiences() async throws {
        var rules = OneSignalSimulator.Rules.lenient
        rules.segments = ["Tehran": TagFilter(all: ["city:tehran"])]
        try await Harness.run(rules) { harness in
            let simulator = harness.simulator
            let tehran = simulator.addPlayers(2, tags: ["city": "tehran"])
            let vip = simulator.addPlayers(1, tags: ["city": "shiraz", "vip": "1"])
            _ = try await harness.oneSignal.devices?.register(.sample(user: "a/b@c d"))
            let recipients: [Recipient] = [
                .topic("Tehran"), .everyone, .tags(TagFilter(all: ["city:tehran"])),
                .tags(TagFilter(any: ["city:tehran", "vip"], none: ["plan:pro"])), .user("a/b@c d"),
                .platformID(vip[0]), .tags(TagFilter(none: ["city"])),
            ]
            let outcomes = await harness.oneSignal.send(.sample, to: recipients)
            let sizes = outcomes.map { outcome in
                simulator.messages.first { $0.id == outcome.acceptance?.platformID }?.players.count
            }
            #expect(sizes == [2, 4, 2, 3, 1, 1, 1])
            #expect(outcomes.map { $0.acceptance?.isForAudience } == [true, true, true, true, false, false, true])
            #expect(tehran.allSatisfy { simulator.player($0)?.received.count == 4 })
        }
    }

    @Test("A segment that does not exist, a user who cannot be, tags of nothing: refused, each for itself")
    func badAudiences() async throws {
        try await Harness.run { harness in
            let recipients: [Recipient] = [
                .topic("Nowhere"), .user("undefined"), .tags(TagFilter()), .topic(" "), .device("nobody"),
                .token(DeviceToken("t", service: .iOSAPNs)),
                .tags(TagFilter(any: (0..<101).map { "t\($0)" })),
            ]
            let outcomes = await harness.oneSignal.send(.sample, to: recipients)
            #expect(
                outcomes.map(\.word) == [
                    "message bad_request", "message bad_user", "message audience_empty", "message bad_topic",
                    "token not_registered", "token wrong_token_service", "message too_many_filters",
                ]
            )
            #expect(harness.simulator.counters.createRequests == 1)
        }
    }

    @Test("Raw tokens go out when they are allowed")
    func rawTokens() async throws {
        try await Harness.run(adjust: { $0.allowsRawTokens = true }) { harness in
            let id = harness.simulator.addPlayers(1)[0]
            let token = try #require(harness.simulator.player(id)?.token)
            let recipient = Recipient.token(DeviceToken(token, service: .iOSAPNs))
            #expect(harness.oneSignal.audience.contains(recipient))
            #expect(await harness.oneSignal.send(.sample, to: [recipient])[0].acceptance != nil)
        }
    }

    // MARK: Keys and repeats

    private func addressees(_ ids: [String]) -> [Addressee] { ids.map { Addressee(.platformID($0)) } }

    @Test("A time-out after the message was made, then a repeat: one message")
    func repeatAfterTimeout() async throws {
        try await Harness.run(adjust: { $0.common.timeout = .seconds(10) }) { harness in
            // The connection is made before, and not in the ten seconds.
            _ = await harness.send(harness.simulator.addPlayers(1))
            let request = PushRequest(.sample, to: addressees(harness.simulator.addPlayers(3)))
            harness.simulator.add([FaultRule(at: .processed, match: FaultMatch(count: 1), .silence)])
            #expect(await harness.oneSignal.send([request])[0].allSatisfy { $0.unknown != nil })
            let again = await harness.oneSignal.send([request])[0]
            #expect(again.allSatisfy { $0.acceptance != nil })
            let counters = harness.simulator.counters
            #expect(counters.createRequests == 3 && counters.created == 2 && counters.replayed == 1)
            #expect(counters.delivered == 1 + 3)
        }
    }

    @Test("A pause that was asked for, then success: one message, one key")
    func repeatAfter429() async throws {
        try await Harness.run { harness in
            let request = PushRequest(.sample, to: addressees(harness.simulator.addPlayers(3)))
            harness.simulator.add([
                FaultRule(
                    match: FaultMatch(count: 1),
                    .answer(FaultAnswer(429, "API rate limit exceeded", retryAfter: 60))
                )
            ])
            let first = await harness.oneSignal.send([request])[0]
            #expect(first.allSatisfy { $0.refusal?.advice == .slowBackend(after: .seconds(60)) })
            harness.time.advance(by: .seconds(61))
            #expect(await harness.oneSignal.send([request])[0].allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.counters.created == 1)
        }
    }

    @Test(
        "A repeat that is grouped anew, also after a restart, repeats the request as it was",
        arguments: [true, false]
    )
    func regrouped(restarts: Bool) async throws {
        try await Harness.run { harness in
            let all = addressees(harness.simulator.addPlayers(6))
            harness.simulator.add([FaultRule(at: .processed, match: FaultMatch(count: 1), .end(.reset))])
            #expect(await harness.oneSignal.send([PushRequest(.sample, to: all)])[0].allSatisfy { $0.unknown != nil })
            let backend = restarts ? try harness.restarted() : harness.oneSignal
            // As a gateway's recovery does it: each delivery a request of its own, in any order and company.
            let parts = [PushRequest(.sample, to: [all[4]]), PushRequest(.sample, to: [all[1], all[0]])]
            let late = [PushRequest(.sample, to: [all[5], all[3], all[2]])]
            let outcomes = await backend.send(parts) + backend.send(late)
            #expect(outcomes.flatMap { $0 }.count == 6)
            #expect(outcomes.flatMap { $0 }.allSatisfy { $0.acceptance != nil })
            let counters = harness.simulator.counters
            #expect(counters.created == 1 && counters.delivered == 6, "nobody got it twice, nobody was left out")
            if restarts { await backend.shutdown(grace: .zero) }
            #expect(
                harness.state.values.keys.filter { $0.contains("chunk") }.isEmpty,
                "nothing is left over"
            )
        }
    }

    @Test("A crash before the platform saw anything loses no message either")
    func regroupedNeverSent() async throws {
        try await Harness.run { harness in
            let all = addressees(harness.simulator.addPlayers(4))
            harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .end(.reset))])
            #expect(await harness.oneSignal.send([PushRequest(.sample, to: all)])[0].allSatisfy { $0.unknown != nil })
            let backend = try harness.restarted()
            let parts = all.map { PushRequest(.sample, to: [$0]) }
            let outcomes = await backend.send(parts).flatMap { $0 }
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.counters.created == 1 && harness.simulator.counters.delivered == 4)
            await backend.shutdown(grace: .zero)
        }
    }

    @Test("Two chunks have two keys; the same chunk has the same key")
    func chunkKeys() throws {
        let members = (0..<4).map {
            OneSignalBatchRequest.Member(message: MessageID(high: 1, low: $0), target: "t\($0)")
        }
        let first = OneSignalBatchRequest(.subscriptions, Array(members[..<2]), backend: "a")
        let second = OneSignalBatchRequest(.subscriptions, Array(members[2...]), backend: "a")
        #expect(first.key != second.key)
        #expect(first.key == OneSignalBatchRequest(.subscriptions, members[..<2].reversed(), backend: "a").key)
        #expect(first.key != OneSignalBatchRequest(.subscriptions, Array(members[..<2]), backend: "b").key)
        let uuid = try #require(UUID(uuidString: first.key))
        #expect(uuid.uuidString.lowercased() == first.key)
        #expect(first.key.dropFirst(14).first == "5", "version 5")
    }

    @Test("A batch that is too large for the platform is halved, and the size is remembered")
    func halves() async throws {
        var rules = OneSignalSimulator.Rules.lenient
        rules.maximumIDs = 30
        try await Harness.run(rules, adjust: { $0.batchSize = 100 }) { harness in
            let outcomes = await harness.send(harness.simulator.addPlayers(100))
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.counters.delivered == 100)
            let before = harness.simulator.counters.createRequests
            _ = await harness.send(harness.simulator.addPlayers(50))
            #expect(harness.simulator.counters.createRequests - before == 2)
            #expect(harness.oneSignal.currentChunkSize == 25)
        }
    }

    // MARK: Faults

    static let errors: [(FaultAnswer, String, Refusal.Advice)] = [
        (
            FaultAnswer(400, "Message Notifications must have English language content"), "message english_missing",
            .never
        ),
        (FaultAnswer(400, "Something new"), "message bad_request", .never),
        (FaultAnswer(401), "account unauthorized", .parkBackend),
        (FaultAnswer(403, "Access denied. …"), "account access_denied", .parkBackend),
        (FaultAnswer(403, "The plan does not have this"), "account forbidden", .parkBackend),
        (FaultAnswer(403, body: []), "account forbidden", .parkBackend),
        (FaultAnswer(404, "Not found"), "message not_found", .never),
        (FaultAnswer(408), "platform unavailable", .retry(after: nil)),
        (FaultAnswer(409, "Conflict"), "platform conflict", .retry(after: .seconds(1))),
        (FaultAnswer(413), "message too_large", .never), (FaultAnswer(422, "limit"), "account plan_limit", .never),
        (FaultAnswer(418), "message other", .never), (FaultAnswer(302), "account redirected", .parkBackend),
        (FaultAnswer(429), "platform rate_limited", .slowBackend(after: nil)),
        (FaultAnswer(429, retryAfter: 0), "platform rate_limited", .slowBackend(after: .zero)),
        (FaultAnswer(500), "platform unavailable", .retry(after: nil)),
        (FaultAnswer(503, retryAfter: 7), "platform unavailable", .retry(after: .seconds(7))),
        (.htmlPage, "platform unavailable", .retry(after: nil)),
    ]

    @Test("Every error of the table has its outcome", arguments: errors)
    func errorTable(answer: FaultAnswer, word: String, advice: Refusal.Advice) async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(.answer(answer))])
            let outcomes = await harness.send(harness.simulator.addPlayers(2))
            for outcome in outcomes {
                #expect(outcome.word == word)
                #expect(outcome.refusal?.advice == advice)
                #expect(outcome.refusal?.invalidation == nil)
            }
            #expect(harness.simulator.counters.createRequests == 1, "a backend does not retry")
        }
    }

    static let shapes: [(String, String)] = [
        (#"{"errors":"one text"}"#, "one text"), (#"{"errors":["a","b"]}"#, "a; b"),
        (#"{"errors":[{"code":"c-1","title":"T"}]}"#, "T"), (#"{"errors":[{"code":"c-1"}]}"#, "c-1"),
        (#"{"errors":{"invalid_player_ids":["x"]}}"#, "invalid_player_ids"), (#"{"errors":7}"#, ""), ("", ""),
        ("<html>", ""), (#"{"errors":[[1]]}"#, ""), (#"{"errors":null,"success":false}"#, ""), (#"{"err"#, ""),
    ]

    @Test("Errors of every shape are read, none of them crashes", arguments: shapes)
    func errorShapes(body: String, text: String) async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(.answer(FaultAnswer(400, body: Array(body.utf8))))])
            let outcome = await harness.send(harness.simulator.addPlayers(1))[0]
            #expect(outcome.refusal?.status == 400)
            #expect((outcome.refusal?.detail ?? "") == text)
        }
    }

    static let unreadable: [[UInt8]] = [
        "", "<html>", #"{"id":"#, "[]", "{}", #"{"id":5,"name":[],"errors":7}"#, #"{"id":null}"#,
    ].map { Array($0.utf8) }

    @Test("An unreadable success is unknown, and a repeat shows the outcome", arguments: unreadable)
    func unreadableSuccess(body: [UInt8]) async throws {
        try await Harness.run { harness in
            let request = PushRequest(.sample, to: addressees(harness.simulator.addPlayers(2)))
            harness.simulator.add([
                FaultRule(at: .processed, match: FaultMatch(count: 1), .answer(FaultAnswer(200, body: body)))
            ])
            #expect(await harness.oneSignal.send([request])[0].allSatisfy { $0.word == "unknown bad_answer" })
            #expect(await harness.oneSignal.send([request])[0].allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.counters.created == 1)
        }
    }

    @Test("A host that refuses connections is a failure of the platform")
    func unreachable() async throws {
        let adjust: (inout OneSignalOptions) -> Void = { options in
            options.base = HTTPBaseURL(HTTPEndpoint(host: "127.0.0.1", port: 1))
            options.common.timeout = .seconds(3)  // It tries again and again for so long.
        }
        try await Harness.run(adjust: adjust) { harness in
            var outcome = await harness.send([UUID().uuidString])[0]
            // Seldom the deadline passes in the middle of a try.
            while outcome.word == "platform deadline" { outcome = await harness.send([UUID().uuidString])[0] }
            #expect(outcome.word == "platform connect_failed")
            #expect(harness.oneSignal.health.status == .down)
        }
    }

    @Test("The old spelling of Retry-After counts, and no error repeats ids")
    func spellings() {
        let id = "5b1d6c0e-93f4-4c2b-8a7e-2f60d1c4e9ab"
        let body = #"{"errors":["Incorrect subscription_id format in x (not a valid UUID): \#(id), \#(id)"]}"#
        let answer = HTTPAnswer(status: 429, headers: [HTTPHeader("retryafter", "9")], body: Array(body.utf8))
        let read = OneSignalAnswer(answer, now: Date())
        #expect(read.retryAfter == .seconds(9))
        #expect(read.text?.contains(id) == false)
        #expect(read.text?.hasPrefix("Incorrect subscription_id") == true)
    }

    // MARK: Keys of the app

    static let keys: [(String, OneSignalOptions.AuthScheme, Bool)] = [
        ("os_v2_app_sandbox", .auto, true), ("os_v2_app_sandbox", .key, true), ("sandbox-legacy-key", .auto, true),
        ("sandbox-legacy-key", .basic, true), ("os_v2_app_sandbox", .basic, false), ("wrong", .auto, false),
    ]

    @Test("Both schemes of keys are spoken", arguments: keys)
    func schemes(key: String, scheme: OneSignalOptions.AuthScheme, isGood: Bool) async throws {
        try await Harness.run(adjust: { ($0.apiKey, $0.authScheme) = (Secret(key), scheme) }) { harness in
            let outcome = await harness.send(harness.simulator.addPlayers(1))[0]
            #expect(outcome.word == (isGood ? "accepted" : "account access_denied"))
            #expect(!"\(outcome)".contains(key))
        }
    }

    @Test("A key that was rotated in its file is taken up, and nothing is lost")
    func rotatedKey() async throws {
        let fresh = Recorder<Secret>()
        try await Harness.run(adjust: { $0.reloadKey = { fresh.all.last } }) { harness in
            let ids = harness.simulator.addPlayers(2)
            #expect(await harness.send(ids)[0].acceptance != nil)
            harness.simulator.rules.apiKey = "os_v2_app_new"
            #expect(await harness.send(ids)[0].word == "account access_denied")
            fresh.add(Secret("os_v2_app_new"))
            #expect(await harness.send(ids)[0].acceptance != nil)
        }
    }

    // MARK: Limits

    @Test("The guard holds messages before the app's limit is crossed")
    func messageShare() async throws {
        try await Harness.run(adjust: { $0.maximumMessagesPer15Minutes = 10 }) { harness in
            let ids = harness.simulator.addPlayers(6)
            #expect(await harness.send(ids)[0].acceptance != nil)
            let held = await harness.send(ids)[0]
            #expect(held.word == "platform app_message_limit")
            guard case .slowBackend(let wait)? = held.refusal?.advice else { Issue.record("\(held)"); return }
            #expect(wait.map { $0 > .seconds(890) && $0 <= .seconds(900) } ?? false)
            #expect(harness.simulator.counters.createRequests == 1)
            harness.time.advance(by: .seconds(901))
            #expect(await harness.send(ids)[0].acceptance != nil)
        }
    }

    @Test("Creates keep within the quota by waiting, not by hope")
    func createBudget() async throws {
        var rules = OneSignalSimulator.Rules()
        rules.createsPerSecond = 10
        try await Harness.run(rules, adjust: { $0.requestLimit = 5 }) { harness in
            let ids = harness.simulator.addPlayers(40)
            for id in ids { #expect(await harness.send([id])[0].word == "accepted") }
            #expect(harness.simulator.counters.createRequests == 40, "none of them met 429")
            #expect(!harness.time.slept.withLock { $0.isEmpty })
        }
    }

    // MARK: Conformance

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
                    harness.oneSignal,
                    sender: harness.oneSignal,
                    payloadLimit: OneSignalCheck.payloadLimit,
                    deadline: timeout,
                    log: log
                )
            )
        }
    }
}
