import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Takes devices with a token of Apple's.
private struct AppleRegistrar: DeviceRegistrar {
    func accepts(_ device: DeviceRecord) -> Bool { device.tokens.contains { $0.service == .iOSAPNs } }
    func register(_ device: DeviceRecord) async throws(PushError) -> String { device.id }
    func remove(_ device: DeviceRecord) async throws(PushError) {}
}

@Suite("Messages to devices that a platform has not been told of", .timeLimit(.minutes(2)))
struct RegistrationPendingTests {
    private static let unknown = DeliveryOutcome.refused(
        Refusal(.token, reason: Refusal.notRegistered, advice: .never)
    )

    /// A case: what waits at the registry, and what the platform says.
    struct Story: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Whether the gateway still has to tell the platform of the device.
        var isWaiting = false
        /// Whether that is at another platform.
        var isElsewhere = false
        var service = TokenService.iOSAPNs
        /// The attempt from which the platform knows the device.
        var knownFrom: Int
        var reasons: [JSONValue?]
        var end: [DeliveryState: Int]
    }

    static let stories = [
        Story(
            testDescription: "a registration waits: the message does too",
            isWaiting: true,
            knownFrom: 4,
            reasons: ["registration_pending", "registration_pending", "registration_pending", nil],
            end: [.acceptedByPlatform: 1]
        ),
        Story(
            testDescription: "a registration ended while the message was on its way: one more attempt",
            knownFrom: 2,
            reasons: ["registration_pending", nil],
            end: [.acceptedByPlatform: 1]
        ),
        Story(
            testDescription: "the platform refused the registration: one more attempt, and no more",
            knownFrom: .max,
            reasons: ["registration_pending", "not_registered"],
            end: [.failed: 1]
        ),
        Story(
            testDescription: "the platform has no use for the device: no second attempt",
            service: .androidHuawei,
            knownFrom: 2,
            reasons: ["not_registered"],
            end: [.failed: 1]
        ),
        Story(
            testDescription: "what waits for another platform is not waited for",
            isWaiting: true,
            isElsewhere: true,
            service: .androidHuawei,
            knownFrom: 2,
            reasons: ["not_registered"],
            end: [.failed: 1]
        ),
    ]

    @Test("wait while the platform is about to be told, and no longer", arguments: stories)
    func waits(story: Story) async throws {
        let backend = ScriptedBackend([], devices: AppleRegistrar()) { _, attempt in
            attempt < story.knownFrom ? Self.unknown : .accepted(Acceptance(platformID: "p"))
        }
        try await DispatcherRig.run(["a": backend]) { rig in
            try await rig.register("phone", [("token", story.service)])
            if story.isWaiting {
                let operation = OutboxEntry(
                    backend: story.isElsewhere ? "b" : "a",
                    device: "phone",
                    user: nil,
                    kind: .register,
                    body: JSONObject(),
                    at: rig.time.now
                )
                try await rig.store.enqueue([operation])
            }
            let id = try await rig.accept([.device("phone")], plan: DeliveryPlan(["a"]))
            for attempt in 1..<story.reasons.count {
                try await rig.until { try await rig.attemptLog(id).count == attempt }
                rig.time.advance(by: .seconds(120))
            }
            try await rig.expect(id, story.end)
            #expect(try await rig.attemptLog(id).map { $0["reason"] } == story.reasons)
        }
    }

    @Test("A fallback goes on to the next backend when the platform will never know the device")
    func fallsBack() async throws {
        let first = ScriptedBackend([], devices: AppleRegistrar()) { _, _ in Self.unknown }
        let second = ScriptedBackend([.androidHuawei]) { _, _ in .accepted(Acceptance(platformID: "p")) }
        try await DispatcherRig.run(["a": first, "b": second]) { rig in
            try await rig.register("phone", [("token", .androidHuawei)])
            let id = try await rig.accept([.device("phone")], plan: DeliveryPlan(["a", "b"]))
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(try await rig.attemptLog(id).map { $0["backend"] } == ["a", "b"])
        }
    }
}
