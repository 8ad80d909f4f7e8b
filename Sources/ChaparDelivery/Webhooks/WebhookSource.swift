internal import Foundation
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue

/// The events of an endpoint, made from the events of the log by the endpoint's filter and app; it adds the ends of
/// notifications.
///
/// Used by one worker.
struct WebhookSource {
    /// The most notifications whose open deliveries are counted.
    private static let maximumNotifications = 10_000
    /// The longest distance of the first event from the last that one read covers.
    private static let longestRead: Int64 = 512

    let tools: WebhookTools
    let filter: WebhookFilter
    /// The app whose events it gets; nil for all.
    let app: AppName?
    /// The number of ends to see before a notification is looked up again; 0 once its end was found.
    private var open: [NotificationID: Int] = [:]

    init(_ tools: WebhookTools, _ filter: WebhookFilter, app: AppName?) {
        self.tools = tools
        self.filter = filter
        self.app = app
    }

    /// Forgets the notifications whose end was found, to find them again.
    mutating func forget() { open.removeAll() }

    /// Returns the events that the endpoint gets for one of the log: none, the event, the end of its notification, or
    /// both.
    mutating func events(of event: StoredEvent) async throws(StoreError) -> [WebhookEvent] {
        if WebhookEvent.endsCampaign(event.json) {
            guard filter.matches(.finished), let object = WebhookEvent.object(of: event) else { return [] }
            let own = try await owner(of: object)
            guard app == nil || own == app, let ended = try await end(of: object, at: event, own) else { return [] }
            return [ended]
        }
        guard let type = WebhookEvent.type(of: event.json) else { return [] }
        let mayEnd = type.mayEndDelivery && filter.matches(.finished)
        guard filter.matches(type) || mayEnd, let object = WebhookEvent.object(of: event) else { return [] }
        let own = Self.app(of: object, tools)
        guard app == nil || own == app else { return [] }
        var found: [WebhookEvent] = []
        if filter.matches(type), let made = WebhookEvent(event, object, type: type, app: own) { found.append(made) }
        if mayEnd, let ended = try await end(event, object, own, isReport: type.isReport) { found.append(ended) }
        return found
    }

    /// Returns the events of a message, as they are in the log now; those that were removed are missing.
    func events(of items: [Int64]) async throws(StoreError) -> [WebhookEvent] {
        var stored: [Int64: StoredEvent] = [:]
        let numbers = items.map { Int64(clamping: $0.magnitude) }
        guard let first = numbers.min(), let last = numbers.max() else { return [] }
        let distance = last.subtracting(clamping: first)
        if distance < Self.longestRead {
            let read = try await tools.state.store.events(
                after: first.subtracting(clamping: 1),
                limit: Int(clamping: distance) + 1,
                wait: .zero
            )
            for event in read { stored[event.number] = event }
        } else {
            for number in numbers {
                let event = try await tools.state.store.events(
                    after: number.subtracting(clamping: 1),
                    limit: 1,
                    wait: .zero
                )
                .first
                if let event, event.number == number { stored[number] = event }
            }
        }
        var found: [WebhookEvent] = []
        for item in items {
            guard let event = stored[Int64(clamping: item.magnitude)], let object = WebhookEvent.object(of: event)
            else {
                continue
            }
            let own = try await owner(of: object)
            if item < 0 {
                if let made = try await end(of: object, at: event, own) { found.append(made) }
            } else if let type = WebhookEvent.type(of: event.json),
                let made = WebhookEvent(event, object, type: type, app: own)
            {
                found.append(made)
            }
        }
        return found
    }

    /// Returns the end of a notification when this is the end of its last delivery.
    ///
    /// A notification with open deliveries is read again only after as many of its deliveries have ended as were open:
    /// no earlier end can be the last.
    private mutating func end(
        _ event: StoredEvent,
        _ object: JSONObject,
        _ own: AppName?,
        isReport: Bool
    ) async throws(StoreError) -> WebhookEvent? {
        guard let id = Self.notification(object) else { return nil }
        if let left = open[id] {
            guard left > 0 else { return nil }
            open[id] = left - 1
            guard left == 1 else { return nil }
        }
        guard let notification = try await tools.state.store.notification(id) else { return nil }
        let waitsForReports = notification.record.plans.contains { $0.escalation != nil }
        // Any other delivery had ended before its report.
        guard !isReport || waitsForReports else { return nil }
        let waiting = notification.counts.reduce(0) { $1.key.isFinal ? $0 : $0 + $1.value }
        let recipients = notification.counts.reduce(0) { $0 + $1.value }
        // Others have no further event that may be their end.
        if recipients > 1 || waitsForReports {
            if open.count >= Self.maximumNotifications { open.removeAll() }
            open[id] = waiting
        }
        // A campaign may still make deliveries, and has its own event for its end.
        guard waiting == 0, try await campaign(id) == nil else { return nil }
        return WebhookEvent(event, object, ending: notification, app: own)
    }

    /// Returns the end of the notification that an event names.
    private func end(
        of object: JSONObject,
        at event: StoredEvent,
        _ own: AppName?
    ) async throws(StoreError) -> WebhookEvent? {
        guard let id = Self.notification(object) else { return nil }
        var ended = try await tools.state.store.notification(id)
        if ended == nil, let campaigns = tools.state.store.abilities.campaigns,
            let campaign = try await campaigns.campaign(id)
        {
            ended = StoredNotification(
                id: id,
                record: campaign.record,
                caller: campaign.caller,
                dueAt: campaign.dueAt,
                expiresAt: campaign.expiresAt,
                counts: try await campaigns.counts(of: id)
            )
        }
        guard let ended else { return nil }
        return WebhookEvent(event, object, ending: ended, app: own)
    }

    private func campaign(_ id: NotificationID) async throws(StoreError) -> Campaign? {
        try await tools.state.store.abilities.campaigns?.campaign(id)
    }

    /// Returns the app of an event: that of its backend, or of the campaign whose end it is.
    private func owner(of object: JSONObject) async throws(StoreError) -> AppName? {
        if let own = Self.app(of: object, tools) { return own }
        guard object["backend"] == nil, let id = Self.notification(object) else { return nil }
        return try await campaign(id)?.app
    }

    private static func notification(_ object: JSONObject) -> NotificationID? {
        object["notification"]?.stringValue.flatMap { NotificationID($0) }
    }

    /// Returns the app of an event: that of its backend, which the configuration must still have.
    private static func app(of object: JSONObject, _ tools: WebhookTools) -> AppName? {
        object["backend"]?.stringValue.flatMap { tools.state.snapshot.app(ofBackend: $0) }
    }
}
