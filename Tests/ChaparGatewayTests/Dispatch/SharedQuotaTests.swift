import Foundation
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

/// A ledger in memory, by a clock that the test moves, which a test can take away.
final class MemoryLedger: QuotaLedger {
    private struct State {
        var levels: [String: QuotaLevel] = [:]
        var isAway = false
        var requests = 0
    }

    private let time: ManualTime
    private let state = Mutex(State())

    init(_ time: ManualTime) { self.time = time }

    var requests: Int { state.withLock { $0.requests } }
    var names: Set<String> { state.withLock { Set($0.levels.keys) } }

    var isAway: Bool {
        get { state.withLock { $0.isAway } }
        set { state.withLock { $0.isAway = newValue } }
    }

    func reserve(_ request: QuotaRequest, of quota: String) async throws(StoreError) -> QuotaGrant {
        let now = time.steady
        let grant = state.withLock { state -> QuotaGrant? in
            state.requests += 1
            if state.isAway { return nil }
            return state.levels[quota, default: QuotaLevel(filledAt: now)].reserve(request, at: now)
        }
        guard let grant else { throw .full(reason: "away", retryAfter: .seconds(5)) }
        return grant
    }
}

/// One gateway's worker of a backend, as far as its quota goes.
private struct Node {
    let flow: FlowControl
    let time: ManualTime

    init(_ ledger: MemoryLedger?, _ pacing: Pacing, _ time: ManualTime, identity: String = "x") {
        let configured = BackendRegistry.ConfiguredBackend(
            name: "a",
            backend: ScriptedBackend { _, _ in nil },
            pacing: pacing,
            identity: identity
        )
        flow = FlowControl(configured, ledger: ledger, at: time.steady)
        self.time = time
    }

    func reserve(_ wanted: Int) async -> FlowControl.Allowance {
        let allowance = flow.reserve(wanted, at: time.steady)
        return allowance.needsSlice ? await flow.reserveSlice(wanted, time) : allowance
    }

    /// Sends what it may of so many, of which some are urgent, and which are all that was found; how many it sent.
    func send(_ normal: Int, urgent: Int = 0) async -> (normal: Int, urgent: Int) {
        let allowance = await reserve(512)
        let sent = min(normal, allowance.normal)
        let sentUrgent = min(urgent, allowance.granted - sent)
        flow.release(reserved: allowance.granted, used: sent + sentUrgent, at: time.steady)
        return (sent, sentUrgent)
    }

    /// As a worker that waits.
    func rest() async {
        if let end = flow.sliceLapsesAt, end <= time.steady { await flow.giveBack(time) }
    }
}

@Suite("A quota that gateways share", .timeLimit(.minutes(2)))
struct SharedQuotaTests {
    /// Returns the size of a bucket: the messages that may go at once.
    private static func capacity(_ pacing: Pacing) -> Double {
        max(1, pacing.perSecond * pacing.burst.inSeconds)
            + (pacing.urgentShare > 0 ? max(1, pacing.perSecond * pacing.urgentShare) : 0)
    }

    @Test("gateways together never send more than one bucket allows, whatever they do", arguments: 0..<40)
    func bound(seed: Int) async throws {
        var random = Dice(seed: seed)
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(
            perSecond: [3, 40, 1_000, 20_000][Int.random(in: 0..<4, using: &random)],
            burst: .milliseconds([0, 100, 2_000].randomElement(using: &random) ?? 0),
            rampUp: .seconds([0, 0, 5].randomElement(using: &random) ?? 0),
            urgentShare: [0, 0.2].randomElement(using: &random) ?? 0
        )
        let nodes = (0..<Int.random(in: 2...4, using: &random)).map { _ in Node(ledger, pacing, time) }
        let start = time.steady
        var sent: [(at: Double, count: Int)] = []
        for _ in 0..<3_000 {
            let node = nodes[Int.random(in: 0..<nodes.count, using: &random)]
            switch Int.random(in: 0..<20, using: &random) {
            case 0: await node.flow.giveBack(time)
            case 1 where ledger.isAway || Int.random(in: 0..<4, using: &random) == 0: ledger.isAway.toggle()
            case 2: time.advance(by: .milliseconds(Int.random(in: 0...1_500, using: &random)))
            case 3...10: time.advance(by: .microseconds(Int.random(in: 0...30_000, using: &random)))
            default:
                let now = time.steady.timeIntervalSince(start)
                let demand = [1, 7, 512].randomElement(using: &random) ?? 1
                let urgent = Int.random(in: 0...demand, using: &random)
                let count = await node.send(demand - urgent, urgent: urgent)
                sent.append((now, count.normal + count.urgent))
            }
            await node.rest()
        }
        // Over any span, besides the bucket: what others had reserved before it began, at most a slice each.
        let capacity = Self.capacity(pacing)
        let slice = min(capacity, max(512, pacing.perSecond * QuotaSlice.span) + 1)
        var (total, level, last, excess, burst) = (0.0, 0.0, 0.0, 0.0, 0.0)
        for send in sent {
            total += Double(send.count)
            level = max(0, level - pacing.perSecond * (send.at - last)) + Double(send.count)
            last = send.at
            excess = max(excess, total - pacing.perSecond * send.at)
            burst = max(burst, level)
        }
        #expect(excess <= capacity + 0.001, "more than the bucket and the rate, of \(pacing)")
        #expect(burst <= capacity + Double(nodes.count - 1) * slice + 1, "too much at a time, of \(pacing)")
        #expect(total > 0)
    }

    @Test("gateways that have enough to send use the whole quota, and ask some times a second")
    func use() async {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(perSecond: 10_000)
        let nodes = (0..<3).map { _ in Node(ledger, pacing, time) }
        var sent = [0, 0, 0]
        for _ in 0..<5_000 {
            for (place, node) in nodes.enumerated() { sent[place] += await node.send(512).normal }
            time.advance(by: .milliseconds(1))
        }
        let total = sent.reduce(0, +)
        #expect(total <= 51_000)
        #expect(total >= 49_000)
        #expect(sent.allSatisfy { $0 > 10_000 }, "none is left out: \(sent)")
        #expect(ledger.requests < 3 * 5 * 60)
    }

    @Test("one gateway that is idle leaves everything to the other after a second, one that is gone as well")
    func idle() async {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(perSecond: 10, burst: .seconds(10))
        let (one, other) = (Node(ledger, pacing, time), Node(ledger, pacing, time))
        #expect(await one.send(3).normal == 3)
        #expect(await other.send(200).normal == 0, "it is reserved")
        time.advance(by: .milliseconds(900))
        await one.rest()
        let meanwhile = await other.send(200).normal
        #expect((8...9).contains(meanwhile), "what came since")
        time.advance(by: .milliseconds(110))
        await one.rest()
        #expect(one.flow.sliceLapsesAt == nil)
        let rest = await other.send(200).normal
        #expect((92...94).contains(rest), "all but what it used a moment ago, as of one bucket")
        // What a gateway had reserved when it died is made up for by time.
        let dead = Node(ledger, pacing, time)
        time.advance(by: .seconds(10))
        #expect(await dead.send(1).normal == 1)
        var sent = 0
        for _ in 0..<100 {
            time.advance(by: .milliseconds(100))
            sent += await other.send(200).normal
        }
        #expect((98...101).contains(sent))
    }

    @Test("urgent messages of one gateway keep their share while another sends as fast as it can")
    func urgentShare() async {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(perSecond: 100, burst: .seconds(1), urgentShare: 0.2)
        let (flood, other) = (Node(ledger, pacing, time), Node(ledger, pacing, time))
        var (normal, urgent, longest, since) = (0, 0, 0, 0)
        for tick in 0..<10_000 {
            normal += await flood.send(512).normal
            if tick >= 5_000, tick % 50 == 0 {  // As much as is kept for them: 20 a second.
                since += 1
                let sent = await other.send(0, urgent: since).urgent
                urgent += sent
                since -= sent
                longest = max(longest, since)
            }
            time.advance(by: .milliseconds(1))
        }
        #expect(urgent >= 99)
        #expect(longest <= 2, "an urgent message waits for the ledger, not for the quota")
        #expect(normal + urgent <= 120 + 1_000)
        #expect(normal + urgent >= 1_050)
    }

    @Test("while the ledger does not answer only what is reserved goes, and then it goes on")
    func outage() async {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(perSecond: 100, burst: .seconds(10))
        let node = Node(ledger, pacing, time)
        #expect(await node.send(1).normal == 1)
        ledger.isAway = true
        #expect(await node.send(512).normal == 511, "it was reserved before")
        let asked = ledger.requests
        for _ in 0..<1_000 {
            let allowance = await node.reserve(512)
            #expect(allowance.granted == 0)
            #expect(allowance.retryAt > time.steady && allowance.retryAt <= time.steady + 0.25)
            time.advance(by: .milliseconds(10))
        }
        #expect((35...45).contains(ledger.requests - asked))
        ledger.isAway = false
        time.advance(by: .milliseconds(250))
        #expect(await node.send(512).normal == 512)
        #expect(await node.send(512).normal == 488, "what was reserved before has been made up for")
    }

    @Test("another backend under the name has another quota; of different rates the last one asked by counts")
    func names() async {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(perSecond: 10, burst: .seconds(10))
        let (one, other) = (Node(ledger, pacing, time), Node(ledger, pacing, time, identity: "y"))
        #expect(await one.send(512).normal == 100)
        #expect(await other.send(512).normal == 100)
        #expect(ledger.names == ["a x", "a y"])
        let faster = Node(ledger, Pacing(perSecond: 100, burst: .seconds(10)), time)
        #expect(await faster.send(512).normal == 0)
        time.advance(by: .seconds(1))
        #expect(await faster.send(512).normal == 100)
    }

    @Test("nothing of it is kept over a restart by the gateway, since the ledger does")
    func memory() async {
        let time = ManualTime()
        let node = Node(MemoryLedger(time), Pacing(perSecond: 10, burst: .seconds(10)), time)
        #expect(await node.send(60).normal == 60)
        #expect(node.flow.changedMemory(at: time.steady, isLast: true) == nil)
    }

    @Test("a backend without a quota asks for no share, and neither does one that lost it in a reload")
    func noQuota() async {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        func configured(_ pacing: Pacing?) -> BackendRegistry.ConfiguredBackend {
            BackendRegistry.ConfiguredBackend(
                name: "a",
                backend: ScriptedBackend { _, _ in nil },
                pacing: pacing,
                identity: "x"
            )
        }
        let flow = FlowControl(configured(nil), ledger: ledger, at: time.steady)
        let all = flow.reserve(512, at: time.steady)
        #expect(all.normal == 512 && !all.needsSlice)
        flow.adopt(configured(Pacing(perSecond: 10, burst: .seconds(10))), at: time.steady)
        flow.release(reserved: 512, used: 3, at: time.steady)
        #expect(flow.sliceLapsesAt == nil, "what was free is no slice")
        #expect(flow.reserve(512, at: time.steady).needsSlice)
        #expect(await flow.reserveSlice(512, time).normal == 97)
        flow.release(reserved: 97, used: 7, at: time.steady)
        #expect(flow.sliceLapsesAt != nil)
        flow.adopt(configured(nil), at: time.steady)
        #expect(flow.sliceLapsesAt == nil)
        let asked = ledger.requests
        #expect(flow.reserve(512, at: time.steady).normal == 512)
        #expect(await flow.reserveSlice(512, time).normal == 512)
        flow.release(reserved: 512, used: 0, at: time.steady)
        await flow.giveBack(time)
        #expect(flow.sliceLapsesAt == nil && ledger.requests == asked)
    }

    @Test("the worker of a backend without a quota asks for no share, though quotas are shared")
    func waitsWithoutQuota() async throws {
        let ledger = MemoryLedger(ManualTime())
        let rig = try await DispatcherRig(quotas: ledger)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let crowd = FlowControlTests.Crowd()
        let backend = FlowControlTests.CrowdedBackend(crowd: crowd)
        let snapshot = GatewaySnapshot(
            configuration: .keyless,
            backends: [BackendRegistry.ConfiguredBackend(name: "a", backend: backend, maximumInFlight: 4)]
        )
        try await rig.run(snapshot) {
            let id = try await rig.accept((0..<3).map { "t\($0)" })
            let last = try await rig.accept((0..<9).map { "u\($0)" })
            try await rig.until { crowd.inside == 4 }
            crowd.open()
            try await rig.expect(id, [.acceptedByPlatform: 3])
            try await rig.expect(last, [.acceptedByPlatform: 9])
        }
        #expect(ledger.requests == 0)
        await rig.store.close()
    }

    // MARK: Dispatchers

    private static func snapshot(_ backend: ScriptedBackend, _ pacing: Pacing) -> GatewaySnapshot {
        GatewaySnapshot(
            configuration: .keyless,
            backends: [
                BackendRegistry.ConfiguredBackend(name: "a", backend: backend, pacing: pacing, identity: "x")
            ]
        )
    }

    /// Moves the clock on, in steps with a moment of real time after each.
    private static func pass(_ seconds: TimeInterval, _ time: ManualTime) async throws {
        let end = time.steady + seconds
        try await eventually("\(seconds) s are over", every: .milliseconds(1)) {
            time.advance(by: .milliseconds(50))
            return time.steady >= end
        }
    }

    @Test("two gateways send what one may, wait for the rest, and a single message after a pause goes at once")
    func dispatchers() async throws {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(perSecond: 10, burst: .seconds(10))
        let (first, second) = (
            try await DispatcherRig(time: time, quotas: ledger), try await DispatcherRig(time: time, quotas: ledger)
        )
        defer { for rig in [first, second] { try? FileManager.default.removeItem(at: rig.folder) } }
        let (one, two) = (
            ScriptedBackend { _, _ in .accepted(Acceptance()) }, ScriptedBackend { _, _ in .accepted(Acceptance()) }
        )
        try await first.run(Self.snapshot(one, pacing)) {
            try await second.run(Self.snapshot(two, pacing)) {
                let start = time.steady
                let (a, b) = (
                    try await first.accept((0..<80).map { "a\($0)" }),
                    try await second.accept((0..<80).map { "b\($0)" })
                )
                try await first.until { one.attemptCount + two.attemptCount >= 80 }
                // Nothing lets the rest go but time.
                var excess = 0.0
                try await eventually("twelve seconds are over") {
                    let sent = Double(one.attemptCount + two.attemptCount)
                    excess = max(excess, sent - 10 * time.steady.timeIntervalSince(start))
                    time.advance(by: .milliseconds(50))
                    return time.steady >= start + 12
                }
                #expect(excess <= 100.001)
                try await first.expect(a, [.acceptedByPlatform: 80])
                try await second.expect(b, [.acceptedByPlatform: 80])
                // Both are idle: what each has goes back, and either may send all of it.
                try await Self.pass(20, time)
                let single = try await first.accept(["single"])
                try await first.expect(single, [.acceptedByPlatform: 1])
                try await Self.pass(3, time)
                let many = try await second.accept((0..<90).map { "c\($0)" })
                try await second.expect(many, [.acceptedByPlatform: 90])
            }
        }
        for rig in [first, second] { await rig.store.close() }
    }

    @Test("a gateway that stands still gives back what it has reserved")
    func standingStill() async throws {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(perSecond: 10, burst: .seconds(10))
        let other = Node(ledger, pacing, time)
        let rig = try await DispatcherRig(time: time, quotas: ledger)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let crowd = FlowControlTests.Crowd()
        let backend = FlowControlTests.CrowdedBackend(crowd: crowd)
        let snapshot = GatewaySnapshot(
            configuration: .keyless,
            backends: [
                BackendRegistry.ConfiguredBackend(
                    name: "a",
                    backend: backend,
                    maximumInFlight: 80,
                    pacing: pacing,
                    identity: "x"
                )
            ]
        )
        try await rig.run(snapshot) {
            // So much is with the platform that the worker claims nothing more, and has 15 left of 80.
            let id = try await rig.accept((0..<65).map { "t\($0)" })
            try await rig.until { crowd.inside == 65 }
            let start = time.steady
            var sent = await other.send(512).normal
            #expect(sent == 20)
            try await rig.until {
                time.advance(by: .milliseconds(100))
                sent += await other.send(512).normal
                return Double(sent) >= 35 + 10 * time.steady.timeIntervalSince(start) - 2
            }
            #expect(time.steady > start + QuotaSlice.lifetime - 0.2)
            crowd.open()
            try await rig.expect(id, [.acceptedByPlatform: 65])
        }
        await rig.store.close()
    }

    @Test("a gateway that ends gives back what it has reserved")
    func ending() async throws {
        let time = ManualTime()
        let ledger = MemoryLedger(time)
        let pacing = Pacing(perSecond: 10, burst: .seconds(10))
        let rig = try await DispatcherRig(time: time, quotas: ledger)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(Self.snapshot(ScriptedBackend { _, _ in .accepted(Acceptance()) }, pacing)) {
            let id = try await rig.accept()
            try await rig.expect(id, [.acceptedByPlatform: 1])
        }
        await rig.store.close()
        #expect(await Node(ledger, pacing, time).send(512).normal == 99)
    }
}
