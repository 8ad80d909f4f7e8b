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

/// Two apps with a user, a device id and even a token in common: what one's platform says never touches the other's
/// token.
@Suite("A platform's verdict about one app's token", .timeLimit(.minutes(1)))
struct AppsDispatchTests {
    enum Answer: String, CaseIterable, CustomTestStringConvertible {
        case accepted, dead, doubtful, message, account, platform, unknown

        var testDescription: String { rawValue }

        func outcome(at moment: Date) -> DeliveryOutcome {
            func refusal(_ kind: Refusal.Kind, _ advice: Refusal.Advice, isCertain: Bool? = nil) -> DeliveryOutcome {
                let invalidation = isCertain.map { Refusal.Invalidation(asOf: moment, isCertain: $0) }
                return .refused(Refusal(kind, reason: rawValue, advice: advice, invalidation: invalidation))
            }
            return switch self {
            case .accepted: .accepted(Acceptance(status: 200))
            case .dead: refusal(.token, .never, isCertain: true)
            case .doubtful: refusal(.token, .never, isCertain: false)
            case .message: refusal(.message, .never)
            case .account: refusal(.account, .parkBackend)
            case .platform: refusal(.platform, .retry(after: .seconds(3_600)))
            case .unknown: .unknown(UnknownOutcome(reason: "timeout"))
            }
        }
    }

    private static let shop = AppName(rawValue: "shop")
    private static let forum = AppName(rawValue: "forum")

    @Test(
        "leaves the other app's token as it was",
        arguments: Answer.allCases,
        [TokenEnvironment.production, .development, .unknown]
    )
    func outcomes(answer: Answer, environment: TokenEnvironment) async throws {
        let time = ManualTime()
        let rig = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let token = DeviceToken("same", service: .iOSAPNs)
        let registered = RegisteredToken(
            token,
            environment: environment,
            registeredAt: time.now.addingTimeInterval(-60)
        )
        for app in [Self.shop, Self.forum] {
            let device = Device(id: app.key("phone"), user: app.key("ali"), tokens: [registered], createdAt: time.now)
            _ = try await rig.store.put([device])
        }
        var backends: [BackendRegistry.ConfiguredBackend] = []
        var others: [ScriptedBackend] = []
        for app in [Self.shop, Self.forum] {
            for environment in [TokenEnvironment.production, .development] {
                let backend = ScriptedBackend([.iOSAPNs], environment: environment) { _, _ in
                    app == Self.shop ? answer.outcome(at: time.now) : .accepted(Acceptance(status: 200))
                }
                if app == Self.forum { others.append(backend) }
                backends.append(.init(name: "\(app)-\(environment)", backend: backend, app: app))
            }
        }
        let snapshot = GatewaySnapshot(configuration: .keyless, backends: backends)
        let plan = DeliveryPlan(["shop-production", "shop-development"])
        let before = try #require(try await rig.store.device("forum/phone"))
        try await rig.run(snapshot) {
            let id = try await rig.accept([.device("shop/phone")], plan: plan)
            switch answer {
            case .accepted: try await rig.expect(id, [.acceptedByPlatform: 1])
            case .dead, .doubtful, .message: try await rig.expect(id, [.failed: 1])
            case .account, .platform, .unknown:
                try await rig.until { try await !rig.attemptLog(id).isEmpty }
            }
            try await rig.until { rig.dispatcher.invalidations?.backlog == 0 }
            #expect(try await rig.store.device("forum/phone") == before)
            #expect(others.allSatisfy { $0.attemptCount == 0 })
            let other = try await rig.accept(
                [.device("forum/phone")],
                plan: DeliveryPlan(["forum-production", "forum-development"])
            )
            try await rig.expect(other, [.acceptedByPlatform: 1])
            let own = try #require(try await rig.store.device("shop/phone")?.tokens.first)
            switch answer {
            case .dead: #expect(!own.isAlive)
            case .doubtful:
                // Told to be of the other environment, it has not been tried at this one yet.
                #expect(own.isAlive == (environment == .development))
                #expect(own.refusals.count == 1)
            default: #expect(own.isAlive && own.refusals.isEmpty)
            }
        }
        await rig.store.close()
    }

    @Test("A user that a move brings to another app's backend is not shown to its platform")
    func foreignUser() async throws {
        let rig = try await DispatcherRig(time: ManualTime())
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let backend = ScriptedBackend([]) { _, _ in .accepted(Acceptance(status: 200)) }
        let configured = BackendRegistry.ConfiguredBackend(name: "forum-crm", backend: backend, app: Self.forum)
        let snapshot = GatewaySnapshot(configuration: .keyless, backends: [configured])
        try await rig.run(snapshot) {
            let plan = DeliveryPlan(["forum-crm"])
            let foreign = try await rig.accept([.user("shop/ali"), .user("mina")], plan: plan)
            try await rig.expect(foreign, [.failed: 2])
            #expect(backend.attemptCount == 0)
            let own = try await rig.accept([.user("forum/ali")], plan: plan)
            try await rig.expect(own, [.acceptedByPlatform: 1])
            #expect(backend.attemptCount == 1)
        }
        await rig.store.close()
    }
}
