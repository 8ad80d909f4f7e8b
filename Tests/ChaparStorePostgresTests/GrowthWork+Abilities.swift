import ChaparComposition
import ChaparCore
import ChaparQueue
import Foundation

@testable import ChaparStorePostgres

extension GrowthWork {
    /// Every call of search, campaigns, webhooks, audiences and counts over time.
    func useAbilities() async throws {
        try await search()
        try await label()
        try await publish()
        try await send()
        try await countMinutes()
    }

    private func countMinutes() async throws {
        var block = SeriesBlock(.minutes)
        block.add(SeriesCounts(), at: 0)
        let rows = (0..<count).map { SeriesRow(.minutes, start: Int64($0), backend: name, run: 1, block) }
        for _ in 0..<2 { try await store.saveSeries(rows) }
        _ = try await store.series(SeriesLook(of: ["", name], hours: 0..<Int64(count), days: 0..<Int64(count)))
        while try await store.foldSeries(before: Int64(count), removingBefore: 0) {}
        _ = try await store.foldSeries(before: Int64(count), removingBefore: Int64(count))
    }

    private func search() async throws {
        var batch = EnqueueBatch([store.sample(to: people)])
        batch.notifications[0].record.reference = "order \(name)"
        _ = try await store.enqueue(batch)
        let claims = try await claim("apns")
        try await resolve(claims, .end(.failed))
        let keys: [SearchKey] = [.user("\(name)-0"), .device("\(name)-0"), .reference("order \(name)")]
        for source in [SearchLook.Source.all, .keys(keys), .dead] {
            _ = try await store.search(SearchLook(source, limit: count, rows: count)) { _ in true }
        }
        _ = try await store.indexedFrom()
        try await store.mark(claims.map { DeadMark($0.id, isAcknowledged: true) })
        try await store.mark(claims.map { DeadMark($0.id, isResent: true) })
        try await store.mark(claims.map { DeadMark($0.id, isAcknowledged: false) })
    }

    private func label() async throws {
        let labels = [
            AudienceLabel.userTag("vip \(name)"), AudienceLabel.users("buyers \(name)", in: .default),
            AudienceLabel.list("offers", isIn: false),
        ]
        let users = (0..<count).map { LabelChange.Subject.user("\(name)-\($0)") }
        let devices = (0..<count).map { LabelChange.Subject.device("\(name)-\($0)") }
        let testers = AudienceLabel.devices("testers \(name)", in: .default)
        for label in labels { _ = try await store.relabel(users.map { LabelChange($0, added: [label]) }) }
        _ = try await store.relabel(devices.map { LabelChange($0, added: [testers]) })
        _ = try await store.labels(ofUser: "\(name)-0")
        for label in labels + [testers] { _ = try await store.members(of: label, after: nil, limit: count) }
        _ = try await store.labelCounts(in: .default, after: nil, limit: count)
        _ = try await store.subjects((0..<count).map { "\(name)-\($0)" })
        let end = try await store.lastDeviceNumber()
        let rules: [AudienceRule] = [
            .tag("red"), .userTag("vip \(name)"), .all([.tag("red"), .platform("ios")]), .platform("ios"),
        ]
        for rule in rules {
            let plan = try await store.plan(
                Audience(app: .default, rule: rule, services: ["ios-apns"], moment: 0)
            )
            _ = try await store.window(plan, after: 0, through: end, limit: count)
        }
        for label in labels { _ = try await store.relabel(users.map { LabelChange($0, removed: [label]) }) }
        _ = try await store.relabel(devices.map { LabelChange($0, removed: [testers]) })
    }

    private func publish() async throws {
        let hook = StoredWebhook(name: "hook \(name)", app: "", settings: [1])
        _ = try await store.saveWebhook(hook, replacing: nil)
        _ = try await store.webhooks()
        let now = store.time.steady
        func messages(_ state: WebhookMessage.State) -> [WebhookMessage] {
            (0..<count).map {
                WebhookMessage(id: "\(name) \($0)", number: Int64($0), state: state, due: now, record: [1])
            }
        }
        func change(_ kept: [WebhookMessage], removed: [String] = []) async throws {
            let progress = WebhookProgress(cursor: 1, memory: [1])
            _ = try await store.changeWebhook(
                WebhookChange(name: hook.name, holder: name, progress: progress, kept: kept, removed: removed)
            )
        }
        _ = try await store.holdWebhook(hook.name, holder: name, for: .seconds(600))
        try await change(messages(.open))
        _ = try await store.webhookMessages(of: hook.name, .open, at: now + 1, limit: count)
        _ = try await store.firstOpenWebhookMessage(of: hook.name)
        _ = try await store.nextWebhookMessage(of: hook.name)
        _ = try await store.webhookMessage("\(name) 0", of: hook.name)
        try await change(messages(.failed))
        _ = try await store.webhookMessages(of: hook.name, .failed, at: now - 1, limit: count)
        _ = try await store.webhookCounts(of: hook.name)
        _ = try await store.webhookProgress(hook.name)
        try await change([], removed: messages(.failed).prefix(count / 2).map(\.id))
        _ = try await store.purgeWebhookMessages(before: now + 1, limit: count)
        _ = try await store.releaseWebhook(hook.name, holder: name)
        _ = try await store.removeWebhook(hook.name)
    }

    private func send() async throws {
        let now = Date(millisecondsSince1970: store.time.steady.millisecondsSince1970)
        let record = NotificationRecord(content: [1], plans: [DeliveryPlan(["apns"])], acceptedAt: now)
        var campaign = Campaign(
            id: store.makeID(recipients: 1),
            caller: "shop",
            app: .default,
            record: record,
            audience: [1],
            name: name,
            expiresAt: now + 3_600
        )
        var new = EnqueueBatch([])
        new.campaign = .new(campaign)
        _ = try await store.enqueue(new)
        campaign.bound = 1_000_000
        var settled: [Int64] = []
        for window in 0..<3 {
            var part = store.sample(to: people)
            part.record.partOf = campaign.nextPart
            part.event = []
            campaign.count(
                upTo: Int64((window + 1) * count),
                matched: count,
                reached: count,
                enqueued: count,
                skipped: [:]
            )
            var batch = EnqueueBatch([part])
            batch.campaign = .change(campaign, settled: settled)
            _ = try await store.enqueue(batch)
            guard let stored = try await store.campaign(campaign.id) else { throw GrowthFailure() }
            campaign = stored
            settled = [part.id.rawValue]
            try await resolve(try await claim("apns"), .end(.acceptedByPlatform))
        }
        _ = try await store.openCampaigns(limit: count)
        _ = try await store.campaigns(before: nil, limit: count)
        _ = try await store.load(of: campaign.id)
        _ = try await store.counts(of: campaign.id)
        for onlyOpen in [false, true] {
            _ = try await store.parts(of: campaign.id, after: nil, limit: count, onlyOpen: onlyOpen)
        }
        _ = try await store.changeCampaign(campaign.id) { $0.end(.cancelled) }
    }
}

struct GrowthFailure: Error {}
