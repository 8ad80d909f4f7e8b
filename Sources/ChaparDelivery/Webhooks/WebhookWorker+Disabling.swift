internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue

/// Disables an endpoint that takes nothing any more, and begins again when it is enabled.
extension WebhookWorker {
    /// Returns whether events are sent to the endpoint.
    ///
    /// When the endpoint was enabled again, notes which events happened while it was disabled, for a recovery.
    mutating func isStarting() async throws(StoreError) -> Bool {
        guard settings.isEnabled else {
            if memory.disabled?.reason != .operator {
                memory.disabled = WebhookMemory.Disabled(reason: .operator, at: now, generation: settings.generation)
                isDirty = true
            }
            return false
        }
        guard let disabled = memory.disabled else { return true }
        guard disabled.generation != settings.generation else { return false }
        let last = try await tools.state.store.lastEvent()
        if last > position {
            // They were not queued; a request to recover sends them.
            var record = WebhookRecord()
            let first = min(position.adding(clamping: 1), last)
            record.span = first...last
            kept.append(
                WebhookMessage(
                    id: WebhookRecord.spanID(first...last),
                    number: first,
                    state: .failed,
                    due: now,
                    record: record.encoded
                )
            )
            position = last
        }
        memory.restart()
        isDirty = true
        return true
    }

    mutating func disable(_ reason: WebhookMemory.Reason, _ now: Date) async {
        guard memory.disabled == nil else { return }
        memory.disabled = WebhookMemory.Disabled(reason: reason, at: now, generation: settings.generation)
        tools.logger.error(
            "a webhook was disabled: it gets nothing until it is enabled",
            metadata: ["webhook": "\(endpoint.name)", "reason": "\(reason.rawValue)"]
        )
        await tools.tell(
            EventJSON.webhookDisabled(
                endpoint.name,
                app: endpoint.app,
                reason: reason.rawValue,
                at: tools.state.time.now
            )
        )
    }

    func warn(_ percent: Int, _ now: Date) async {
        let end = memory.disabledFrom.map { tools.state.clock.wall($0) }
        tools.logger.warning(
            "a webhook fails, and will be disabled if it continues to fail",
            metadata: ["webhook": "\(endpoint.name)", "percent": .stringConvertible(percent)]
        )
        await tools.tell(
            EventJSON.webhookFailing(
                endpoint.name,
                app: endpoint.app,
                percent: percent,
                disabledAt: end,
                at: tools.state.time.now
            )
        )
    }
}
