import Foundation
import ChaparCore
import Synchronization

/// The model platform's abilities beside taking messages.
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

    func read(_ click: ReportedClick) async throws(PushError) -> ClickResult {
        ClickResult(receipt: nil, notification: has(.readsNoClicks) ? JSONObject() : click.payload)
    }
}

extension ModelBackend: CustomEventReporter, MessageRecaller, MessageRevoker, TopicManager, ChannelManager,
    TokenDirectory
{
    func recall(_ ids: [String]?, from user: String) async throws(PushError) -> Bool {
        if !has(.recallsNothing) { try platform.request { _ in } }
        return true
    }

    func report(_ event: CustomEvent, of device: DeviceRecord, as attempt: OutboxAttempt) async throws(PushError)
        -> JSONObject
    {
        if !has(.ignoresCustomEvents) { try platform.request { _ in } }
        return JSONObject()
    }

    var revocationLimit: Int { 10 }

    func revoke(_ trackingID: String, from tokens: [DeviceToken]) async throws(PushError) -> Bool {
        if !has(.revokesNothing) { try platform.request { _ in } }
        return true
    }

    var services: [TokenService] { [Self.own] }
    var importedService: TokenService { .iOSFirebase }

    func subscribe(_ tokens: [DeviceToken], to topic: String) async throws(PushError) -> [TokenOutcome] {
        guard !topic.contains(" ") else { throw PushError(.invalidRequest, "no name") }
        try platform.request { $0.topics[topic, default: []] += has(.joinsNothing) ? [] : tokens }
        return tokens.map { _ in .done }
    }

    func unsubscribe(_ tokens: [DeviceToken], from topic: String) async throws(PushError) -> [TokenOutcome] {
        if !has(.staysInTopics) {
            try platform.request { state in
                state.topics[topic] = state.topics[topic]?.filter { !tokens.contains($0) }
            }
        }
        return tokens.map { _ in .done }
    }

    func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]? {
        try platform.request { state in
            state.topics.filter { $0.value.contains(token) }.map { TopicMembership(name: $0.key) }
        }
    }

    func create(storage: ChannelStorage) async throws(PushError) -> String {
        try platform.request { state in
            let id = "channel-\(state.requests)"
            state.channels[id] = storage
            return id
        }
    }

    func read(_ id: String) async throws(PushError) -> ChannelStorage? {
        try platform.request { $0.channels[id] }
    }

    func delete(_ id: String) async throws(PushError) -> Bool {
        if has(.keepsDeletedChannels) { return true }
        return try platform.request { $0.channels.removeValue(forKey: id) != nil }
    }

    func list() async throws(PushError) -> [String] {
        try platform.request { Array($0.channels.keys) }
    }

    func details(of token: DeviceToken) async throws(PushError) -> TokenDetails? {
        guard token.value.hasPrefix("token-") || has(.knowsAnyToken) else { return nil }
        return TokenDetails(application: "com.example.app")
    }

    func importTokens(
        _ tokens: [DeviceToken],
        application: String,
        environment: TokenEnvironment
    ) async -> [TokenImport] {
        tokens.map { .imported(DeviceToken("token-" + $0.value, service: Self.own)) }
    }
}
