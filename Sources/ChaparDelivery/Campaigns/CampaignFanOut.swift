package import ChaparCore
internal import ChaparQueue
internal import Foundation
package import Logging
internal import Synchronization

/// Turns campaigns into deliveries, a window of the audience at a time.
///
/// Each gateway runs one fan-out. Each window is one commit (``ChaparQueue/CampaignWrite``), which succeeds only if the
/// campaign still has the version that the window was read for. So gateways on one store share the windows. After a
/// crash a window that was not committed is made again: no device is left out, and none gets two deliveries. At most
/// ``mostWaiting`` deliveries of a campaign wait at a time. So the queue stays short, a pause takes effect soon, and
/// memory does not grow with the audience.
package final class CampaignFanOut: Sendable {
    /// The most deliveries of a campaign that wait for their backends.
    package static let mostWaiting = 10_000
    /// The most campaigns that are worked on at a time.
    private static let mostOpen = 1_000
    /// The interval at which campaigns are looked at while there is nothing to do.
    private static let interval = Duration.milliseconds(500)
    /// The shortest pause between two rounds, in seconds.
    private static let shortestPause: TimeInterval = 0.05
    /// The time for which a gateway has a window to itself, in seconds.
    private static let leaseTime: TimeInterval = 30
    /// The longest estimate of an audience that is spread over a span.
    private static let longestEstimate = Duration.seconds(5)
    /// The time for which the sources of an audience are used, in seconds.
    private static let planTime: TimeInterval = 60
    /// The shortest time between two events of progress of a campaign, in seconds.
    private static let eventPause: TimeInterval = 1
    /// The time for which a count of what waits is used, in seconds.
    private static let loadTime: TimeInterval = 1
    /// The number of parts that are settled before that is worth a commit of its own.
    private static let manySettled = 16

    private struct Memory {
        var plans: [NotificationID: (plan: AudiencePlan, at: Date)] = [:]
        var told: [NotificationID: Date] = [:]
        /// The campaigns that cannot be worked on before a time.
        var pauses: [NotificationID: Date] = [:]
        /// The number of deliveries of each campaign that waited when they were last counted.
        var loads: [NotificationID: KnownLoad] = [:]
    }

    /// A count of what waits of a campaign, which stays the most that waits while no other deliveries are made.
    private struct KnownLoad {
        var waiting: Int
        /// The number of deliveries that the campaign had made then.
        var enqueued: Int64
        var at: Date

        /// The most that waits of the campaign as it is now.
        func most(of campaign: Campaign) -> Int {
            waiting.adding(clamping: Int(clamping: campaign.enqueued.subtracting(clamping: enqueued)))
        }
    }

    private let state: GatewayState
    private let campaigns: any CampaignStore
    private let audiences: any AudienceStore
    private let directory: CampaignDirectory
    private let isShared: Bool
    private let bound: Int
    private let decode: @Sendable ([UInt8]) throws -> PushNotification
    private let logger: Logger
    /// The name under which this gateway takes windows.
    private let node: String
    private let memory = Mutex(Memory())
    private let stopped = Atomic(false)

    /// Makes the fan-out; nil where the store has no campaigns or no audiences.
    package init?(
        state: GatewayState,
        bound: Int = CampaignFanOut.mostWaiting,
        logger: Logger,
        decode: @escaping @Sendable ([UInt8]) throws -> PushNotification
    ) {
        let abilities = state.store.abilities
        guard let campaigns = abilities.campaigns, let audiences = state.audiences else { return nil }
        self.state = state
        self.campaigns = campaigns
        self.audiences = audiences
        directory = state.campaigns
        isShared = abilities.nodes != nil
        self.bound = bound
        self.decode = decode
        self.logger = logger
        node = String(UInt64.random(in: .min ... .max), radix: 36)
    }

    /// Works until ``stop()`` or cancellation.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            // Apart from the windows: a pause must be seen while one takes long.
            group.addTask { await self.watch() }
            await self.work()
            group.cancelAll()
        }
    }

    /// Ends ``run()`` after the window that is under way.
    package func stop() {
        stopped.store(true, ordering: .releasing)
        directory.signal.signal()
    }

    private var isStopped: Bool { stopped.load(ordering: .acquiring) || Task.isCancelled }

    /// Keeps what workers know of the campaigns fresh.
    private func watch() async {
        while !isStopped {
            // During an outage workers ask the store themselves, and wait with it.
            if let open = try? await campaigns.openCampaigns(limit: Self.mostOpen) { directory.replace(by: open) }
            guard (try? await state.time.sleep(for: Self.interval)) != nil else { return }
        }
    }

    private func work() async {
        var isFailing = false  // So that an outage of hours is one line.
        while !isStopped {
            let mark = directory.signal.mark
            var pause = Self.interval.inSeconds
            do throws(StoreError) {
                pause = try await round()
                if isFailing { logger.notice("campaigns go on") }
                isFailing = false
            } catch {
                if case .closed = error { return }
                if !isFailing {
                    logger.unlessCancelled?.warning(
                        "campaigns cannot go on, trying again",
                        metadata: ["error": "\(error)"]
                    )
                }
                isFailing = true
            }
            guard !isStopped, pause > 0 else { continue }
            await directory.signal.wait(after: mark, atMost: .seconds(clamping: pause), state.time)
        }
    }

    /// Takes one step of each campaign; returns the seconds until the next round.
    func round() async throws(StoreError) -> TimeInterval {
        let open = try await campaigns.openCampaigns(limit: Self.mostOpen)
        memory.withLock { memory in
            let ids = Set(open.map(\.id))
            memory.plans = memory.plans.filter { ids.contains($0.key) }
            memory.told = memory.told.filter { ids.contains($0.key) }
            memory.pauses = memory.pauses.filter { ids.contains($0.key) }
            memory.loads = memory.loads.filter { ids.contains($0.key) }
        }
        var pause = Self.interval.inSeconds
        for campaign in open {
            guard !isStopped else { return 0 }
            let now = state.time.steady
            if let until = memory.withLock({ $0.pauses[campaign.id] }), now < until { continue }
            do throws(StoreError) {
                if let until = try await step(campaign, at: now) {
                    pause = min(pause, max(Self.shortestPause, until.timeIntervalSince(now)))
                }
            } catch {
                // The others go on: this one's caller may have its share of the queue in use.
                guard let wait = error.retryAfter else { throw error }
                memory.withLock { $0.pauses[campaign.id] = now.addingTimeInterval(wait.inSeconds) }
            }
        }
        return pause
    }

    /// Takes the next step of a campaign; returns when to look at it again, nil for the usual interval.
    private func step(_ campaign: Campaign, at now: Date) async throws(StoreError) -> Date? {
        let load = try await load(of: campaign, at: now)
        var changed = campaign
        switch campaign.next(at: now, node: node, load: load, bound: bound) {
        case .wait(let until):
            if load.settled.count >= Self.manySettled { _ = try await write(campaign, load) }
            return until
        case .window(let most): return try await window(campaign, load, atMost: most, at: now)
        case .nextPass:
            let counts = try await campaigns.counts(of: campaign.id)
            let ended = counts.filter { $0.key.isFinal }.values.reduce(0, +)
            let failed = (counts[.failed] ?? 0) + (counts[.unknown] ?? 0)
            let goesOn = changed.beginNextPass(at: now, failed: failed, of: ended)
            if try await write(changed, load), !goesOn { try await tell(changed, .paused) }
            return now
        case .end(let phase):
            if changed.end(phase) { _ = try await write(changed, load) }
            return now
        case .withdraw:
            try await withdraw(campaign)
            return now.addingTimeInterval(Self.interval.inSeconds)
        case .close:
            changed.close(at: now)
            if try await write(changed, load) { try await tell(changed, .ended) }
            return nil
        }
    }

    /// Returns the load of a campaign: how many of its deliveries wait.
    ///
    /// To count, a store reads the rows of all waiting deliveries. So while windows are made one after the other, the
    /// load is not counted again before ``bound`` may be reached.
    private func load(of campaign: Campaign, at now: Date) async throws(StoreError) -> CampaignLoad {
        if let known = memory.withLock({ $0.loads[campaign.id] }), campaign.isFanningOut,
            now.timeIntervalSince(known.at) < Self.loadTime
        {
            let most = known.most(of: campaign)
            if bound - most >= Campaign.largestWindow { return CampaignLoad(waiting: most) }
        }
        var load = try await campaigns.load(of: campaign.id)
        load.isCounted = true
        memory.withLock {
            $0.loads[campaign.id] = KnownLoad(waiting: load.waiting, enqueued: campaign.enqueued, at: now)
        }
        return load
    }

    /// Cancels what waits of a campaign that was cancelled.
    private func withdraw(_ campaign: Campaign) async throws(StoreError) {
        for part in try await campaigns.parts(of: campaign.id, after: nil, limit: 10_000, onlyOpen: true) {
            guard !isStopped else { return }
            _ = try await state.store.cancel(part.id) { [time = state.time] claim, end in
                EventJSON.delivery(claim, state: end, at: time.now, reason: "cancelled_by_caller")
            }
        }
    }

    /// Reads and writes the next window.
    private func window(
        _ campaign: Campaign,
        _ load: CampaignLoad,
        atMost most: Int,
        at now: Date
    ) async throws(StoreError) -> Date? {
        var campaign = campaign
        guard let target = CampaignTarget(stored: campaign.audience), let notification = content(of: campaign) else {
            logger.error("a campaign cannot be read and is cancelled", metadata: ["campaign": "\(campaign.id)"])
            if campaign.end(.cancelled) { _ = try await write(campaign, load) }
            return now
        }
        if isShared {
            campaign.take(for: node, until: now.addingTimeInterval(Self.leaseTime))
            guard try await write(campaign, CampaignLoad()) else { return now }
            campaign.version = campaign.version.adding(clamping: 1)
        }
        if campaign.bound == nil {
            let highest = try await audiences.lastDeviceNumber()
            campaign.begin(at: now, bound: highest)
        } else {
            campaign.begin(at: now, bound: 0)
        }
        if campaign.pace.over != nil, campaign.expected == nil {
            // Its devices may lie anywhere among the numbers, such as at the end: those of a new tag.
            let counter = AudienceCounter(audiences)
            campaign.expected = try await counter.estimate(target.audience, within: Self.longestEstimate).reached
        }
        let end = campaign.bound ?? 0
        let plan = try await plan(for: target.audience, of: campaign.id, at: now)
        var window = try await CampaignWindow(of: campaign, through: end, atMost: most, plan, audiences)
        guard !isStopped else { return now }
        let snapshot = state.snapshot
        let routing = snapshot.routing(of: campaign.app, within: target.backends)
        let hasReceipts = snapshot.configuration.receipts[campaign.app] != nil
        let refusing = routing.backends(refusing: hasReceipts ? notification.withReceiptSample : notification)
        let parts: CampaignWindow.Parts
        do throws(RoutingTable.Failure) {
            parts = try window.parts(
                of: campaign,
                notification,
                target.choice,
                routing,
                refusing: refusing,
                at: now
            ) { self.state.store.makeID(recipients: $0) }
        } catch {
            // The configuration has lost the name since the campaign was accepted: an operator may bring it back.
            if campaign.pause(true, at: now, reason: "unknown_route"), try await write(campaign, load) {
                try await tell(campaign, .paused)
            }
            return now
        }
        campaign.count(
            upTo: window.cursor,
            matched: parts.reached + window.skipped.values.reduce(0, +),
            reached: parts.reached,
            enqueued: parts.enqueued,
            skipped: window.skipped
        )
        try await commit(campaign, parts.notifications, load, at: now)
        return now
    }

    /// Writes a window: its deliveries, the counters and the cursor in one commit.
    private func commit(
        _ campaign: Campaign,
        _ notifications: [NewNotification],
        _ load: CampaignLoad,
        at now: Date
    ) async throws(StoreError) {
        var notifications = notifications
        let isTold = memory.withLock { memory in
            memory.told[campaign.id].map { now.timeIntervalSince($0) >= Self.eventPause } ?? true
        }
        if isTold, let first = notifications.indices.first {
            notifications[first].event = EventJSON.campaign(campaign, .progress, at: state.time.now)
        }
        var batch = EnqueueBatch(notifications, share: campaign.share)
        batch.campaign = .change(campaign, settled: load.settled)
        // Another result means that the campaign was changed by others: the window is read again, from what it is now.
        guard try await state.store.enqueue(batch) == .accepted, isTold, !notifications.isEmpty else { return }
        memory.withLock { $0.told[campaign.id] = now }
    }

    private func write(_ campaign: Campaign, _ load: CampaignLoad) async throws(StoreError) -> Bool {
        try await state.store.write(campaign, settled: load.settled)
    }

    private func tell(_ campaign: Campaign, _ event: EventJSON.CampaignEvent) async throws(StoreError) {
        directory.note(campaign)
        try await state.store.publish([EventJSON.campaign(campaign, event, at: state.time.now)])
    }

    private func content(of campaign: Campaign) -> PushNotification? { try? decode(campaign.record.content) }

    /// Returns the sources of an audience, chosen anew now and then: tags come and go while a campaign runs.
    private func plan(
        for audience: Audience,
        of id: NotificationID,
        at now: Date
    ) async throws(StoreError) -> AudiencePlan {
        if let known = memory.withLock({ $0.plans[id] }), now.timeIntervalSince(known.at) < Self.planTime {
            return known.plan
        }
        let plan = try await audiences.plan(audience)
        memory.withLock { $0.plans[id] = (plan, now) }
        return plan
    }
}

extension StoreError {
    /// The wait after which a refused write may be tried again; nil for an error of another kind.
    fileprivate var retryAfter: Duration? {
        switch self {
        case .full(_, let wait), .shareFull(_, let wait): wait
        default: nil
        }
    }
}
