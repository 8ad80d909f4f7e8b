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

/// A platform's pause, an open breaker, the quota and open submissions survive a reload; the first three a restart.
@Suite("The flow control of a backend", .timeLimit(.minutes(2)))
struct FlowControlTests {
    static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p", status: 200))
    private let now = Date(timeIntervalSince1970: 1_790_000_000)

    /// Asks for a pause of 20 minutes when the first message comes for the first time, and takes everything else.
    private static func slow() -> ScriptedBackend {
        ScriptedBackend { addressee, attempt in
            addressee.recipient == .topic("first") && attempt == 1
                ? .refused(Refusal(.platform, reason: "Busy", status: 429, advice: .slowBackend(after: .seconds(1200))))
                : accepted
        }
    }

    /// Takes everything; attempts at the backend before it are not known to it.
    private static func taking() -> ScriptedBackend { ScriptedBackend { _, _ in accepted } }

    private func configured(
        _ identity: String = "x",
        pacing: Pacing? = nil,
        breaker: Breaker.Settings? = Breaker.Settings(failures: 1)
    ) -> BackendRegistry.ConfiguredBackend {
        BackendRegistry.ConfiguredBackend(
            name: "a",
            backend: ScriptedBackend { _, _ in nil },
            pacing: pacing,
            breaker: breaker,
            identity: identity
        )
    }

    // MARK: Reload

    @Test("keeps a pause over a reload, which another backend under the name does not")
    func reload() async throws {
        let (before, after) = (Self.slow(), Self.taking())
        try await DispatcherRig.run(["a": before]) { rig in
            try await rig.accept(["first"])
            try await rig.until { rig.dispatcher.workers.first?.pausedUntil != nil }
            rig.dispatcher.install(DispatcherRig.snapshot(["a": after]))
            try await rig.until { before.isShutDown }
            let id = try await rig.accept(["second"])
            #expect(rig.dispatcher.workers.first?.pausedUntil != nil)
            #expect(rig.dispatcher.workers.first?.pauseReason == "Busy")
            rig.time.advance(by: .seconds(1199))
            #expect(after.attemptCount == 0)
            rig.time.advance(by: .seconds(2))
            try await rig.expect(id, [.acceptedByPlatform: 1])
        }
    }

    @Test("leaves a backend alone that asks for it after a reload, though the new worker waits for work already")
    func pauseAfterReload() async throws {
        let crowd = Crowd()
        defer { crowd.open() }
        let busy = Refusal(.platform, reason: "Busy", status: 429, advice: .slowBackend(after: .seconds(1200)))
        let after = Self.taking()
        try await DispatcherRig.run(["a": CrowdedBackend(crowd: crowd, outcome: .refused(busy))]) { rig in
            try await rig.accept(["slow"])
            try await rig.until { crowd.inside == 1 }
            rig.dispatcher.install(DispatcherRig.snapshot(["a": after]))
            // A reload takes a moment, in which the old worker takes what comes.
            try await rig.until {
                try await rig.accept(["probe"])
                return after.attemptCount > 0
            }
            try await rig.until { try await rig.store.hasOpenClaim(of: "a") }
            crowd.open()
            try await rig.until { rig.dispatcher.workers.first?.pausedUntil != nil }
            let id = try await rig.accept(["second"])
            // A worker that did not pause would have claimed again by now, and get one of these as it comes.
            for topic in ["third", "fourth"] {
                let other = try await rig.accept([topic])
                try await rig.expect(other, [.queued: 1])
            }
            try await rig.expect(id, [.queued: 1])
            #expect(after.attempts(.topic("second")).isEmpty)
            rig.time.advance(by: .seconds(1201))
            try await rig.expect(id, [.acceptedByPlatform: 1])
        }
    }

    @Test("says nothing more of the backend before, once a reload has put another one in its place")
    func silentAfterReload() async throws {
        let crowd = Crowd()
        defer { crowd.open() }
        let log = RecordedLog()
        let down = DeliveryOutcome.refused(Refusal(.platform, reason: "connect_failed", advice: .retry(after: nil)))
        func snapshot(_ backend: any PushBackend, _ identity: String) -> GatewaySnapshot {
            let configured = BackendRegistry.ConfiguredBackend(
                name: "a",
                backend: backend,
                breaker: BreakerSettings(failures: 1),
                identity: identity
            )
            return GatewaySnapshot(configuration: .keyless, backends: [configured])
        }
        let rig = try await DispatcherRig(logger: log.logger)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(snapshot(CrowdedBackend(crowd: crowd, outcome: down), "old")) {
            let id = try await rig.accept(["slow"])
            try await rig.until { crowd.inside == 1 }
            rig.dispatcher.install(snapshot(ScriptedBackend { _, _ in Self.accepted }, "new"))
            // The new one sends what comes now.
            try await rig.until {
                let other = try await rig.accept(["probe"])
                let isSent: Void? = try? await eventually("it is sent", within: .milliseconds(50)) {
                    try await rig.store.notification(other)?.counts == [.acceptedByPlatform: 1]
                }
                return isSent != nil
            }
            crowd.open()
            try await rig.expect(id, [.retrying: 1])
            try await rig.until {
                rig.time.advance(by: .seconds(1))
                return try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 1]
            }
            let types = try await rig.eventTypes()
            #expect(!types.contains("backend.breaker_opened"))
        }
        #expect(!log.lines.contains { $0.contains("breaker opened") }, "\(log.lines)")
        await rig.store.close()
    }

    @Test("lets another backend under the same name begin anew")
    func otherIdentity() async throws {
        let (before, after) = (Self.slow(), Self.taking())
        try await DispatcherRig.run(["a": before]) { rig in
            let first = try await rig.accept(["first"])
            try await rig.until { rig.dispatcher.workers.first?.pausedUntil != nil }
            // A reload makes due what waits by then; an attempt whose outcome is not written yet waits as it was told.
            try await rig.expect(first, [.retrying: 1])
            let other = BackendRegistry.ConfiguredBackend(name: "a", backend: after, identity: "another")
            rig.dispatcher.install(GatewaySnapshot(configuration: .keyless, backends: [other]))
            // Until then the worker before may take what comes.
            try await rig.until { before.isShutDown }
            let second = try await rig.accept(["second"])
            for id in [first, second] { try await rig.expect(id, [.acceptedByPlatform: 1]) }
            #expect(after.attemptCount == 2)
            #expect(rig.dispatcher.workers.first?.pausedUntil == nil)
        }
    }

    /// Counts how many messages are with a platform at a time, over several backends that stand for it.
    final class Crowd: Sendable {
        private struct State {
            var inside = 0
            var most = 0
            var total = 0
            var isOpen = false
            var held: [CheckedContinuation<Void, Never>] = []
        }

        private let state = Mutex(State())
        var most: Int { state.withLock { $0.most } }
        var inside: Int { state.withLock { $0.inside } }
        var total: Int { state.withLock { $0.total } }

        func enter(_ count: Int) async {
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    state.inside += count
                    state.total += count
                    state.most = max(state.most, state.inside)
                    if !state.isOpen { state.held.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
            state.withLock { $0.inside -= count }
        }

        func open() {
            let held = state.withLock { state in
                state.isOpen = true
                defer { state.held = [] }
                return state.held
            }
            for one in held { one.resume() }
        }
    }

    struct CrowdedBackend: PushBackend {
        let kind: BackendKind = "scripted"
        let audience = BackendAudience(forms: [.topic])
        let crowd: Crowd
        var outcome = FlowControlTests.accepted

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            await crowd.enter(requests.reduce(0) { $0 + $1.recipients.count })
            for (row, request) in requests.enumerated() {
                report(
                    request.recipients.indices.map { DeliveryReport(request: row, recipient: $0, outcome: outcome) }
                )
            }
        }
    }

    @Test("counts what is under way once, though a reload removed the backend and the next one brought it back")
    func removedForAMoment() async throws {
        let crowd = Crowd()
        defer { crowd.open() }
        let backend = BackendRegistry.ConfiguredBackend(
            name: "a",
            backend: CrowdedBackend(crowd: crowd),
            maximumInFlight: 4
        )
        let with = GatewaySnapshot(configuration: .keyless, backends: [backend])
        let without = GatewaySnapshot(configuration: .keyless, backends: [])
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(with) {
            let id = try await rig.accept((0..<20).map { "t\($0)" })
            try await rig.until { crowd.inside == 4 }
            rig.dispatcher.install(without)
            try await rig.until { rig.dispatcher.workers.isEmpty }
            rig.dispatcher.install(with)
            try await rig.until { rig.dispatcher.workers.first?.inFlight == 4 }
            // For a moment a scan of the queue of a removed backend holds its deliveries.
            try await rig.until { try await rig.store.depths()["a"]?.claimed == 4 }
            crowd.open()
            try await rig.expect(id, [.acceptedByPlatform: 20])
            #expect(crowd.most == 4)
        }
        await rig.store.close()
    }

    @Test("counts what is under way once over a reload")
    func inFlight() async throws {
        let crowd = Crowd()
        defer { crowd.open() }
        func snapshot() -> GatewaySnapshot {
            GatewaySnapshot(
                configuration: .keyless,
                backends: [
                    BackendRegistry.ConfiguredBackend(
                        name: "a",
                        backend: CrowdedBackend(crowd: crowd),
                        maximumInFlight: 4
                    )
                ]
            )
        }
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(snapshot()) {
            let id = try await rig.accept((0..<20).map { "t\($0)" })
            try await rig.until { crowd.inside == 4 }
            for _ in 0..<3 {
                rig.dispatcher.install(snapshot())
                try await rig.until { rig.dispatcher.workers.first?.inFlight == 4 }
            }
            let other = try await rig.accept(["other"])
            #expect(crowd.total == 4)
            crowd.open()
            try await rig.expect(id, [.acceptedByPlatform: 20])
            try await rig.expect(other, [.acceptedByPlatform: 1])
            #expect(crowd.most == 4)
        }
        await rig.store.close()
    }

    @Test("shows the rate of its quota, and how much of it was used over the last seconds")
    func quotaStatus() {
        #expect(FlowControl(configured(), at: now).quotaStatus(at: now) == nil)
        let flow = FlowControl(configured(pacing: Pacing(perSecond: 100, burst: .seconds(1))), at: now)
        #expect(flow.quotaStatus(at: now) == WorkerStatus.Quota(perSecond: 100, used: 0))
        // Half of the rate for a minute.
        for second in 1...60 {
            let moment = now.addingTimeInterval(Double(second))
            flow.release(reserved: flow.reserve(50, at: moment).granted, used: 50, at: moment)
        }
        let end = now.addingTimeInterval(60)
        let used = flow.quotaStatus(at: end)?.used ?? 0
        #expect(abs(used - 0.5) < 0.05, "\(used)")
        let later = flow.quotaStatus(at: end.addingTimeInterval(60))?.used ?? 1
        #expect(later < 0.01, "\(later)")
    }

    @Test("keeps the quota's level over a reload, also with another rate")
    func quota() {
        let slow = Pacing(perSecond: 10, burst: .seconds(10))
        let flow = FlowControl(configured(pacing: slow), at: now)
        #expect(flow.reserve(100, at: now).granted == 100)
        flow.adopt(configured(pacing: slow), at: now)
        #expect(flow.reserve(1, at: now).granted == 0)
        flow.adopt(configured(pacing: Pacing(perSecond: 20, burst: .seconds(10))), at: now)
        #expect(flow.reserve(1, at: now).granted == 0)
        #expect(flow.reserve(200, at: now.addingTimeInterval(1)).granted == 20)
    }

    @Test("leaves a share of the quota to urgent messages")
    func urgentShare() {
        let pacing = Pacing(perSecond: 100, burst: .seconds(1), urgentShare: 0.2)
        let flow = FlowControl(configured(pacing: pacing), at: now)
        let full = flow.reserve(512, at: now)
        #expect(full.granted == 120)
        #expect(full.normal == 100)
        flow.release(reserved: 120, used: 100, at: now)
        let rest = flow.reserve(512, at: now)
        #expect(rest.granted == 20)
        #expect(rest.normal == 0)
        #expect(rest.retryAt > now)
        flow.release(reserved: 20, used: 0, at: now)
        #expect(flow.reserve(512, at: now.addingTimeInterval(0.1)).normal == 10)
    }

    @Test("keeps an open breaker open when its settings change")
    func breakerSettings() {
        let flow = FlowControl(configured(), at: now)
        _ = flow.gate.update { $0.apply(.fails(reason: "down"), at: now) }
        flow.adopt(configured(breaker: Breaker.Settings(failures: 9)), at: now)
        #expect(flow.gate.state.breakerState.status == .open)
        flow.adopt(configured(breaker: nil), at: now)
        #expect(flow.gate.state.breakerState.status == .closed)
    }

    // MARK: Restart

    @Test("keeps a pause over a restart")
    func restart() async throws {
        let time = ManualTime()
        let first = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: first.folder) }
        try await first.run(["a": Self.slow()]) {
            try await first.accept(["first"])
            try await first.until { first.dispatcher.workers.first?.pausedUntil != nil }
        }
        await first.store.close()
        time.advance(by: .seconds(600))
        let second = try await DispatcherRig(time: time, folder: first.folder)
        let backend = Self.taking()
        try await second.run(["a": backend]) {
            try await second.until { second.dispatcher.workers.first?.pausedUntil != nil }
            let id = try await second.accept(["second"])
            time.advance(by: .seconds(599))
            #expect(backend.attemptCount == 0)
            time.advance(by: .seconds(2))
            try await second.expect(id, [.acceptedByPlatform: 1])
        }
        await second.store.close()
    }

    /// A flow that everything has been asked of.
    private func busy() -> FlowControl {
        let flow = FlowControl(configured(pacing: Pacing(perSecond: 10, burst: .seconds(10))), at: now)
        _ = flow.gate.update { $0.apply(.fails(reason: "down"), at: now) }
        _ = flow.gate.update { $0.apply(.park(reason: "BadKey", detail: nil), at: now) }
        _ = flow.gate.update { ($0.pause(until: now.addingTimeInterval(1200), reason: "Busy"), wakes: false) }
        flow.pauses.withLock { $0.pause(.topic("r"), until: now.addingTimeInterval(500), at: now) }
        _ = flow.reserve(100, at: now)
        return flow
    }

    private func stored() throws -> [UInt8] {
        try #require(busy().changedMemory(at: now, isLast: true)).stored(at: TimeReading(now))
    }

    @Test("is written and read back with what time has passed by the wall clock")
    func memory() throws {
        // Another process: its steady clock has nothing to do with that of the first.
        let wall = now.addingTimeInterval(100)
        let steady = now.addingTimeInterval(5_000_000)
        let later = TimeReading(steady: steady, wall: wall, offset: wall.timeIntervalSince(steady))
        let memory = try #require(FlowMemory(stored: try stored(), at: later))
        #expect(memory.pausedUntil == steady.addingTimeInterval(1100))
        #expect(memory.isParked)
        #expect(memory.nextProbe == BackendSignal.firstWait * 2)
        #expect(memory.troubleSince == steady.addingTimeInterval(-100))
        #expect(memory.breaker == .open(until: steady.addingTimeInterval(-70), reason: "down"))
        #expect(memory.recipients.map(\.until) == [steady.addingTimeInterval(400)])
        let flow = FlowControl(configured(pacing: Pacing(perSecond: 10, burst: .seconds(10))), memory, at: steady)
        #expect(flow.reserve(1, at: steady).granted == 0)
        #expect(flow.gate.step(window: 10, at: steady).step == .wait(until: steady.addingTimeInterval(1100)))
        #expect(flow.pauses.withLock { $0.pause(of: .topic("r"), at: steady) } != nil)
    }

    @Test("stops nothing for longer than a minute when the clock went back", arguments: [2.0, 3600, 86400])
    func clockWentBack(by span: Double) throws {
        let wall = now.addingTimeInterval(-span)
        let memory = try #require(FlowMemory(stored: try stored(), at: TimeReading(wall)))
        #expect(memory.pausedUntil == wall.addingTimeInterval(60))
        #expect(memory.recipients.allSatisfy { $0.until <= wall.addingTimeInterval(60) })
    }

    @Test("is written when it changes, not for each message")
    func rarely() {
        let flow = FlowControl(configured(pacing: Pacing(perSecond: 1000, burst: .seconds(10))), at: now)
        #expect(flow.changedMemory(at: now, isLast: false) == nil)
        _ = flow.reserve(10, at: now)
        #expect(flow.changedMemory(at: now, isLast: false) != nil)
        for second in 1..<10 {
            let time = now.addingTimeInterval(Double(second))
            _ = flow.reserve(500, at: time)
            #expect(flow.changedMemory(at: time, isLast: false) == nil)
        }
        let time = now.addingTimeInterval(10)
        #expect(flow.changedMemory(at: time, isLast: false) != nil)
        _ = flow.gate.update { $0.apply(.pause(.seconds(5), reason: "Busy"), at: time) }
        #expect(flow.changedMemory(at: time, isLast: false)?.pauseReason == "Busy")
        #expect(flow.changedMemory(at: time, isLast: false) == nil)
        #expect(flow.changedMemory(at: time.addingTimeInterval(6), isLast: false)?.pausedUntil == nil)
    }
}
