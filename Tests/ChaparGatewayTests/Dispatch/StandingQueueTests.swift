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

/// A platform that asks for a pause with its first answer, and takes everything later.
private func pausing() -> ScriptedBackend {
    let isFirst = Mutex(true)
    return ScriptedBackend { _, _ in
        let isFirst = isFirst.withLock { isFirst in
            defer { isFirst = false }
            return isFirst
        }
        let refusal = Refusal(.platform, reason: "Busy", advice: .slowBackend(after: .seconds(600)))
        return isFirst ? .refused(refusal) : .accepted(Acceptance())
    }
}

@Suite("A queue that stands still", .timeLimit(.minutes(2)))
struct StandingQueueTests {
    private static let chain = DeliveryPlan(["a", "b"], fallbackAfter: .seconds(3_600))

    @Test("keeps its order while others are passed on, and goes out when the worker may go on")
    func order() async throws {
        let other = ScriptedBackend { _, _ in .accepted(Acceptance()) }
        try await DispatcherRig.run(["a": pausing(), "b": other]) {
            $0.routes = [GatewayConfiguration.Route(plan: DeliveryPlan(["a", "b"], fallbackAfter: .seconds(1)))]
        } _: { rig in
            try await rig.accept(["first"])
            try await rig.until { rig.dispatcher.workers.first?.pausedUntil != nil }
            let old = try await rig.accept((0..<1_500).map { "old\($0)" }, plan: Self.chain, lives: .seconds(86_400))
            // Beside it the worker passes on what will not wait, so that it is known to have looked.
            rig.time.advance(by: .seconds(2))
            let hurried = DeliveryPlan(["a", "b"], fallbackAfter: .seconds(1))
            let before = try await rig.store.deliveries(of: old, after: nil, limit: 2_000).map(\.dueAt)
            for _ in 0..<20 {
                rig.time.advance(by: .milliseconds(300))
                let id = try await rig.accept(["hurried"], plan: hurried)
                // So little that the pause of the platform does not end by it.
                let left = Mutex(400)
                try await rig.until {
                    let isTimeLeft = left.withLock { left in
                        left -= 1
                        return left >= 0
                    }
                    if isTimeLeft { rig.time.advance(by: .milliseconds(50)) }
                    return try await rig.store.notification(id)?.counts[.queued] == nil
                }
            }
            let after = try await rig.store.deliveries(of: old, after: nil, limit: 2_000).map(\.dueAt)
            #expect(after == before, "what waits was put off")
            #expect(try await rig.store.notification(old)?.counts == [.queued: 1_500])
            rig.time.advance(by: .seconds(601))
            try await rig.expect(old, [.acceptedByPlatform: 1_500])
            #expect(other.attemptCount == 20, "what goes to the next backend")
        }
    }

    @Test("writes nothing for deliveries that stay, for whatever reason they are looked at")
    func writesNothing() async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let configured = BackendRegistry.ConfiguredBackend(name: "a", backend: pausing())
        let snapshot = DispatcherRig.snapshot(["a": configured.backend, "b": pausing()]) {
            $0.routes = [GatewayConfiguration.Route(plan: Self.chain)]
        }
        let writer = OutcomeWriter(store: rig.store, time: rig.time, logger: quiet)
        let invalidation = TokenInvalidation(
            devices: rig.store,
            state: rig.store,
            time: rig.time,
            observer: SilentObserver(),
            logger: quiet
        ) { _ in }
        let worker = DeliveryWorker(
            configured,
            snapshot.workerSettings(of: "a"),
            flow: FlowControl(configured, at: rig.time.steady),
            watch: await invalidation.watch("a", snapshot.configuration.invalidationGuard),
            DeliveryWorker.Dependencies(
                store: rig.store,
                outcomeWriter: writer,
                devices: nil,
                operations: nil,
                tokenInvalidation: invalidation,
                campaigns: nil,
                receipts: nil,
                time: rig.time,
                clock: WallClock(rig.time),
                observer: SilentObserver(),
                tracing: nil,
                logger: quiet,
                decode: { _ in PushNotification(title: "t") },
                instance: 1,
                tell: { _ in }
            )
        )
        try await rig.accept((0..<3_000).map { "t\($0)" }, plan: Self.chain, lives: .seconds(86_400))
        let pause = BackendSignal.pause(.seconds(86_400), reason: "Busy")
        _ = worker.gate.update { $0.apply(pause, at: rig.time.steady) }
        let before = try rig.fileContents()
        for _ in 0..<600 {
            rig.time.advance(by: .milliseconds(250))
            _ = await worker.passOn()
        }
        #expect(try rig.fileContents() == before, "600 looks wrote something")
        #expect(worker.status.inFlight == 0)
        // Then the fallback delay is over.
        rig.time.advance(by: .seconds(3_600))
        for _ in 0..<5 { _ = await worker.passOn() }
        #expect(try await rig.store.depths()["b"]?.waiting == 3_000)
        await rig.store.close()
    }
}
