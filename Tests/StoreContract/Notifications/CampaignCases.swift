import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting
import Foundation

extension Campaign {
    /// Makes a campaign as the gateway would.
    static func sample(_ store: any NotificationStore, caller: String = "shop") -> Campaign {
        let now = Date(millisecondsSince1970: store.time.steady.millisecondsSince1970)
        return Campaign(
            id: store.makeID(recipients: 1),
            caller: caller,
            app: .default,
            record: NotificationRecord(
                content: Array(#"{"title":"Hello"}"#.utf8),
                plans: [DeliveryPlan([""])],
                acceptedAt: now
            ),
            audience: Array("{}".utf8),
            name: "spring",
            expiresAt: now + 3_600
        )
    }

    /// Returns the part that a window up to a number makes, of devices with the numbers between, and the campaign after
    /// it.
    func window(
        upTo end: Int64,
        skipping skipped: Int = 0,
        _ store: any NotificationStore,
        _ time: ManualTime
    ) -> (campaign: Campaign, part: NewNotification) {
        let recipients = (cursor + 1...end).map { Recipient.device("device-\($0)") }
        var part = NewNotification.sample(store, time, to: recipients, caller: caller)
        part.record.partOf = nextPart
        part.event = []
        var next = self
        if next.bound == nil { next.bound = 1_000 }
        next.count(
            upTo: end,
            matched: recipients.count + skipped,
            reached: recipients.count,
            enqueued: recipients.count,
            skipped: ["excluded": skipped]
        )
        return (next, part)
    }
}

extension EnqueueBatch {
    /// Makes the batch of a window.
    static func window(_ window: (campaign: Campaign, part: NewNotification), settled: [Int64] = []) -> EnqueueBatch {
        var batch = EnqueueBatch([window.part])
        batch.campaign = .change(window.campaign, settled: settled)
        return batch
    }

    /// Makes the batch of a new campaign.
    static func new(_ campaign: Campaign, key: String? = nil) -> EnqueueBatch {
        let entry = key.map { key in
            IdempotencyEntry(
                caller: campaign.caller,
                key: key,
                fingerprint: [1],
                answer: Array(campaign.id.description.utf8),
                keepUntil: campaign.expiresAt
            )
        }
        var batch = EnqueueBatch([], idempotency: entry)
        batch.campaign = .new(campaign)
        return batch
    }
}

extension StoreConformance {
    /// Checks of campaigns: what is accepted is kept, and each window is written once.
    static let campaigns: [StoreConformanceCase] = [
        StoreConformanceCase("A campaign is accepted like any notification, and kept") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            try expect(try await store.enqueue(.new(campaign, key: "k")), is: .accepted, "a new campaign")
            let again = try await store.enqueue(.new(Campaign.sample(store), key: "k"))
            try expect(again, is: .replayed(answer: Array(campaign.id.description.utf8)), "the key again")
            let reopened = try await fixture.reopen(store)
            let campaigns = try reopened.needsCampaigns
            try expect(try await campaigns.campaign(campaign.id), is: campaign, "the campaign")
            try expect(try await campaigns.openCampaigns(limit: 9).map(\.id), is: [campaign.id], "what is open")
            try expect(try await reopened.depths().isEmpty, "no delivery is made by the acceptance")
            let next = reopened.makeID(recipients: 1)
            try expect(next > campaign.id, is: true, "\(next) is given out after the campaign \(campaign.id)")
            await reopened.close()
        },
        StoreConformanceCase("A window's deliveries, counters and cursor are one commit") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            let window = campaign.window(upTo: 3, skipping: 2, store, fixture.time)
            try expect(try await store.enqueue(.window(window)), is: .accepted, "the window")
            let reopened = try await fixture.reopen(store)
            let campaigns = try reopened.needsCampaigns
            guard let found = try await campaigns.campaign(campaign.id) else {
                throw ConformanceFailure("the campaign is gone")
            }
            try expect(found.version, is: 1, "the version")
            try expect(found.cursor, is: 3, "the cursor")
            try expect(found.matched, is: found.reached + found.skipped.values.reduce(0, +), "matched")
            try expect(try await campaigns.load(of: campaign.id).waiting, is: 3, "what waits")
            let counts = try await campaigns.counts(of: campaign.id)
            try expect(counts.values.reduce(0, +), is: 3, "the deliveries")
            let claimed = try await reopened.claimNow()
            try expect(claimed.map(\.recipient), is: (1...3).map { .device("device-\($0)") }, "each device once")
            try expect(claimed.map(\.shownID), is: [campaign.id, campaign.id, campaign.id], "the campaign is shown")
            await reopened.close()
        },
        StoreConformanceCase("A window that two make is written once") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            async let one = store.enqueue(.window(campaign.window(upTo: 4, store, fixture.time)))
            async let other = store.enqueue(.window(campaign.window(upTo: 4, store, fixture.time)))
            let results = try await [one, other]
            try expect(results.count { $0 == .accepted }, is: 1, "one is written")
            try expect(results.count { $0 == .outdated }, is: 1, "the other finds another version")
            try expect(try await store.claimNow().count, is: 4, "each device comes once")
            await store.close()
        },
        StoreConformanceCase("A window that was made before a crash is refused after it was written") { fixture in
            var store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            var known = campaign
            for end in stride(from: Int64(5), through: 20, by: 5) {
                let window = known.window(upTo: end, store, fixture.time)
                try expect(try await store.enqueue(.window(window)), is: .accepted, "the window up to \(end)")
                // The process dies here: the next one reads the campaign, and an owner that slept repeats its window.
                store = try await fixture.reopen(store)
                let stale = known.window(upTo: end, store, fixture.time)
                try expect(try await store.enqueue(.window(stale)), is: .outdated, "the same window again")
                guard let found = try await store.needsCampaigns.campaign(campaign.id) else {
                    throw ConformanceFailure("the campaign is gone")
                }
                known = found
            }
            let claimed = try await store.claimNow()
            try expect(claimed.count, is: 20, "none is left out, none comes twice")
            try expect(Set(claimed.map(\.recipient)).count, is: 20, "and each is another device")
            try expect(Set(claimed.map(\.shownPlace)), is: Set(0..<20), "with its place in the campaign")
            await store.close()
        },
        StoreConformanceCase("A cancellation in between leaves a window unwritten") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            let window = campaign.window(upTo: 3, store, fixture.time)
            let changed = try await store.changeCampaign(campaign.id) { $0.end(.cancelled) }
            try expect(changed?.isChanged, is: true, "the cancellation")
            try expect(try await store.enqueue(.window(window)), is: .outdated, "the window")
            try expect(try await store.claimNow().isEmpty, "nothing is sent")
            let again = try await store.changeCampaign(campaign.id) { $0.end(.cancelled) }
            try expect(again?.isChanged, is: false, "a second one")
            await store.close()
        },
        StoreConformanceCase("A campaign can be changed while the queue is full") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            let window = campaign.window(upTo: 3, store, fixture.time)
            _ = try await store.enqueue(.window(window))
            var batch = EnqueueBatch([], share: 0.000_000_1)
            var changed = window.campaign
            changed.version = 1
            try expect(changed.pause(true, at: store.time.steady), "it pauses")
            batch.campaign = .change(changed, settled: [])
            try expect(try await store.enqueue(batch), is: .accepted, "the pause")
            try expect(try await store.needsCampaigns.campaign(campaign.id)?.isPaused, is: true, "is kept")
            await store.close()
        },
        StoreConformanceCase("Parts of which nothing waits are settled, and their deliveries stay") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            _ = try await store.enqueue(.window(campaign.window(upTo: 2, store, fixture.time)))
            let campaigns = try store.needsCampaigns
            try await store.end(try await store.claimNow())
            let load = try await campaigns.load(of: campaign.id)
            try expect(load.waiting, is: 0, "what waits")
            guard let known = try await campaigns.campaign(campaign.id) else {
                throw ConformanceFailure("the campaign is gone")
            }
            let next = known.window(upTo: 5, store, fixture.time)
            _ = try await store.enqueue(.window(next, settled: load.settled))
            let open = try await campaigns.parts(of: campaign.id, after: nil, limit: 9, onlyOpen: true)
            try expect(open.map(\.id), is: [next.part.id], "the open parts")
            let all = try await store.deliveries(ofCampaign: campaign.id, after: nil, limit: 99)
            try expect(all.map(\.place), is: Array(0..<5), "all deliveries, in order")
            let page = try await store.deliveries(ofCampaign: campaign.id, after: all[1].delivery.id, limit: 2)
            try expect(page.map(\.place), is: [2, 3], "a page of them")
            let counts = try await campaigns.counts(of: campaign.id)
            try expect(counts, is: [.acceptedByPlatform: 2, .queued: 3], "the counts")
            await store.close()
        },
        StoreConformanceCase("What an app reports by number is in the counts, though no attempt was kept") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            _ = try await store.enqueue(.window(campaign.window(upTo: 3, store, fixture.time)))
            let claims = try await store.claimNow()
            try await store.record(
                claims.map { Resolution(delivery: $0.id, transition: .end(.acceptedByPlatform)) }
            )
            let campaigns = try store.needsCampaigns
            let logEntry = Array(#"{"outcome":"receipt"}"#.utf8)
            for (claim, state) in zip(claims, [DeliveryState.delivered, .opened]) {
                let entry = ReceiptEntry(ReceiptAddress(delivery: claim.id), state: state, logEntry: logEntry) { _ in
                    [1]
                }
                let received = try await store.record([entry])
                try expect(received[0].word, is: "recorded", "the answer")
                guard case .recorded(let delivery) = received[0] else { continue }
                try expect(delivery.shownID, is: campaign.id, "the notification that its event names")
            }
            let counts = try await campaigns.counts(of: campaign.id)
            try expect(counts, is: [.acceptedByPlatform: 1, .delivered: 1, .opened: 1], "the counts")
            await store.close()
        },
        StoreConformanceCase("A campaign's deliveries come behind urgent ones") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            _ = try await store.enqueue(.window(campaign.window(upTo: 50, store, fixture.time)))
            let urgent = try await store.accept(.sample(store, fixture.time))
            let first = try await store.claim(backend: "apns", limit: 1, wait: .zero)
            try expect(first.map(\.notificationID), is: [urgent], "the first claim")
            await store.close()
        },
        StoreConformanceCase("A campaign that was over long ago is removed") { fixture in
            let store = try await fixture.open()
            let campaign = Campaign.sample(store)
            _ = try await store.enqueue(.new(campaign))
            let running = Campaign.sample(store)
            _ = try await store.enqueue(.new(running))
            _ = try await store.changeCampaign(campaign.id) { campaign in
                campaign.close(at: store.time.steady)
                return true
            }
            fixture.time.advance(by: .seconds(100))
            let moment = store.time.steady - 50
            while try await store.purge(Retention(notifications: moment, events: moment)) {}
            let campaigns = try store.needsCampaigns
            try expect(try await campaigns.campaign(campaign.id) == nil, "the one that is over")
            try expect(try await campaigns.campaign(running.id) != nil, "the one that runs")
            await store.close()
        },
    ]
}

extension NotificationStore {
    /// The campaigns of a store that must have them.
    var needsCampaigns: any CampaignStore {
        get throws {
            guard let campaigns = abilities.campaigns else { throw ConformanceFailure("the store has no campaigns") }
            return campaigns
        }
    }
}
