internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue
internal import Foundation

/// A window of a campaign's audience as it was read: the devices that get the message, and the counts of the others.
struct CampaignWindow {
    /// The most candidates that one read of a window evaluates.
    static let candidates = 5_000
    /// The fewest candidates that one read asks for.
    private static let fewestCandidates = 64
    /// The most candidates of a window: then it is written, however few it has, so that no commit is far away.
    static let mostCandidates = 20_000

    /// The devices.
    private(set) var devices: [AudienceSubject] = []
    /// The number of matched devices that get no message, by cause.
    private(set) var skipped: [String: Int] = [:]
    /// The number of the last device that it covers.
    private(set) var cursor: Int64

    /// Reads the window of a campaign that begins after its cursor, with at most `most` devices.
    ///
    /// With waves, a device is in the windows of one pass only, and is counted in that pass, whether it is skipped or
    /// not. A later change, such as a token that the platform refuses after the wave, does not count it a second time.
    init(
        of campaign: Campaign,
        through bound: Int64,
        atMost most: Int,
        _ plan: AudiencePlan,
        _ audiences: any AudienceStore
    ) async throws(StoreError) {
        cursor = campaign.cursor
        let pass = Int(clamping: campaign.pass)
        var plan = plan
        plan.isForSends = true
        plan.wave = campaign.pace.waves.isEmpty ? nil : campaign.pace.buckets(ofPass: pass)
        var candidates = 0
        while devices.count < most, cursor < bound, candidates < Self.mostCandidates, !Task.isCancelled {
            let room = most - devices.count
            // As many as would fill the window if the others match as often as those before; at first, if all match.
            let limit = candidates == 0 ? room : room * candidates / max(devices.count, 1)
            let asked = min(max(limit, Self.fewestCandidates), Self.candidates)
            var end = bound
            var part = try await audiences.window(plan, after: cursor, through: end, limit: asked)
            if part.devices.count > room {
                // The counts belong to the numbers that were read: those up to the last device are read again.
                end = part.devices[room - 1].number
                part = try await audiences.window(plan, after: cursor, through: end, limit: asked)
            }
            devices += part.devices
            for (cause, count) in part.skipped { skipped[cause.rawValue, default: 0] += count }
            candidates += max(part.rowsRead, 1)
            let next = part.isOver ? end : part.cursor
            guard next > cursor else { break }
            cursor = next
        }
    }

    /// Counts a device that no backend can be found for.
    private mutating func skip(_ cause: String) { skipped[cause, default: 0] += 1 }

    /// The notifications of the window: one, or more where its devices need very many plans.
    struct Parts {
        var notifications: [NewNotification] = []
        /// The number of devices that get the message.
        var reached = 0
        /// The number of deliveries.
        var enqueued = 0
    }

    /// Makes the notifications of the window, which have a plan for each device.
    ///
    /// A device without a plan counts as skipped, and so does a device that is reached only by the backends in
    /// `refusing`, which would refuse the message.
    ///
    /// - Throws: The name of a route or a backend that the configuration no longer has.
    mutating func parts(
        of campaign: Campaign,
        _ notification: PushNotification,
        _ choice: RoutingTable.Choice,
        _ routing: RoutingTable,
        refusing: Set<String>,
        at now: Date,
        makeID: (Int) -> NotificationID
    ) throws(RoutingTable.Failure) -> Parts {
        let uses = TokenUses(notification, routing.order)
        var parts = Parts()
        var open = Open()
        for subject in devices {
            let found: RoutingTable.Routing
            switch try routing.reach(of: subject.device, choice, uses, refusing: refusing) {
            case .reached(let routing): found = routing
            case .skipped(let cause):
                skip(cause.rawValue)
                continue
            }
            if !open.hasRoom(for: found) {
                parts.add(&open, campaign, notification, now, makeID)
            }
            open.add(subject.device, found)
            parts.reached += 1
        }
        parts.add(&open, campaign, notification, now, makeID)
        return parts
    }
}

/// The recipients of the next notification of a window, with their plans.
private struct Open {
    private static let mostPlans = 255

    private(set) var recipients: [Recipient] = []
    /// The user of each recipient, by whom a search finds it.
    private(set) var users: [String?] = []
    private(set) var planOf: [UInt8] = []
    private(set) var plans: [DeliveryPlan] = []

    /// Whether a device's plans fit beside those that are here.
    func hasRoom(for found: RoutingTable.Routing) -> Bool {
        plans.count + (found.isFanOut ? found.plan.backends.count : 1) <= Self.mostPlans
    }

    mutating func add(_ device: Device, _ found: RoutingTable.Routing) {
        for plan in found.plan.parts {
            let place = plans.firstIndex(of: plan) ?? plans.count
            if place == plans.count { plans.append(plan) }
            recipients.append(.device(device.id))
            users.append(device.user)
            planOf.append(UInt8(clamping: place))
        }
    }
}

extension CampaignWindow.Parts {
    /// Adds the notification of the recipients that are open, if there are any.
    fileprivate mutating func add(
        _ open: inout Open,
        _ campaign: Campaign,
        _ notification: PushNotification,
        _ now: Date,
        _ makeID: (Int) -> NotificationID
    ) {
        guard !open.recipients.isEmpty else { return }
        var record = campaign.record
        record.plans = open.plans
        record.acceptedAt = Date(millisecondsSince1970: now.millisecondsSince1970)
        record.partOf = CampaignPart(
            campaign: campaign.id.rawValue,
            first: campaign.enqueued.adding(clamping: Int64(enqueued)),
            keepsAll: campaign.keepsAll
        )
        var new = NewNotification(
            id: makeID(open.recipients.count),
            notification: notification,
            record: record,
            recipients: open.recipients,
            planOf: open.plans.count > 1 ? open.planOf : [],
            caller: campaign.caller,
            expiresAt: campaign.expiresAt,
            collapseID: campaign.collapseID,
            event: []
        )
        if open.users.contains(where: { $0 != nil }) { new.users = open.users }
        notifications.append(new)
        enqueued += open.recipients.count
        open = Open()
    }
}
