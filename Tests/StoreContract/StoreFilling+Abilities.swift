import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue

/// Rows of the abilities that a store may have: search, campaigns, webhooks, counts over time and audiences.
extension StoreFilling {
    /// Fills the tables of all abilities that a store has.
    mutating func fillAbilities(_ store: some Store) async throws {
        let abilities = store.abilities
        if let search = abilities.search { try await search.mark(deadMarks) }
        if abilities.campaigns != nil { try await fillCampaigns(store) }
        if let webhooks = abilities.webhooks { try await fillWebhooks(webhooks, now: store.time.steady) }
        if let series = abilities.series { try await series.saveSeries(Self.series) }
        guard let audiences = abilities.audiences else { return }
        _ = try await audiences.relabel([
            LabelChange(
                .user("u1"),
                added: [
                    AudienceLabel.userTag("vip"), AudienceLabel.users("buyers", in: .default),
                    AudienceLabel.list("offers", isIn: false),
                ]
            ),
            LabelChange(.device("d2"), added: [AudienceLabel.devices("testers", in: .default)]),
        ])
    }

    /// Counts of the gateway and of a backend.
    private static var series: [SeriesRow] {
        var counts = SeriesCounts()
        (counts.accepted, counts.handedOver, counts.oldest) = (300, 299, 2)
        return ["", "apns"].enumerated().map { place, backend in
            var block = SeriesBlock(.minutes)
            block.add(counts, at: 59 - place)
            return SeriesRow(.minutes, start: 490_000, backend: backend, run: 7, block)
        }
    }

    private mutating func fillCampaigns(_ store: some Store) async throws {
        let now = Date(millisecondsSince1970: store.time.steady.millisecondsSince1970)
        let record = NotificationRecord(
            content: Array(#"{"title":"Sale"}"#.utf8),
            plans: [DeliveryPlan(["apns"])],
            acceptedAt: now
        )
        let campaign = Campaign(
            id: store.makeID(recipients: 1),
            caller: "shop",
            app: .default,
            record: record,
            audience: Array(#"{"everyone":true}"#.utf8),
            name: "sale",
            expiresAt: now + 3_600
        )
        var new = EnqueueBatch([])
        new.campaign = .new(campaign)
        _ = try await store.enqueue(new)
        var part = NewNotification(
            id: store.makeID(recipients: 2),
            notification: PushNotification(title: .plain("Sale")),
            record: record,
            recipients: [.device("d1"), .device("d2")],
            caller: "shop",
            expiresAt: now + 3_600,
            event: []
        )
        part.record.partOf = campaign.nextPart
        var next = campaign
        next.bound = 1_000
        next.count(upTo: 2, matched: 3, reached: 2, enqueued: 2, skipped: ["excluded": 1])
        var window = EnqueueBatch([part])
        window.campaign = .change(next, settled: [])
        _ = try await store.enqueue(window)
        add(campaign: campaign.id, part: part.id)
    }

    private func fillWebhooks(_ webhooks: any WebhookStore, now: Date) async throws {
        let new = StoredWebhook(name: "hook", app: "", settings: Array(#"{"url":"https://example.com"}"#.utf8))
        _ = try await webhooks.saveWebhook(new, replacing: nil)
        let messages = [
            WebhookMessage(id: "open", number: 1, state: .open, due: now, record: Array(#"{"attempts":1}"#.utf8)),
            WebhookMessage(id: "failed", number: 2, state: .failed, due: now, record: Array("{}".utf8)),
        ]
        let progress = WebhookProgress(cursor: 2, memory: Array(#"{"failures":1}"#.utf8))
        _ = try await webhooks.changeWebhook(
            WebhookChange(name: "hook", holder: nil, progress: progress, kept: messages)
        )
    }

    /// Returns the questions to all abilities that a store has.
    func questionsToAbilities(_ store: some Store) -> [Question] {
        let abilities = store.abilities
        var all: [Question] = []
        if let search = abilities.search {
            let keys: [SearchKey] = [.user("u1"), .device("d1"), .reference("order-1")]
            for source in [SearchLook.Source.all, .keys(keys), .dead] {
                all.append {
                    try await search.search(SearchLook(source)) { _ in true }.found.map {
                        """
                        \(source) \($0.delivery) \($0.notification) \($0.record.reference ?? "") \($0.caller) \
                        \($0.isAcknowledged) \($0.isResent)
                        """
                    }
                }
            }
        }
        if let store = abilities.campaigns {
            all.append { try await store.openCampaigns(limit: 10).map { "\($0)" } }
            all.append { try await store.campaigns(before: nil, limit: 10).map { "\($0)" } }
            for id in campaigns {
                all.append { ["\(String(describing: try await store.campaign(id)))"] }
                all.append { ["\(try await store.load(of: id))"] }
                all.append { ["\(try await store.counts(of: id).map { "\($0.key) \($0.value)" }.sorted())"] }
                all.append { try await store.parts(of: id, after: nil, limit: 10, onlyOpen: false).map { "\($0)" } }
            }
        }
        if let store = abilities.webhooks {
            // Of the revision a copy keeps nothing but the order.
            all.append { try await store.webhooks().map { "\($0.name) \($0.app) \($0.settings)" } }
            all.append { ["\(String(describing: try await store.webhookProgress("hook")))"] }
            for state in [WebhookMessage.State.open, .failed] {
                let moment = state == .open ? Date.distantFuture : .distantPast
                all.append { try await store.webhookMessages(of: "hook", state, at: moment, limit: 9).map { "\($0)" } }
            }
            all.append { ["\(try await store.webhookCounts(of: "hook"))"] }
        }
        if let store = abilities.series {
            all.append {
                try await store.series(SeriesLook(of: ["", "apns"], hours: 0..<1_000_000))
                    .map { "\($0.start) \($0.backend) \($0.run) \($0.block.stored)" }.sorted()
            }
        }
        if let store = abilities.audiences {
            all.append { try await store.labels(ofUser: "u1") }
            all.append { try await store.labelCounts(in: .default, after: nil, limit: 100).map { "\($0)" } }
            for label in [AudienceLabel.userTag("vip"), AudienceLabel.devices("testers", in: .default)] {
                all.append { try await store.members(of: label, after: nil, limit: 10) }
            }
            all.append {
                try await store.subjects(["d1", "d2", "d3"]).sorted { $0.key < $1.key }.map { "\($0.value)" }
            }
        }
        return all
    }
}
