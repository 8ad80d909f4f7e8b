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

/// A gateway that stands still with operations of devices, until other gateways have taken them.
@Suite("Device operations that may not be sent any more", .timeLimit(.minutes(1)))
struct OutboxPermitTests {
    /// A lease that is lost between the first claim and the call.
    private final class Lease: Sendable {
        private struct State {
            var lastLook: ContinuousClock.Instant?
            var questions = 0
        }

        private let state = Mutex(State())

        /// How often it was asked for claims that were made.
        var questions: Int { state.withLock { $0.questions } }

        func holds(since moment: ContinuousClock.Instant) -> Bool {
            state.withLock { state in
                guard let last = state.lastLook, moment <= last else {
                    // A look for work asks for the moment itself.
                    state.lastLook = moment
                    return true
                }
                state.questions += 1
                return state.questions > 1
            }
        }
    }

    @Test("An operation whose claim is lost before the call is not sent, and is claimed again")
    func lostBeforeTheCall() async throws {
        try await OperationRig.run { rig in
            let lease = Lease()
            let questions = Mutex<[Int]>([])
            let platform = ScriptedPlatform { _, _ in questions.withLock { $0.append(lease.questions) } }
            let configured = BackendRegistry.ConfiguredBackend(name: "crm", backend: platform)
            let worker = OutboxWorker(
                configured,
                flow: OutboxFlow(configured.identity),
                priority: [.iOSAPNs],
                OutboxWorker.Dependencies(
                    store: rig.store,
                    outcomes: OutboxOutcomes(),
                    time: rig.time,
                    logger: quiet,
                    holdsClaims: { lease.holds(since: $0) },
                    count: { _, _, _ in },
                    markIncomplete: { _ in }
                )
            )
            _ = try await rig.store.put([rig.device("a")])
            try await rig.store.enqueue([rig.subscription("a")])
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await worker.run() }
                try await rig.settled()
                worker.stop()
                try await group.waitForAll()
            }
            #expect(questions.withLock { $0 } == [2], "the first claim was given back unsent")
            #expect(platform.calls.map { $0.attempt?.number } == [1], "it was not tried")
            #expect(try await rig.events().map { $0["type"] } == ["operation.done"])
        }
    }

    @Test("A transport asks before each write of a call, and one that is withheld is no failure of the platform")
    func lostDuringTheCall() async throws {
        try await OperationRig.run { rig in
            let claims = HeldStore(time: rig.time)
            let permits = Mutex<[Bool?]>([])
            let platform = ScriptedPlatform { _, earlier throws(PushError) in
                permits.withLock { $0.append(SendPermit.current?.mayWrite) }
                guard earlier == 0 else { return }
                claims.loseClaims()
                permits.withLock { $0.append(SendPermit.current?.mayWrite) }
                // What a transport makes of a call that may not be written.
                throw PushError(.unavailable, "its sender has lost what it had claimed", reason: "cancelled")
            }
            _ = try await rig.store.put([rig.device("a")])
            try await rig.store.enqueue([rig.subscription("a")])
            try await rig.run(["crm": platform], registers: false, notifications: claims) { _, _ in
                try await rig.settled()
            }
            #expect(permits.withLock { $0 } == [true, false, true])
            #expect(platform.calls.map { $0.attempt?.number } == [1, 1], "it was not tried")
            #expect(try await rig.events().map { $0["type"] } == ["operation.done"])
        }
    }
}
