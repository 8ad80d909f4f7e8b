import ChaparCore

/// The device registry of a simulated platform: the newest version of each device.
struct SimulatedRegistrar: DeviceRegistrar {
    let platform: SimulatedPlatform
    let scheduler: Scheduler
    let time: any TimeSource

    func register(_ device: DeviceRecord) async throws(PushError) -> String {
        let version = device.attributes["app_version"]?.stringValue
        try await synchronize { platform.keep(device.id, version) }
        return "platform-\(device.id)"
    }

    func remove(_ device: DeviceRecord) async throws(PushError) {
        try await synchronize { platform.keep(device.id, nil) }
    }

    private func synchronize(_ change: () -> Void) async throws(PushError) {
        do {
            try await time.sleep(for: .milliseconds(scheduler.draw(below: 200)))
        } catch {
            throw PushError(.unavailable, "cancelled")
        }
        switch platform.behavior {
        case .busy, .parked, .refusing, .unreachable, .invalidating: throw PushError(.unavailable, "busy")
        case .flapping where scheduler.chance(500): throw PushError(.unavailable, "flapping")
        case .rateLimited: throw PushError(.rateLimited, "rate", retryAfter: .seconds(scheduler.draw(below: 20)))
        case .losing, .unreadable:
            change()
            throw PushError(.unknownOutcome, "no answer came")
        case .hanging:
            try? await time.sleep(for: .seconds(600))
            throw PushError(.unavailable, "hanging")
        default: change()
        }
    }
}
