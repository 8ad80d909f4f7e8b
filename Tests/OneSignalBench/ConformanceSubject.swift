import Foundation
package import ChaparCore
import ChaparSandbox
package import ChaparTesting

extension OneSignalBench {
    /// Returns the conformance kit's subject for a backend that sends through OneSignal.
    ///
    /// - Parameters:
    ///   - backend: The backend that is examined.
    ///   - sender: A backend of OneSignal beside it, which makes the messages that are tracked and cancelled.
    ///   - payloadLimit: The most bytes of a payload.
    ///   - deadline: The backend's timeout.
    ///   - log: What the backend logged.
    /// - Returns: What the kit examines.
    /// - Throws: When the backend cannot register a device.
    package func subject(
        _ backend: any PushBackend,
        sender: any PushBackend,
        payloadLimit: Int,
        deadline: Duration,
        log: RecordedLog
    ) async throws -> BackendConformance.Subject {
        let simulator = simulator
        let ids = simulator.addPlayers(2_010, tags: ["plan": "gold"])
        _ = try await backend.devices?.register(.sample(user: "u-1"))
        var subject = BackendConformance.Subject(
            backend: backend,
            recipient: { .platformID(ids[$0]) },
            others: [.device("d-1"), .user("u-1"), .topic("All"), .tags(TagFilter(any: ["plan:gold"])), .everyone],
            foreignRecipient: .token(DeviceToken("foreign-device-token", service: .androidFirebase)),
            taken: { simulator.counters.created },
            requests: {
                let seen = simulator.counters
                return seen.createRequests + seen.views + seen.writes + seen.idPushRequests
            },
            payloadLimit: payloadLimit,
            givesPlatformIDs: false,
            disturb: {
                simulator.removeFaults()
                guard let trouble = FaultRule.Trouble(rawValue: $0.rawValue) else { throw UnknownTrouble() }
                simulator.add(FaultRule.trouble(trouble))
            }
        )
        subject.largeBatch = 2_001
        subject.takesRepeatsOnce = true
        subject.deadline = deadline
        subject.log = log
        subject.secrets = [Secret("os_v2_app_sandbox"), Secret(simulator.rules.projectID)]
        let sent = sent
        let time = time
        // Look-ups and registrations are no messages.
        subject.sent = { sent.requests.filter { $0.method == "POST" && $0.path.hasSuffix("/notifications") } }
        subject.now = { time.now }
        subject.lacks = [.expiringCredentials, .addresses]
        subject.refuseCredential = { simulator.add(FaultRule(.answer(FaultAnswer(401)))) }
        subject.throttle = { pause in
            let seconds = Int(clamping: pause.components.seconds)
            simulator.add(FaultRule(.answer(FaultAnswer(429, "API rate limit exceeded", retryAfter: seconds))))
        }
        subject.means.device = .sample("d-2", token: token(7))
        subject.means.tags = ["plan": "gold"]
        let later = time.now.addingTimeInterval(3_600)
        @Sendable func id(_ notification: PushNotification) async -> String {
            guard case .accepted(let taken) = await sender.send(notification, to: .platformID(ids[0])) else {
                return ""
            }
            return taken.platformID ?? ""
        }
        subject.means.tracked = { await id(.sample) }
        subject.means.cancellable = {
            var scheduled = PushNotification.sample
            scheduled.sendAt = later
            return await id(scheduled)
        }
        return subject
    }
}

/// The kit knows a trouble that the simulator has no fault for.
private struct UnknownTrouble: Error {}
