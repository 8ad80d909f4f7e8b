import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Gateways on one store", .timeLimit(.minutes(1)))
struct NodeNewsTests {
    private static func busy(_ seconds: Int) -> ScriptedBackend {
        ScriptedBackend { _, _ in
            .refused(Refusal(.platform, reason: "Busy", status: 429, advice: .slowBackend(after: .seconds(seconds))))
        }
    }

    @Test("a pause that a platform asked one for holds the other, and is told once for a batch")
    func pause() async throws {
        let (one, two) = Pair.make()
        let time = ManualTime()
        let (first, second) = (
            try await DispatcherRig(time: time, nodes: one), try await DispatcherRig(time: time, nodes: two)
        )
        defer { for rig in [first, second] { try? FileManager.default.removeItem(at: rig.folder) } }
        let earliest = time.steady.addingTimeInterval(1_200)
        let sentAt = Recorder<Date>()
        let other = ScriptedBackend { addressee, _ in
            if addressee.recipient == .topic("waits") { sentAt.add(time.steady) }
            return .accepted(Acceptance())
        }
        try await first.run(["a": Self.busy(1_200)]) {
            try await second.run(["a": other]) {
                let id = try await second.accept(["works"])
                try await second.expect(id, [.acceptedByPlatform: 1])
                try await first.accept((0..<20).map { "t\($0)" })
                // An answer that came after the step below would pause both anew.
                try await first.until {
                    first.dispatcher.workers.first.map { $0.pausedUntil != nil && $0.inFlight == 0 } ?? false
                }
                try await second.until { second.dispatcher.workers.first?.pausedUntil != nil }
                #expect(second.dispatcher.workers.first?.pauseReason == "Busy")
                #expect(one.notes.filter { $0.topic == "paused" }.count == 1)
                let waiting = try await second.accept(["waits"])
                time.advance(by: .seconds(1_190))
                // In steps: a wait that begins while the time is moved counts from where it is then. In small ones at
                // first: a message that does not wait has time to go before the pause is over.
                try await second.until {
                    time.advance(by: time.steady < earliest ? .milliseconds(100) : .seconds(1))
                    return try await second.store.notification(waiting)?.counts == [.acceptedByPlatform: 1]
                }
                #expect(sentAt.all.count == 1 && sentAt.all.allSatisfy { $0 >= earliest }, "\(sentAt.all)")
            }
        }
        for rig in [first, second] { await rig.store.close() }
    }

    @Test("a backend of another configuration under the same name is not held")
    func otherBackend() async throws {
        let (one, two) = Pair.make()
        let rig = try await DispatcherRig(nodes: two)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(["a": ScriptedBackend { _, _ in .accepted(Acceptance()) }]) {
            try await rig.until { rig.dispatcher.workers.first != nil }
            let until = rig.time.steady + 900
            one.tell(NodeNews.paused(backend: "a", identity: "another", until: until, reason: "Busy").note)
            #expect(rig.dispatcher.workers.first?.pausedUntil == nil)
            one.tell(NodeNote(topic: "of a later version", body: [1]))
        }
        await rig.store.close()
    }

    @Test("answers of the other count for the guard, and what it holds is held here until it is settled there")
    func guards() async throws {
        let (one, two) = Pair.make()
        let rig = try await DispatcherRig(nodes: two)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let now = Date(timeIntervalSince1970: 1_790_000_000)
        var state = InvalidationGuard(GatewayConfiguration.InvalidationGuard())
        state.count(answers: 49, uncertain: 49, certain: 0, at: TimeReading(now))
        #expect(state.trip == nil)
        guard case .trip(let trip) = state.add(answers: 1, uncertain: 1, certain: 0, at: TimeReading(now)) else {
            Issue.record("50 of 50 on two nodes did not trip it")
            return
        }
        #expect(trip.answers == 50)
        try await rig.run(["a": ScriptedBackend { _, _ in .accepted(Acceptance()) }]) {
            try await rig.until { rig.dispatcher.workers.first != nil }
            one.tell(NodeNews.quarantined(backend: "a", trip).note)
            #expect(rig.dispatcher.workers.first?.areInvalidationsQuarantined == true)
            #expect(rig.dispatcher.invalidations?.trippedGuards.map(\.backend) == ["a"])
            one.tell(NodeNews.settled(backend: "a", isTrusting: true).note)
            #expect(rig.dispatcher.workers.first?.areInvalidationsQuarantined == false)
        }
        await rig.store.close()
    }

    @Test("news come back as they went")
    func forms() {
        let trip = InvalidationGuard.Trip(
            at: Date(timeIntervalSince1970: 5),
            since: Date(timeIntervalSince1970: 4),
            answers: 3,
            dead: 2,
            certain: 1
        )
        let all: [NodeNews] = [
            .paused(backend: "a", identity: "i", until: Date(timeIntervalSince1970: 1.5), reason: "r"),
            .answers(
                backend: "a",
                AnswerCounts(answers: 3, dead: AnswerCounts.Dead(uncertain: 2, certain: 1)),
                acceptedUnder: nil
            ),
            .answers(
                backend: "a",
                AnswerCounts(
                    answers: 3,
                    dead: AnswerCounts.Dead(uncertain: 2),
                    callers: ["shop": AnswerCounts.Dead(uncertain: 2)]
                ),
                acceptedUnder: "i"
            ),
            .quarantined(backend: "a", trip), .settled(backend: "a", isTrusting: true),
        ]
        #expect(all.map { NodeNews($0.note) } == all)
        let old = NodeNote(topic: "answers", body: Array(#"{"backend":"a","answers":3,"uncertain":2}"#.utf8))
        #expect(
            NodeNews(old)
                == .answers(
                    backend: "a",
                    AnswerCounts(answers: 3, dead: AnswerCounts.Dead(uncertain: 2)),
                    acceptedUnder: nil
                )
        )
    }

    @Test("one caller's dead tokens at the other stop nothing here, once the platform has taken a message anywhere")
    func callersElsewhere() async throws {
        let (one, two) = Pair.make()
        let rig = try await DispatcherRig(nodes: two)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let dead = ScriptedBackend { _, _ in
            .refused(
                Refusal(
                    .token,
                    reason: "BadDeviceToken",
                    status: 400,
                    advice: .never,
                    invalidation: Refusal.Invalidation(asOf: rig.time.now, isCertain: false)
                )
            )
        }
        let token = Recipient.token(DeviceToken("t", service: .iOSAPNs))
        let configured = BackendRegistry.ConfiguredBackend(name: "a", backend: dead)
        try await rig.run(["a": dead]) {
            try await rig.until { rig.dispatcher.workers.first != nil }
            let counts = AnswerCounts(
                answers: 200,
                dead: AnswerCounts.Dead(uncertain: 100),
                callers: ["spammer": AnswerCounts.Dead(uncertain: 100)]
            )
            one.tell(NodeNews.answers(backend: "a", counts, acceptedUnder: configured.identity).note)
            let id = try await rig.accept([token], plan: DeliveryPlan(["a"]), caller: "shop")
            try await rig.expect(id, [.failed: 1])
            #expect(rig.dispatcher.workers.first?.areInvalidationsQuarantined == false)
            #expect(rig.dispatcher.workers.first?.undecidedCallers == 1)
        }
        await rig.store.close()
    }
}
