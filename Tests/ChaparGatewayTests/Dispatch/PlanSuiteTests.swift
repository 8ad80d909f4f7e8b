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

/// The suite of plans that the combinators in memory pass as well, over the dispatcher and the embedded
/// store: one gateway in which every case has backends and a device of its own.
@Suite("The suite of plans over the gateway", .timeLimit(.minutes(5)))
struct PlanSuiteTests {
    /// A case with names that no other case has.
    private struct Own {
        let original: PlanCase
        let place: Int
        let backends: [(name: String, backend: any PushBackend)]

        init(_ original: PlanCase, _ place: Int) {
            self.original = original
            self.place = place
            backends = original.makeBackends().map { ("c\(place)-\($0.name)", $0.backend) }
        }

        var device: String { "device-\(place)" }

        var tokens: [DeviceToken] {
            original.deviceTokens.map { DeviceToken("\($0.value)-\(place)", service: $0.service) }
        }

        var recipient: Recipient {
            if original.isRawToken, let token = tokens.first { .token(token) } else { .device(device) }
        }

        /// The plan as a route gives it to the recipient: a raw token only ever goes to backends that take its service.
        func plan() throws -> DeliveryPlan {
            var plan = original.plan
            plan.backends = plan.backends.map { "c\(place)-\($0)" }
            guard original.isRawToken else { return plan }
            let table = RoutingTable(
                routes: [GatewayConfiguration.Route(name: "case", plan: plan)],
                backends: backends.map { BackendRegistry.ConfiguredBackend(name: $0.name, backend: $0.backend) }
            )
            return try table.plan(for: recipient, .route("case"))
        }
    }

    @Test("Every case ends as it does in memory, after the same attempts")
    func suite() async throws {
        let cases = PlanCases.cases(for: .gateway).enumerated().map { Own($1, $0) }
        #expect(cases.count > 300)
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        var configuration = GatewayConfiguration.keyless
        configuration.queue.firstRetry = PlanCase.retry.firstWait
        configuration.queue.maximumRetry = PlanCase.retry.longestWait
        configuration.queue.maximumAttempts = PlanCase.retry.maximumAttempts
        // Workers that stand still because others' messages failed are tested elsewhere; here each has one message.
        configuration.invalidationGuard.isEnabled = false
        let snapshot = GatewaySnapshot(
            configuration: configuration,
            backends: cases.flatMap(\.backends).map {
                BackendRegistry.ConfiguredBackend(name: $0.name, backend: $0.backend)
            }
        )
        try await rig.run(snapshot) {
            var ids: [NotificationID] = []
            for one in cases {
                try await rig.register(one.device, one.tokens.map { ($0.value, $0.service) }, ago: 86400)
                ids.append(
                    try await rig.accept([one.recipient], plan: one.plan(), lives: one.original.timeToLive)
                )
            }
            try await Self.finish(rig, ids)
            for (one, id) in zip(cases, ids) {
                let end = try #require(try await rig.store.notification(id)?.counts.keys.first)
                let attempts = try await rig.attemptLog(id)
                    .filter { ["accepted", "refused", "unknown"].contains($0["outcome"]?.stringValue) }
                    .map { String(($0["backend"]?.stringValue ?? "").split(separator: "-").last ?? "") }
                do {
                    try one.original.check(attempts: attempts, end: end)
                } catch {
                    Issue.record("\(error)")
                }
            }
        }
        await rig.store.close()
    }

    /// Moves the clock on, but only while nothing is due or under way, until every delivery has ended.
    private static func finish(_ rig: DispatcherRig, _ ids: [NotificationID]) async throws {
        let start = rig.time.now
        let deadline = ContinuousClock.now + .seconds(120)
        var (due, dueSince) = (0, ContinuousClock.now)
        while ContinuousClock.now < deadline {
            let depths = try await rig.store.depths().values
            if depths.allSatisfy({ $0.waiting == 0 && $0.claimed == 0 }) { return }
            let claimed = depths.reduce(0) { $0 + $1.claimed }
            let waiting = depths.reduce(0) { $0 + ($1.oldestDue == nil ? 0 : $1.waiting) }
            if claimed > 0 || waiting != due { (due, dueSince) = (waiting, .now) }
            // What became due right after a stopped worker had looked for what goes on to another backend waits for its
            // next look.
            if claimed > 0 || due > 0 && dueSince.duration(to: .now) < .seconds(2) {
                await Task.yield()
                continue
            }
            rig.time.advance(by: .milliseconds(due > 0 ? 250 : 500))
            guard rig.time.now.timeIntervalSince(start) < 600 else { break }
        }
        throw ConformanceFailure("some deliveries of the suite do not end")
    }
}
