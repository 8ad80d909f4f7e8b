import Foundation
import HTTPTypes
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

/// A platform that refuses everything with one answer until it is mended.
private final class Platform: Sendable {
    private let refusal: Mutex<Refusal?>

    init(_ refusal: Refusal) { self.refusal = Mutex(refusal) }

    func mend() { refusal.withLock { $0 = nil } }

    var backend: ScriptedBackend {
        ScriptedBackend { _, _ in
            self.refusal.withLock { $0 }.map { .refused($0) } ?? .accepted(Acceptance())
        }
    }
}

/// A platform that cannot be reached for a while, whose backend sees when it is back.
private final class ReachablePlatform: PushBackend {
    let kind: BackendKind = "reachable"
    let audience = BackendAudience(forms: [.topic])
    let isThere = Atomic(false)
    let looks = Atomic(0)

    var health: BackendHealth {
        looks.wrappingAdd(1, ordering: .relaxed)
        var health = BackendHealth()
        if !isThere.load(ordering: .relaxed) { health.status = .down }
        return health
    }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let refusal = Refusal(.platform, reason: "connect_failed", advice: .retry(after: nil))
        let outcome: DeliveryOutcome =
            isThere.load(ordering: .relaxed) ? .accepted(Acceptance()) : .refused(refusal)
        for (row, request) in requests.enumerated() {
            report(request.recipients.indices.map { DeliveryReport(request: row, recipient: $0, outcome: outcome) })
        }
    }
}

/// Deliveries that wait for another attempt, and an operator who asks for it now.
@Suite("Retry now", .timeLimit(.minutes(2)))
struct RetryNowTests {
    private static let account = Refusal(.account, reason: "InvalidProviderToken", advice: .parkBackend)
    private static let down = Refusal(.platform, reason: "connect_failed", advice: .retry(after: nil))
    private static let busy = Refusal(.platform, reason: "Busy", advice: .slowBackend(after: .seconds(1_200)))

    /// An API over a rig's dispatcher.
    private func makeAPI(_ rig: DispatcherRig, _ snapshot: GatewaySnapshot) -> GatewayAPI {
        let state = GatewayState(snapshot: snapshot, store: rig.store, devices: rig.store, time: rig.store.time)
        return GatewayAPI(state: state, workers: rig.dispatcher, metrics: GatewayMetrics(), logger: quiet)
    }

    /// Runs a backend until an attempt has failed; the clock stands still from then on.
    private func run(
        _ refusal: Refusal,
        deliveries: Int = 1,
        _ body: (DispatcherRig, Platform, GatewaySnapshot, NotificationID) async throws -> Void
    ) async throws {
        let platform = Platform(refusal)
        let snapshot = DispatcherRig.snapshot(["a": platform.backend]) {
            $0.apiKeys = [APIHarness.key("boss", [.admin]), APIHarness.key("viewer", [.read])]
        }
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(snapshot) {
            let id = try await rig.accept((0..<deliveries).map { "t\($0)" }, lives: .seconds(86_400))
            try await rig.expect(id, [.retrying: deliveries])
            try await body(rig, platform, snapshot, id)
        }
        await rig.store.close()
    }

    private func retry(_ rig: DispatcherRig, _ snapshot: GatewaySnapshot) async throws -> JSONValue {
        let reply = try await APIHarness.send(
            makeAPI(rig, snapshot).responder,
            .post,
            "/v1/backends/a/retry",
            "{}",
            headers: APIHarness.bearer("boss")
        )
        #expect(reply.status == 200, "\(reply.text)")
        return reply.json
    }

    @Test("tries a parked backend at once, and the deliveries that wait for it")
    func parked() async throws {
        try await run(Self.account) { rig, platform, snapshot, id in
            try await rig.until { rig.dispatcher.workers.first?.isParked == true }
            platform.mend()
            let answer = try await retry(rig, snapshot)
            #expect(answer["deliveries"] == 1)
            #expect(answer["operations"] == 0)
            #expect(answer["ended"]?.arrayValue?.map { $0["pause"] } == ["parked"])
            #expect(answer["ended"]?.arrayValue?.first?["reason"] == "InvalidProviderToken")
            #expect(answer["kept"] == [])
            try await rig.expect(id, [.acceptedByPlatform: 1])
            try await rig.until { rig.dispatcher.workers.first?.isParked == false }
        }
    }

    @Test("tries a backend whose breaker is open at once; when that fails it waits as after the first failures")
    func breaker() async throws {
        try await run(Self.down, deliveries: 5) { rig, platform, snapshot, id in
            try await rig.until { rig.dispatcher.workers.first?.breaker.status == .open }
            let first = try await retry(rig, snapshot)
            #expect(first["deliveries"] == 5)
            #expect(first["ended"]?.arrayValue?.map { $0["pause"] } == ["breaker"])
            // The probe fails, and it opens for no longer than before.
            try await rig.until {
                guard let breaker = rig.dispatcher.workers.first?.breaker, breaker.status == .open else { return false }
                return breaker.until.map { $0 > rig.time.now } ?? false
            }
            let until = try #require(rig.dispatcher.workers.first?.breaker.until)
            #expect(until <= rig.time.now.addingTimeInterval(30))
            platform.mend()
            _ = try await retry(rig, snapshot)
            try await rig.expect(id, [.acceptedByPlatform: 5])
        }
    }

    @Test("leaves a pause that the platform asked for, and says until when")
    func asked() async throws {
        try await run(Self.busy) { rig, platform, snapshot, id in
            try await rig.until { rig.dispatcher.workers.first?.pausedUntil != nil }
            platform.mend()
            let answer = try await retry(rig, snapshot)
            #expect(answer["deliveries"] == 1)
            #expect(answer["ended"] == [])
            let kept = try #require(answer["kept"]?.arrayValue?.first)
            #expect(kept["pause"] == "platform")
            #expect(kept["reason"] == "Busy")
            let until = try #require(kept["until"]?.stringValue.flatMap { RFC3339.parse($0) })
            #expect(abs(until.timeIntervalSince(rig.time.now) - 1_200) < 2)
            #expect(rig.dispatcher.workers.first?.pausedUntil != nil)
            rig.time.advance(by: .seconds(1_201))
            try await rig.expect(id, [.acceptedByPlatform: 1])
        }
    }

    @Test("is what a reload does, also of a file that has not changed")
    func reload() async throws {
        try await run(Self.account) { rig, platform, snapshot, id in
            try await rig.until { rig.dispatcher.workers.first?.isParked == true }
            // A probe was refused as well, so that the next would come later still.
            rig.time.advance(by: .seconds(16))
            try await rig.until { try await rig.attemptLog(id).count == 2 }
            platform.mend()
            rig.dispatcher.install(snapshot)
            try await rig.expect(id, [.acceptedByPlatform: 1])
        }
    }

    @Test(
        "is not needed when a platform that was out of reach is back: its backend says so, and the breaker's probe goes"
    )
    func backInReach() async throws {
        let platform = ReachablePlatform()
        var queue = GatewayConfiguration.Queue()
        queue.maximumAttempts = 100
        try await DispatcherRig.run(["a": platform], queue: queue) { rig in
            let id = try await rig.accept((0..<5).map { "t\($0)" }, lives: .seconds(86_400))
            try await rig.until { rig.dispatcher.workers.first?.breaker.status == .open }
            // The worker may begin its wait after any of these steps.
            try await rig.until {
                rig.time.advance(by: .milliseconds(100))
                return platform.looks.load(ordering: .relaxed) > 1
            }
            platform.isThere.store(true, ordering: .relaxed)
            _ = try await rig.store.makeRetriesDue(of: "a")
            let began = rig.time.now
            try await rig.until {
                rig.time.advance(by: .milliseconds(100))
                return try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 5]
            }
            #expect(rig.time.now.timeIntervalSince(began) < 10, "the breaker was to be open for 30 s")
        }
    }

    @Test("goes to the other gateways on the store")
    func otherGateways() async throws {
        let (one, two) = Pair.make()
        let time = ManualTime()
        let (first, second) = (
            try await DispatcherRig(time: time, nodes: one), try await DispatcherRig(time: time, nodes: two)
        )
        defer { for rig in [first, second] { try? FileManager.default.removeItem(at: rig.folder) } }
        try await first.run(["a": Platform(Self.account).backend]) {
            try await second.run(["a": Platform(Self.account).backend]) {
                let id = try await second.accept(["t"], lives: .seconds(86_400))
                try await second.until { second.dispatcher.workers.first?.isParked == true }
                // The park comes before its delivery's retry is written.
                try await second.expect(id, [.retrying: 1])
                #expect(try await second.store.makeRetriesDue(of: "a") == 1)
                _ = first.dispatcher.endOwnPauses(of: "a")
                try await second.until { try await second.attemptLog(id).count == 2 }
            }
        }
        for rig in [first, second] { await rig.store.close() }
    }

    @Test("is for administrators, and for backends that there are")
    func bounds() async throws {
        try await run(Self.account) { rig, _, snapshot, _ in
            let api = makeAPI(rig, snapshot)
            @Sendable func ask(_ path: String, _ body: String, as key: String = "boss") async throws -> APIHarness.Reply
            {
                try await APIHarness.send(api.responder, .post, path, body, headers: APIHarness.bearer(key))
            }
            let viewer = try await ask("/v1/backends/a/retry", "{}", as: "viewer")
            #expect(viewer.status == 403)
            #expect(try await ask("/v1/backends/never/retry", "{}").status == 404)
            #expect(try await ask("/v1/backends/a/retry", #"{"x":1}"#).status == 422)
            #expect(try await ask("/v1/backends/a/retry", "[").status == 400)
        }
    }
}
