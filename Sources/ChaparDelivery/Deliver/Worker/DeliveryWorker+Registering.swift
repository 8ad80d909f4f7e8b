internal import ChaparCore
internal import ChaparQueue

/// The handling of messages to devices that a platform does not know yet because the registration still waits.
extension DeliveryWorker {
    /// Turns the platform's refusal of an unregistered device into a wait, when the device's registration is in the
    /// outbox.
    ///
    /// A registration that was done while the message was under way is no longer in the outbox. So a message to a
    /// device that the platform accepts gets one more attempt. When a store fails, the platform's refusal stands.
    func awaitingRegistration(
        _ outcomes: [WorkerBatch.Outcome],
        of batch: WorkerBatch
    ) async -> [WorkerBatch.Outcome] {
        guard !outcomes.isEmpty, let operations = dependencies.operations, let registrar = backend.devices else {
            return outcomes
        }
        let first = outcomes.compactMap { batch.claims[$0.index].attempts == 0 ? batch.claims[$0.index].deviceID : nil }
        let known = first.isEmpty ? [:] : (try? await dependencies.devices?.devices(first)) ?? [:]
        var results = outcomes
        for (index, outcome) in outcomes.enumerated() {
            guard let id = batch.claims[outcome.index].deviceID else { continue }
            var isExpected = known[id].map {
                registrar.accepts(DeviceRecord($0, user: $0.user, priority: settings.tokenPriority))
            }
            if isExpected != true {
                let waiting = try? await operations.entries(ofDevice: id, limit: 100)
                isExpected = waiting?.contains { $0.operation.backend == name && $0.operation.kind == .register }
                if isExpected != true {
                    isExpected = (try? await operations.unplannedCount(ofDevice: id)).map { $0 > 0 }
                }
            }
            guard isExpected == true else { continue }
            let refusal = Refusal(
                .token,
                reason: "registration_pending",
                detail: "The platform has not been told of the device yet.",
                advice: .retry(after: .seconds(1))
            )
            results[index].outcome = .refused(refusal)
        }
        return results
    }
}

extension DeliveryOutcome {
    /// Whether a platform refuses the device as unregistered.
    var isNotRegistered: Bool {
        if case .refused(let refusal) = self { refusal.reason == Refusal.notRegistered } else { false }
    }
}
