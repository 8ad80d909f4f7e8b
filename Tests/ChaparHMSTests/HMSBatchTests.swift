import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

@Suite("Recipients share requests, and each gets its own outcome", .timeLimit(.minutes(1)))
struct HMSBatchTests {
    @Test("Requests that say the same go out together, up to the batch size")
    func groups() async throws {
        try await Harness.run(change: { options, _ in options.batchSize = 100 }) { harness in
            let recipients = harness.register(0..<250)
            let notification = PushNotification(title: "Parcel", body: "Out for delivery")
            let requests = recipients.map {
                PushRequest(notification, to: [Addressee($0)], expiration: .at(4_000_000_000))
            }
            let outcomes = await harness.backend.send(requests)
            #expect(outcomes.allSatisfy { $0[0].acceptance?.platformID != nil })
            #expect(harness.simulator.counters.sends == 3)
            #expect(harness.simulator.counters.accepted == 250)
            #expect(Set(harness.simulator.inbox().map(\.batch)) == [100, 50])
            #expect(harness.simulator.connections.requestsOverHTTP1 == harness.simulator.connections.requests)
        }
    }

    @Test("Messages that differ in content, expiration or language are not sent in one batch")
    func keepsApart() async throws {
        try await Harness.run { harness in
            let recipients = harness.register(0..<6)
            func request(
                _ place: Int,
                _ title: LocalizedText,
                end: Int64 = 4_000_000_000,
                data: JSONObject = [:],
                language: String? = nil
            ) -> PushRequest {
                PushRequest(
                    PushNotification(title: title, body: "b", data: data),
                    to: [Addressee(recipients[place], language: language)],
                    expiration: .at(end)
                )
            }
            let texts = LocalizedText.localized(default: "Hello", languages: ["fa": "سلام"])
            let outcomes = await harness.backend.send([
                request(0, "a"), request(1, "b"), request(2, "a", end: 4_000_000_001), request(3, "a", data: ["x": 1]),
                request(4, texts, language: "fa"), request(5, texts, language: "de"),
            ])
            #expect(outcomes.allSatisfy { $0[0].acceptance != nil })
            #expect(harness.simulator.counters.sends == 6)
            #expect(harness.simulator.inbox().contains { $0.message.contains("سلام") && $0.token == androidToken(4) })
        }
    }

    @Test("A partial success accepts those not listed and refuses those listed; no recipient gets it twice")
    func partial() async throws {
        try await Harness.run { harness in
            let good = harness.register(0..<4)
            let outcomes = await harness.send([
                good[0], android("dead-1"), good[1], android("dead-2"), good[2], good[3],
            ])
            #expect(outcomes.map { $0.acceptance != nil } == [true, false, true, false, true, true])
            for place in [1, 3] {
                let refusal = try #require(outcomes[place].refusal)
                #expect(refusal.kind == .token)
                #expect(refusal.reason == "illegal_token")
                #expect(refusal.invalidation != nil)
                #expect(refusal.detail?.contains("dead-") == false)
            }
            #expect(harness.simulator.counters.sends == 1)
            #expect(harness.simulator.counters.duplicates == 0)
        }
    }

    @Test(
        "A partial success whose list and count disagree leaves the others unknown",
        arguments: [
            ("partial_counts", true), ("partial_stranger", false), ("partial_broken", false),
        ]
    )
    func oddPartial(word: String, firstIsRefused: Bool) async throws {
        try await Harness.run { harness in
            let recipients = harness.register(0..<3)
            harness.simulator.add(
                FaultRule(
                    at: .processed,
                    match: FaultMatch(listener: HMSSimulator.push),
                    .answer(FaultAnswer(200, word))
                )
            )
            let outcomes = await harness.send(recipients)
            #expect((outcomes[0].refusal != nil) == firstIsRefused)
            for outcome in outcomes[1...] { #expect(outcome.unknown?.reason == "partial_counts_differ") }
            #expect(harness.simulator.counters.sends == 1, "the batch is not sent again")
        }
    }

    @Test("Both forms of a partial success are read", arguments: ["partial_plain", "partial_reasons"])
    func forms(word: String) async throws {
        try await Harness.run { harness in
            let recipients = harness.register(0..<3)
            harness.simulator.add(
                FaultRule(
                    at: .processed,
                    match: FaultMatch(listener: HMSSimulator.push),
                    .answer(FaultAnswer(200, word))
                )
            )
            let outcomes = await harness.send(recipients)
            #expect(outcomes[0].refusal?.reason == (word == "partial_plain" ? "illegal_token" : "noPushTypeRight"))
            #expect(outcomes[1...].allSatisfy { $0.acceptance != nil })
        }
    }

    @Test("A token that comes twice is sent once, and both get its outcome")
    func duplicates() async throws {
        try await Harness.run { harness in
            let one = harness.register(0..<1)[0]
            let outcomes = await harness.send([one, android("dead"), one, android("dead")])
            #expect(outcomes.map { $0.acceptance != nil } == [true, false, true, false])
            #expect(harness.simulator.counters.accepted == 1)
            #expect(harness.simulator.counters.duplicates == 0)
        }
    }

    @Test(
        "A refusal for the number of recipients is answered with smaller requests",
        arguments: [
            ("80300010", 2), ("80100002", 8), ("80300030", 2),
        ]
    )
    func splits(code: String, requests: Int) async throws {
        try await Harness.run { harness in
            let count = code == "80300030" ? 16 : 8
            let recipients = harness.register(0..<count)
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: HMSSimulator.push, count: 1), .answer(FaultAnswer(400, code)))
            )
            let outcomes = await harness.send(recipients)
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.counters.sends == requests)
            #expect(harness.simulator.counters.accepted == count)
            #expect(harness.simulator.counters.duplicates == 0)
        }
    }

    @Test("A message without the right to urgency goes out with less, and the next ones at once")
    func demotion() async throws {
        var configuration = HMSSimulatorConfiguration()
        configuration.hasUrgentRight = false
        try await Harness.run(configuration) { harness in
            let recipients = harness.register(0..<2)
            #expect(await harness.send([recipients[0]])[0].acceptance != nil)
            #expect(harness.simulator.counters.sends == 2)
            #expect(await harness.send([recipients[1]])[0].acceptance != nil)
            #expect(harness.simulator.counters.sends == 3)
            #expect(harness.simulator.inbox().allSatisfy { $0.message.contains(#""urgency":"NORMAL""#) })
        }
        try await Harness.run(configuration, change: { options, _ in options.demotesWithoutRight = false }) { harness in
            let refusal = try #require(await harness.sendOne().refusal)
            #expect(refusal.kind == .account)
            #expect(refusal.advice == .never, "other messages go on")
        }
    }

    // MARK: All tokens refused

    @Test("A whole batch of dead tokens kills no token when a known good token is refused as well")
    func wrongApp() async throws {
        try await Harness.run { harness in
            let recipients = harness.register(0..<5)
            await harness.sendOne(9)
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(FaultAnswer(400, "80300007")))
            )
            for outcome in await harness.send(recipients) {
                let refusal = try #require(outcome.refusal)
                #expect(refusal.kind == .account)
                #expect(refusal.advice == .parkBackend)
                #expect(refusal.invalidation == nil)
            }
        }
    }

    @Test("A whole batch of dead tokens is believed when a known good token still works, at no cost to its device")
    func reallyDead() async throws {
        try await Harness.run { harness in
            await harness.sendOne(9)
            for outcome in await harness.send([android("dead-1"), android("dead-2")]) {
                let refusal = try #require(outcome.refusal)
                #expect(refusal.kind == .token)
                #expect(refusal.invalidation?.isCertain == false)
            }
            #expect(harness.simulator.counters.validated == 1)
            #expect(harness.simulator.counters.accepted == 1)
        }
    }

    @Test("A known good token is forgotten after a day")
    func knownGood() {
        let knownGood = HMSKnownGoodTokens()
        let start = Date(timeIntervalSince1970: 1_767_225_600)
        #expect(knownGood.token(at: start) == nil)
        knownGood.add("one", at: start)
        knownGood.add("two", at: start.addingTimeInterval(10))
        #expect(knownGood.token(at: start.addingTimeInterval(86_405)) == "two")
        knownGood.forget("two")
        #expect(knownGood.token(at: start.addingTimeInterval(60)) == "one")
        #expect(knownGood.token(at: start.addingTimeInterval(86_400)) == nil)
    }

    // MARK: Unusual tokens

    @Test("A malformed token is not sent; the others of its batch are", arguments: ["", "a b", "tab\t", "ترکی"])
    func malformed(token: String) async throws {
        try await Harness.run { harness in
            let outcomes = await harness.send(harness.register(0..<1) + [android(token)])
            #expect(outcomes[0].acceptance != nil)
            #expect(outcomes[1].refusal?.reason == "malformed_token")
            #expect(harness.simulator.counters.sends == 1)
        }
    }

    @Test("A token with quotes arrives as it is")
    func oddToken() async throws {
        let token = #"a"b\c/d"#
        try await Harness.run { harness in
            harness.simulator.setDevice(HMSDevice(), tokens: [token])
            #expect(await harness.send([android(token)])[0].acceptance != nil)
            #expect(harness.simulator.inbox().first?.token == token)
        }
    }
}
