import Foundation
import PushCore
import Synchronization

/// What the model platform can do beside taking messages.
extension ModelBackend: DeviceRegistrar, SubscriptionManager, TagEditor, EventReporter, MessageCanceller,
    MessageTracker, ReceiptReader, ClickReader
{
    func register(_ device: DeviceRecord) async throws(PushError) -> String {
        if has(.registersNothing) { return "model-\(device.id)" }
        let isKnown = platform.state.withLock { $0.devices[device.id] == device }
        if !isKnown || has(.registersAlways) { try platform.request { $0.devices[device.id] = device } }
        return "model-\(device.id)"
    }

    func remove(_ device: DeviceRecord) async throws(PushError) {
        if has(.registersNothing) { return }
        let isKnown = try platform.request { $0.devices.removeValue(forKey: device.id) != nil }
        if !isKnown, has(.missesDevices) { throw PushError(.invalidRequest, "there is no such device") }
    }

    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError) {
        try platform.request { $0.statuses[device.id] = has(.ignoresStatus) ? .subscribed : status }
    }

    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus? {
        platform.state.withLock { $0.statuses[device.id] }
    }

    func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {
        if !has(.ignoresTags) { try platform.request { _ in } }
    }

    func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError) {
        if !has(.ignoresEvents) { try platform.request { _ in } }
    }

    func cancel(platformID: String) async throws(PushError) -> Bool {
        if has(.cancelsAnything) { return true }
        return try platform.request { $0.messages.removeValue(forKey: platformID) != nil }
    }

    func state(of platformID: String) async throws(PushError) -> DeliveryState? {
        if has(.inventsStates) { return .acceptedByPlatform }
        return try platform.request { $0.messages[platformID] }
    }

    var acknowledgement: [UInt8] { Array("{}".utf8) }

    func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
        guard callback.header("x-secret") == Self.secret || has(.believesAll) else { throw .notAuthentic("no secret") }
        return [DeliveryReceipt(.delivered, platformID: "m", reason: "delivered", at: callback.receivedAt)]
    }

    func take(_ click: ReportedClick) async throws(PushError) -> TakenClick {
        TakenClick(receipt: nil, notification: has(.readsNoClicks) ? JSONObject() : click.payload)
    }
}
