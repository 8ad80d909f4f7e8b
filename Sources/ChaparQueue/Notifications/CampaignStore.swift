public import ChaparCore

/// A change of a campaign that a store writes with the notifications of its batch, all in one commit.
///
/// It is indirect, since a campaign is large: every batch has room for one, and few have one.
public indirect enum CampaignWrite: Sendable {
    /// A campaign that is accepted.
    case new(Campaign)
    /// The new value of a campaign, with the version that it was made from, and the campaign's parts in which no
    /// delivery waits any more.
    ///
    /// If the stored campaign has another version by then, nothing of the batch is written, and the result is
    /// ``EnqueueResult/outdated``. The notifications of the batch become parts of the campaign.
    case change(Campaign, settled: [Int64])
}

/// The campaigns of a store, which also has their deliveries.
///
/// ``NotificationStore/enqueue(_:)`` writes them (``EnqueueBatch/campaign``); this protocol reads them. In a store
/// without campaigns ``StoreAbilities/campaigns`` is nil, and the gateway refuses messages to audiences.
public protocol CampaignStore: Sendable {
    /// Returns a campaign; nil when there is none.
    func campaign(_ id: NotificationID) async throws(StoreError) -> Campaign?

    /// Returns the campaigns that are not over (``Campaign/endedAt``), the oldest first.
    ///
    /// It must cost little where there are no campaigns, since the gateway calls it again and again.
    func openCampaigns(limit: Int) async throws(StoreError) -> [Campaign]

    /// Returns campaigns with an id below `before`, the newest first.
    func campaigns(before: NotificationID?, limit: Int) async throws(StoreError) -> [Campaign]

    /// Returns how many deliveries of a campaign wait.
    ///
    /// It reads only parts that are not settled, so its cost does not grow with the campaign.
    func load(of id: NotificationID) async throws(StoreError) -> CampaignLoad

    /// Returns the notifications of a campaign that have deliveries with a number above `after`, in the order of their
    /// numbers; with `onlyOpen` only notifications in which a delivery may wait.
    func parts(of id: NotificationID, after: Int64?, limit: Int, onlyOpen: Bool) async throws(StoreError)
        -> [StoredPart]

    /// Returns the number of a campaign's deliveries in each state.
    func counts(of id: NotificationID) async throws(StoreError) -> [DeliveryState: Int]
}

/// A notification that a window of a campaign made.
public struct StoredPart: Sendable, Hashable {
    /// The notification.
    public var id: NotificationID
    /// The place of its first delivery among those of the campaign.
    public var place: Int64
    /// The number of its deliveries.
    public var count: Int

    /// Makes a part.
    public init(id: NotificationID, place: Int64, count: Int) { (self.id, self.place, self.count) = (id, place, count) }
}

/// A delivery of a campaign.
public struct CampaignDelivery: Sendable {
    /// The delivery.
    public var delivery: StoredDelivery
    /// Its place among those of the campaign.
    public var place: Int64

    /// Makes a value.
    public init(_ delivery: StoredDelivery, place: Int64) { (self.delivery, self.place) = (delivery, place) }
}

extension NotificationStore {
    /// Returns deliveries of a campaign in the order of their numbers, those with a number above `after`, and the place
    /// of each among the campaign's.
    package func deliveries(
        ofCampaign id: NotificationID,
        after: Int64?,
        limit: Int
    ) async throws(StoreError) -> [CampaignDelivery] {
        guard let campaigns = abilities.campaigns else { return [] }
        var (found, after): ([CampaignDelivery], Int64?) = ([], after)
        while found.count < limit {
            let parts = try await campaigns.parts(of: id, after: after, limit: 64, onlyOpen: false)
            for part in parts where found.count < limit {
                for delivery in try await deliveries(of: part.id, after: after, limit: limit - found.count) {
                    let place = part.place.adding(clamping: part.id.place(of: delivery.id))
                    found.append(CampaignDelivery(delivery, place: place))
                }
                if found.count < limit { after = part.id.delivery(at: part.count - 1) }
            }
            guard parts.count == 64 else { break }
        }
        return found
    }

    /// Writes a change of a campaign; returns false when it has changed since it was read.
    package func write(_ campaign: Campaign, settled: [Int64] = []) async throws(StoreError) -> Bool {
        var batch = EnqueueBatch([])
        batch.campaign = .change(campaign, settled: settled)
        return try await enqueue(batch) == .accepted
    }

    /// Changes the stored value of a campaign by `change`, which returns whether it changed anything.
    ///
    /// `change` may be called more than once.
    ///
    /// - Returns: The current value of the campaign, and whether it was changed; nil when there is no such campaign.
    package func changeCampaign(
        _ id: NotificationID,
        _ change: (inout Campaign) -> Bool
    ) async throws(StoreError) -> (campaign: Campaign, isChanged: Bool)? {
        for _ in 0..<50 {
            guard var campaign = try await abilities.campaigns?.campaign(id) else { return nil }
            guard change(&campaign) else { return (campaign, false) }
            // A window may have been written in between.
            if try await write(campaign) { return (campaign, true) }
        }
        throw .failed("the campaign \(id) is changed by others all the time")
    }
}
