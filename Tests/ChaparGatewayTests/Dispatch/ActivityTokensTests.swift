import Foundation
import ChaparCore
import ChaparQueue
import ChaparComposition
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Tokens of Live Activities in a worker", .timeLimit(.minutes(1)))
struct ActivityTokensTests {
    private static let kind = TokenKind.liveActivityUpdate(activity: "match")

    /// Runs a worker over devices that show an activity, whose platform answers all of it alike.
    private static func run(
        isLast: Bool = false,
        answersAll: Bool = false,
        _ answer: @escaping @Sendable (Date) -> DeliveryOutcome,
        _ body: (DispatcherRig, [Recipient]) async throws -> Void
    ) async throws {
        let time = ManualTime()
        let rig = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let devices = (0..<60).map { number in
            let at = time.now.addingTimeInterval(-60)
            let own = RegisteredToken(DeviceToken("own-\(number)", service: .iOSAPNs), registeredAt: at)
            let token = DeviceToken("match-\(number)", service: .iOSAPNs)
            let update = RegisteredToken(token, kind: kind, registeredAt: at)
            return Device(id: "d\(number)", tokens: [own, update], createdAt: at)
        }
        _ = try await rig.store.put(devices)
        let backend = ScriptedBackend([.iOSAPNs], use: TokenUse(kind, isLast: isLast)) { addressee, _ in
            guard case .token(let token) = addressee.recipient, answersAll || token.value.hasPrefix("match") else {
                return .refused(Refusal(.message, reason: "wrong_token", advice: .never))
            }
            return answer(time.now)
        }
        try await rig.run(["ios": backend]) { try await body(rig, devices.map { .device($0.id) }) }
        await rig.store.close()
    }

    private static func gone(at now: Date) -> DeliveryOutcome {
        .refused(
            Refusal(
                .token,
                reason: "Unregistered",
                status: 410,
                advice: .never,
                invalidation: Refusal.Invalidation(asOf: now, isCertain: true)
            )
        )
    }

    @Test("that are dead are invalidated, and raise no doubt about the backend")
    func dead() async throws {
        try await Self.run(Self.gone) { rig, devices in
            let id = try await rig.accept(devices, plan: DeliveryPlan(["ios"]), activity: "match")
            try await rig.expect(id, [.failed: devices.count])
            try await rig.until { rig.dispatcher.invalidations?.backlog == 0 }
            #expect(rig.dispatcher.invalidations?.trippedGuards == [])
            let device = try #require(try await rig.store.device("d59"))
            #expect(device.token(of: .iOSAPNs, Self.kind)?.isAlive == false)
            #expect(device.token(of: .iOSAPNs)?.isAlive == true)
        }
    }

    @Test("are buried where a caller names them; a token of another kind is not, whatever the caller sends to it")
    func named() async throws {
        try await Self.run(answersAll: true, Self.gone) { rig, _ in
            let tokens = ["match-0", "own-0"].map { Recipient.token($0, service: .iOSAPNs) }
            let id = try await rig.accept(tokens, plan: DeliveryPlan(["ios"]))
            try await rig.expect(id, [.failed: 2])
            try await rig.until { rig.dispatcher.invalidations?.backlog == 0 }
            let device = try #require(try await rig.store.device("d0"))
            #expect(device.token(of: .iOSAPNs, Self.kind)?.isAlive == false)
            #expect(device.token(of: .iOSAPNs)?.isAlive == true)
        }
    }

    @Test("go when the platform has taken the end")
    func ended() async throws {
        try await Self.run(isLast: true) { _ in
            .accepted(Acceptance(status: 200))
        } _: { rig, devices in
            let id = try await rig.accept(devices, plan: DeliveryPlan(["ios"]), activity: "match")
            try await rig.expect(id, [.acceptedByPlatform: devices.count])
            try await rig.until { rig.dispatcher.invalidations?.backlog == 0 }
            let left = try await rig.store.devices(withTokenOf: Self.kind, in: .default, limit: 100)
            #expect(left.isEmpty)
            #expect(try await rig.store.device("d0")?.tokens.map(\.token.value) == ["own-0"])
        }
    }
}
