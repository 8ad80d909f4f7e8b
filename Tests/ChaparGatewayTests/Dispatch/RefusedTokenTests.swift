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

@Suite("A token that one of several backends refuses", .timeLimit(.minutes(1)))
struct RefusedTokenTests {
    private static let plan = DeliveryPlan(["ios", "ios-dev"])

    /// Apple's two hosts: each takes the tokens whose names begin with its environment.
    private static func host(_ environment: TokenEnvironment, _ time: ManualTime) -> ScriptedBackend {
        ScriptedBackend([.iOSAPNs], environment: environment) { addressee, _ in
            guard case .token(let token) = addressee.recipient else { return nil }
            return token.value.hasPrefix(environment.rawValue) ? .accepted(Acceptance(status: 200)) : bad(time)
        }
    }

    private static func bad(_ time: ManualTime) -> DeliveryOutcome {
        refused("BadDeviceToken", isCertain: false, at: time.now)
    }

    private static func refused(_ reason: String, isCertain: Bool, at moment: Date) -> DeliveryOutcome {
        .refused(
            Refusal(
                .token,
                reason: reason,
                status: 400,
                advice: .never,
                invalidation: Refusal.Invalidation(asOf: moment, isCertain: isCertain)
            )
        )
    }

    private static func register(
        _ rig: DispatcherRig,
        _ id: String,
        _ token: String,
        _ environment: TokenEnvironment = .unknown
    ) async throws {
        let at = rig.time.now.addingTimeInterval(-60)
        let token = RegisteredToken(
            DeviceToken(token, service: .iOSAPNs),
            environment: environment,
            registeredAt: at
        )
        _ = try await rig.store.put([Device(id: id, tokens: [token], createdAt: at)])
    }

    /// Runs a dispatcher over both hosts; `body` gets them in the plan's order.
    private static func run(
        folder: URL? = nil,
        time: ManualTime = ManualTime(),
        keeps: Bool = false,
        _ body: (DispatcherRig, ScriptedBackend, ScriptedBackend) async throws -> Void
    ) async throws -> URL {
        let rig = try await DispatcherRig(time: time, folder: folder)
        defer { if !keeps { try? FileManager.default.removeItem(at: rig.folder) } }
        let (production, development) = (host(.production, time), host(.development, time))
        try await rig.run(["ios": production, "ios-dev": development]) { try await body(rig, production, development) }
        await rig.store.close()
        return rig.folder
    }

    @Test("reaches its device through the other; later rounds go there at once, after a restart as well")
    func learns() async throws {
        let time = ManualTime()
        let devices = (0..<10).map { "d\($0)" }
        let recipients = devices.map { Recipient.device($0) }
        let folder = try await Self.run(time: time, keeps: true) { rig, production, development in
            for (number, id) in devices.enumerated() {
                try await Self.register(rig, id, number < 7 ? "production-\(id)" : "development-\(id)")
            }
            let first = try await rig.accept(recipients, plan: Self.plan)
            try await rig.expect(first, [.acceptedByPlatform: 10])
            #expect(production.attemptCount == 10)
            #expect(development.attemptCount == 3)
            try await rig.until {
                try await rig.store.devices(devices).values.count { !$0.tokens[0].refusals.isEmpty } == 3
            }
            let tombstones = try await rig.store.devices(devices).values.compactMap { $0.tokens[0].tombstone }
            #expect(tombstones.isEmpty)
            // Registrations that are no younger than the refusals leave them.
            for id in devices.suffix(2) { try await Self.register(rig, id, "development-\(id)") }
            let second = try await rig.accept(recipients, plan: Self.plan)
            try await rig.expect(second, [.acceptedByPlatform: 10])
            #expect(production.attemptCount == 17)
            #expect(development.attemptCount == 6)
        }
        _ = try await Self.run(folder: folder, time: time) { rig, production, development in
            let third = try await rig.accept(recipients, plan: Self.plan)
            try await rig.expect(third, [.acceptedByPlatform: 10])
            #expect(production.attemptCount == 7)
            #expect(development.attemptCount == 3)
        }
    }

    @Test("goes first where the app says it belongs, and nowhere else")
    func told() async throws {
        _ = try await Self.run { rig, production, development in
            try await Self.register(rig, "d", "development-d", .development)
            let id = try await rig.accept([.device("d")], plan: Self.plan)
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(production.attemptCount == 0)
            #expect(development.attemptCount == 1)
        }
    }

    @Test("goes on to the other when what the app says is wrong")
    func toldWrongly() async throws {
        _ = try await Self.run { rig, production, development in
            try await Self.register(rig, "d", "development-d", .production)
            let id = try await rig.accept([.device("d")], plan: Self.plan)
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(development.attemptCount == 1)
        }
    }

    @Test("is dead when all have refused it, and tried anew when it is registered again")
    func exhausted() async throws {
        _ = try await Self.run { rig, production, development in
            try await Self.register(rig, "d", "broken")
            let id = try await rig.accept([.device("d")], plan: Self.plan)
            try await rig.expect(id, [.failed: 1])
            try await rig.until { try await rig.store.device("d")?.tokens[0].tombstone?.backend == "ios-dev" }
            try await rig.until { try await rig.eventTypes().contains("device.token_invalidated") }
            rig.time.advance(by: .seconds(120))
            try await Self.register(rig, "d", "broken")
            let token = try #require(try await rig.store.device("d")?.tokens[0])
            #expect(token.tombstone == nil && token.refusals.isEmpty)
        }
    }

    @Test("is not given to the other for trouble that is none of its own", arguments: ["park", "retry"])
    func trouble(kind: String) async throws {
        let time = ManualTime()
        let rig = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let isMended = Mutex(false)
        let production = ScriptedBackend([.iOSAPNs], environment: .production) { _, _ in
            if isMended.withLock({ $0 }) { return .accepted(Acceptance(status: 200)) }
            return kind == "park"
                ? .refused(Refusal(.account, reason: "InvalidProviderToken", advice: .parkBackend))
                : .refused(Refusal(.platform, reason: "connect_failed", advice: .retry(after: nil)))
        }
        let development = Self.host(.development, time)
        var queue = GatewayConfiguration.Queue()
        queue.fallbackAfter = .seconds(5)
        try await rig.run(["ios": production, "ios-dev": development], queue: queue) {
            try await Self.register(rig, "d", "production-d")
            let id = try await rig.accept([.device("d")], plan: Self.plan)
            try await rig.until { production.attemptCount > 0 }
            for _ in 0..<40 {
                time.advance(by: .seconds(10))
                await Task.yield()
            }
            #expect(development.attemptCount == 0)
            isMended.withLock { $0 = true }
            time.advance(by: .seconds(2_000))
            try await rig.until {
                time.advance(by: .seconds(1))
                return try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 1]
            }
            #expect(try await rig.store.device("d")?.tokens[0].isAlive == true)
        }
        await rig.store.close()
    }

    @Test("that is dead for certain is not tried at the other")
    func certain() async throws {
        let time = ManualTime()
        let rig = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let production = ScriptedBackend([.iOSAPNs], environment: .production) { _, _ in
            Self.refused("Unregistered", isCertain: true, at: time.now)
        }
        let development = Self.host(.development, time)
        try await rig.run(["ios": production, "ios-dev": development]) {
            try await Self.register(rig, "d", "production-d")
            let one = try await rig.accept([.device("d")], plan: Self.plan)
            try await rig.expect(one, [.failed: 1])
            try await rig.until { try await rig.store.device("d")?.tokens[0].tombstone != nil }
            let other = try await rig.accept([.token(DeviceToken("unknown", service: .iOSAPNs))], plan: Self.plan)
            try await rig.expect(other, [.failed: 1])
            #expect(development.attemptCount == 0)
        }
        await rig.store.close()
    }

    @Test("is nothing that the guard counts, as long as another takes it")
    func guardCounts() async throws {
        _ = try await Self.run { rig, production, development in
            let ids = (0..<120).map { "d\($0)" }
            for id in ids { try await Self.register(rig, id, "development-\(id)") }
            let id = try await rig.accept(ids.map { .device($0) }, plan: Self.plan)
            try await rig.expect(id, [.acceptedByPlatform: 120])
            #expect(rig.dispatcher.workers.allSatisfy { !$0.areInvalidationsQuarantined })
        }
    }

    @Test("is held back by the guard when all refuse all, and alive again for all when that is discarded")
    func wrongConfiguration() async throws {
        _ = try await Self.run { rig, production, development in
            let ids = (0..<120).map { "d\($0)" }
            for id in ids { try await Self.register(rig, id, "broken-\(id)") }
            try await rig.accept(ids.map { .device($0) }, plan: Self.plan)
            try await rig.until { rig.dispatcher.workers.contains { $0.areInvalidationsQuarantined } }
            let desk = try #require(rig.dispatcher.invalidations)
            try await rig.until { desk.backlog == 0 }
            _ = try await desk.resolve("ios-dev", .discard)
            let tokens = try await rig.store.devices(ids).values.flatMap(\.tokens)
            #expect(tokens.filter { !$0.isAlive } == [])
            #expect(tokens.count { $0.isUsable(by: "ios") } == 120)
        }
    }
}
