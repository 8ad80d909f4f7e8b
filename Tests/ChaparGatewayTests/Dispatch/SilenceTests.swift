import Foundation
import ChaparCore
import ChaparQueue
import ChaparComposition
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A backend that says nothing keeps its window for `queue.lease` and no longer.
@Suite("A backend that says nothing", .timeLimit(.minutes(2)))
struct SilenceTests {
    private static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p", status: 200))

    /// Reports when a test says so, and ends its first call only when that is cancelled.
    private final class SilentBackend: PushBackend {
        let kind: BackendKind = "silent"
        let audience = BackendAudience(forms: [.topic])
        let window: Int?
        private struct State {
            var reports: [@Sendable ([DeliveryReport]) -> Void] = []
            var cancelled = 0
        }

        private let state = Mutex(State())

        init(window: Int = 1) { self.window = window }

        var calls: Int { state.withLock { $0.reports.count } }
        var cancelled: Int { state.withLock { $0.cancelled } }

        func report(_ call: Int, _ recipient: Int) {
            state.withLock { $0.reports[call] }([DeliveryReport(request: 0, recipient: recipient, outcome: accepted)])
        }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            let call = state.withLock { state in
                state.reports.append(report)
                return state.reports.count
            }
            guard call == 1 else {
                for (row, request) in requests.enumerated() {
                    report(
                        request.recipients.indices.map {
                            DeliveryReport(request: row, recipient: $0, outcome: accepted)
                        }
                    )
                }
                return
            }
            try? await ManualTime().sleep(for: .seconds(1))  // Until it is cancelled.
            state.withLock { $0.cancelled += 1 }
        }
    }

    /// Reports nothing before its call is cancelled, and then something else at once.
    private final class LateBackend: PushBackend {
        let kind: BackendKind = "late"
        let audience = BackendAudience(forms: [.topic])
        let calls = Mutex(0)

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            calls.withLock { $0 += 1 }
            await withTaskCancellationHandler {
                try? await ManualTime().sleep(for: .seconds(1))  // Until it is cancelled.
            } onCancel: {
                report([DeliveryReport(request: 0, recipient: 0, outcome: SilenceTests.accepted)])
            }
        }
    }

    /// Deaf to cancellation, as a plugin may be that waits for its library.
    private final class DeafBackend: PushBackend {
        let kind: BackendKind = "deaf"
        let audience = BackendAudience(forms: [.topic])
        private let waiting = Mutex<[CheckedContinuation<Void, Never>]>([])
        var calls: Int { waiting.withLock { $0.count } }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            await withCheckedContinuation { continuation in waiting.withLock { $0.append(continuation) } }
        }

        func release() {
            let held = waiting.withLock { waiting in
                defer { waiting = [] }
                return waiting
            }
            for continuation in held { continuation.resume() }
        }
    }

    @Test("holds up the end of the gateway for a moment after queue.drain, and its message is unknown")
    func deafAtTheEnd() async throws {
        let backend = DeafBackend()
        defer { backend.release() }
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let snapshot = DispatcherRig.snapshot(["a": backend])
        let running = Task { try await rig.dispatcher.run(snapshot) }
        let id = try await rig.accept(plan: DeliveryPlan(["a"], onUnknown: .stop))
        try await rig.until { backend.calls == 1 }
        rig.dispatcher.stop()
        // The drain, and the last word of what was cancelled.
        try await rig.untilEnd(of: running) { backend.release() }
        try await rig.expect(id, [.unknown: 1])
        await rig.store.close()
    }

    private static var queue: GatewayConfiguration.Queue {
        var queue = GatewayConfiguration.Queue()
        queue.firstRetry = .milliseconds(1)
        return queue
    }

    @Test("is given up after queue.lease: unknown once, the call cancelled, the window free, later words ignored")
    func givenUp() async throws {
        let backend = SilentBackend()
        try await DispatcherRig.run(["a": backend], queue: Self.queue) { rig in
            let id = try await rig.accept(plan: DeliveryPlan(["a"], onUnknown: .stop))
            try await rig.until { backend.calls == 1 }
            rig.time.advance(by: .seconds(119))
            try await rig.expect(id, [.sending: 1])
            rig.time.advance(by: .seconds(2))
            try await rig.expect(id, [.unknown: 1])
            try await rig.until { backend.cancelled == 1 }
            backend.report(0, 0)
            let other = try await rig.accept(["other"])
            try await rig.expect(other, [.acceptedByPlatform: 1])
            try await rig.expect(id, [.unknown: 1])
            let attempts = try await rig.attemptLog(id)
            #expect(attempts.map { $0["reason"] } == ["no_answer"], "\(attempts)")
            try await rig.until { rig.dispatcher.workers.first?.inFlight == 0 }
        }
    }

    @Test("is given up before its call is cancelled, so that what the cancelled call says changes nothing")
    func givenUpFirst() async throws {
        let backend = LateBackend()
        try await DispatcherRig.run(["a": backend], queue: Self.queue) { rig in
            let id = try await rig.accept(plan: DeliveryPlan(["a"], onUnknown: .stop))
            try await rig.until { backend.calls.withLock { $0 } == 1 }
            rig.time.advance(by: .seconds(121))
            try await rig.expect(id, [.unknown: 1])
            let attempts = try await rig.attemptLog(id)
            #expect(attempts.map { $0["reason"] } == ["no_answer"], "\(attempts)")
        }
    }

    @Test("has its span begun anew by each report")
    func progress() async throws {
        let backend = SilentBackend(window: 3)
        try await DispatcherRig.run(["a": backend], queue: Self.queue) { rig in
            let id = try await rig.accept(["x", "y", "z"], plan: DeliveryPlan(["a"], onUnknown: .stop))
            try await rig.until { backend.calls == 1 }
            for recipient in 0..<2 {
                rig.time.advance(by: .seconds(100))
                backend.report(0, recipient)
                try await rig.until {
                    try await rig.store.notification(id)?.counts[.acceptedByPlatform] == recipient + 1
                }
            }
            rig.time.advance(by: .seconds(119))
            try await rig.expect(id, [.acceptedByPlatform: 2, .sending: 1])
            rig.time.advance(by: .seconds(2))
            try await rig.expect(id, [.acceptedByPlatform: 2, .unknown: 1])
        }
    }

    /// Knows nothing of any message, and takes its time to say so.
    private final class SlowTracker: MessageTracker {
        let asked = Mutex(0)

        func state(of id: String) async throws(PushError) -> DeliveryState? {
            asked.withLock { $0 += 1 }
            try? await ManualTime().sleep(for: .seconds(1))  // Until it is cancelled.
            return nil
        }
    }

    @Test("is asked about messages without an answer while others go out")
    func asking() async throws {
        let tracker = SlowTracker()
        let backend = ScriptedBackend(tracking: tracker) { addressee, _ in
            addressee.recipient == .topic("lost")
                ? .unknown(UnknownOutcome(reason: "deadline", platformID: "p-1")) : Self.accepted
        }
        let plan = DeliveryPlan(["a"], onUnknown: .wait, unknownWait: .seconds(5))
        try await DispatcherRig.run(["a": backend], queue: Self.queue) { rig in
            let lost = try await rig.accept(["lost"], plan: plan)
            try await rig.expect(lost, [.retrying: 1])
            let same = try await rig.accept(["other"], dueIn: .seconds(5))
            rig.time.advance(by: .seconds(6))
            try await rig.until { tracker.asked.withLock { $0 } == 1 }
            // Both may have been claimed together; the platform has ten seconds, which do not pass.
            try await rig.expect(same, [.acceptedByPlatform: 1])
            try await rig.until { try await rig.store.notification(lost)?.counts[.unknown] == nil }
            rig.time.advance(by: .seconds(11))
            try await rig.expect(lost, [.unknown: 1])
        }
    }
}
