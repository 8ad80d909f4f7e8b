public import ChaparCore
public import Foundation

/// A notification whose recipients are an audience: its accepted content, and how many of its deliveries are made.
///
/// The gateway decides what happens to it (`next`). A store keeps it as one value with a ``version``, and accepts a
/// change only if it was made from the stored version. The deliveries, the counters and the cursor of a window are one
/// commit (``CampaignWrite``). So a window that was not committed leaves no trace, and none is written twice, even if
/// several nodes try.
public struct Campaign: Sendable, Hashable {
    /// The phase of a campaign.
    public enum Phase: Int64, Sendable, Hashable, CaseIterable {
        /// It goes through its audience, or has deliveries that have not ended.
        case running = 0
        /// It has gone through its audience, and every delivery has ended.
        case finished = 1
        /// It was cancelled.
        case cancelled = 2
        /// Its time to live ended before it had gone through its audience.
        case expired = 3

        /// The word for it in the API.
        public var word: String {
            switch self {
            case .running: "running"
            case .finished: "finished"
            case .cancelled: "cancelled"
            case .expired: "expired"
            }
        }
    }

    /// A node that has taken the next window.
    public struct Lease: Sendable, Hashable {
        /// The node's name for this run.
        public var node: String
        /// The steady time at which another one may take it.
        public var until: Date

        /// Makes a lease.
        public init(node: String, until: Date) { (self.node, self.until) = (node, until) }
    }

    /// Its id, that of the notification.
    public var id: NotificationID
    /// The number of its changes so far; a store raises it with each.
    public var version: Int64 = 0
    /// The sender: the API key's name, empty without one.
    public var caller: String
    /// The app whose registry has the audience.
    public var app: AppName
    /// The fields that the notifications of all windows share: content, metadata, time of acceptance.
    ///
    /// The plans in it are not used: each window finds the plans of its devices.
    public var record: NotificationRecord
    /// The audience, and what decides its deliveries' plans, in a form that only the gateway reads.
    public var audience: [UInt8]
    /// Its name; nil without one.
    public var name: String?
    /// Whether attempts and events of accepted deliveries are kept too; else only those of failures.
    public var keepsAll = false
    /// The largest share of the store's waiting deliveries that may be its caller's.
    public var share: Double = 1
    /// The collapse id of its deliveries.
    public var collapseID: String?
    /// The scheduled time; nil for at once.
    public var dueAt: Date?
    /// The time after which nothing more is tried.
    public var expiresAt: Date
    /// How fast it goes.
    public var pace: CampaignPace
    /// The deliveries that its pace allows now; nil before it has begun.
    public var credit: PaceCredit?
    /// Its phase.
    public var phase = Phase.running
    /// The time when it was over and none of its deliveries waited any more; nil before.
    public var endedAt: Date?
    /// Whether it is paused.
    public var isPaused = false
    /// The time of the last change of ``isPaused``.
    public var pausedAt: Date?
    /// The reason why it paused itself, kept until its next pass begins; nil when a caller paused it last.
    public var pauseReason: String?
    /// The number of the pass over the audience, from 0 on; more than one only with waves.
    public var pass: Int64 = 0
    /// The time before which the pass does not begin.
    public var passAt: Date?
    /// The number of the last device that a window of this pass covered.
    public var cursor: Int64 = 0
    /// The highest number of a device when the campaign began; nil before it begins.
    ///
    /// Devices that were registered later are not in the audience.
    public var bound: Int64?
    /// About how many devices get it in all, estimated when ``CampaignPace/over`` first asks for it; nil before.
    package var expected: Int64?
    /// The number of windows.
    public var windows: Int64 = 0
    /// The number of devices that its rule matched.
    public var matched: Int64 = 0
    /// The number of these to which a delivery was made.
    public var reached: Int64 = 0
    /// The number of deliveries that were made: more than ``reached`` where a route fans out.
    public var enqueued: Int64 = 0
    /// The number of matched devices without a delivery, by cause.
    public var skipped: [String: Int64] = [:]
    /// The node that works on it.
    public var lease: Lease?
    /// The fields that this program does not know.
    var unknown: [UInt8] = []

    /// Makes a campaign that has not begun.
    public init(
        id: NotificationID,
        caller: String,
        app: AppName,
        record: NotificationRecord,
        audience: [UInt8],
        name: String? = nil,
        dueAt: Date? = nil,
        expiresAt: Date,
        pace: CampaignPace = CampaignPace()
    ) {
        self.id = id
        self.caller = caller
        self.app = app
        self.record = record
        self.audience = audience
        self.name = name
        self.dueAt = dueAt
        self.expiresAt = expiresAt
        self.pace = pace
    }

    /// Whether every window of every pass is written.
    public var isWhole: Bool {
        guard let bound else { return false }
        return cursor >= bound && pass.adding(clamping: 1) >= Int64(pace.passes)
    }

    /// Whether a window may still be written.
    package var isOpen: Bool { phase == .running && !isWhole }

    /// The share of the audience's numbers that windows have covered, from 0 to 1.
    public var progress: Double {
        guard let bound else { return 0 }
        let pass = bound <= 0 ? 1 : min(1, Double(cursor) / Double(bound))
        return min(1, (Double(self.pass) + pass) / Double(pace.passes))
    }
}

/// The deliveries of a campaign that wait.
public struct CampaignLoad: Sendable, Hashable {
    /// The deliveries that have not ended.
    public var waiting: Int
    /// The parts of which nothing waits any more, by the number of the notification.
    public var settled: [Int64]
    /// Whether a store counted it now; else ``waiting`` is the most that can wait.
    package var isCounted = false

    /// Makes a load.
    public init(waiting: Int = 0, settled: [Int64] = []) { (self.waiting, self.settled) = (waiting, settled) }
}

// MARK: Decisions

/// The next thing to do about a campaign.
package enum CampaignStep: Sendable, Hashable {
    /// Nothing before a time, or before it changes.
    case wait(until: Date?)
    /// To write the next window, of at most so many devices.
    case window(atMost: Int)
    /// To begin the next pass, or to pause by the stop rule, which needs the counts of its ended deliveries.
    case nextPass
    /// To end it in a phase; what waits of it is cancelled or left to its own expiry.
    case end(Campaign.Phase)
    /// To end what waits of a campaign that was cancelled.
    case withdraw
    /// To note that nothing of it waits any more.
    case close
}

extension Campaign {
    /// The most deliveries of a window, before a route's fan-out: its commit keeps urgent messages waiting.
    package static let largestWindow = 500
    /// The fewest devices for which a window is worth while, unless the pace gives fewer.
    static let smallestWindow = 250
    /// The time after which a campaign of which much waits is looked at again, in seconds.
    static let pauseWhileFull = 0.1
    /// The same time where what waits was counted, which is work that grows with it.
    static let pauseAfterCount = 0.2
    /// The most devices of the first window of a campaign that is spread: its density is not known yet.
    static let firstSpread = 100

    /// The deliveries a second that the pace allows now; nil for no limit.
    package var rate: Double? {
        var rates: [Double] = []
        if let perMinute = pace.perMinute { rates.append(perMinute / 60) }
        if let over = pace.over {
            let left = Double(over) - (credit?.spread ?? 0)
            rates.append(left > 0 ? expectedRest / left : max(expectedRest, 1))
        }
        return rates.min()
    }

    /// About how many deliveries are still to be made: computed from the estimate, or, once more deliveries than
    /// estimated were made, from the share of matched devices so far.
    private var expectedRest: Double {
        guard let bound else { return 1 }
        if let expected, expected > reached {
            let fanOut = reached > 0 ? max(1, Double(enqueued) / Double(reached)) : 1
            return Double(expected.subtracting(clamping: reached)) * fanOut
        }
        guard cursor > 0 else { return Double(Self.firstSpread) }
        let density = Double(max(enqueued, 1)) / Double(cursor)
        return max(1, density * Double(max(0, bound.subtracting(clamping: cursor))))
    }

    /// Whether it makes deliveries now, unless its pace or a node's lease lets it wait.
    package var isFanningOut: Bool {
        guard phase == .running, endedAt == nil, !isPaused, let bound else { return false }
        return cursor < bound
    }

    /// Decides about a campaign of which `load` waits, at a node; `bound` is the most deliveries that may wait.
    package func next(at now: Date, node: String, load: CampaignLoad, bound: Int) -> CampaignStep {
        guard endedAt == nil else { return .wait(until: nil) }
        if phase == .cancelled { return load.waiting > 0 ? .withdraw : .close }
        if phase != .running || isWhole { return load.waiting > 0 ? .wait(until: nil) : .close }
        if now >= expiresAt { return .end(.expired) }
        if let lease, lease.node != node, now < lease.until { return .wait(until: lease.until) }
        if isPaused { return .wait(until: nil) }
        if let dueAt, now < dueAt { return .wait(until: dueAt) }
        if let bound = self.bound, cursor >= bound { return load.waiting > 0 ? .wait(until: nil) : .nextPass }
        if let passAt, now < passAt { return .wait(until: passAt) }
        let room = bound - load.waiting
        // With room for several windows, those after the first need no count of their own.
        let least = load.isCounted ? bound / 4 : min(Self.smallestWindow, bound)
        guard room >= least else {
            return .wait(until: now + (load.isCounted ? Self.pauseAfterCount : Self.pauseWhileFull))
        }
        var most = min(Self.largestWindow, room)
        if let rate {
            var credit = credit ?? PaceCredit(at: now)
            credit.advance(to: now, rate: rate)
            guard credit.whole > 0 else { return .wait(until: now + credit.wait(rate: rate)) }
            most = min(most, credit.whole)
            if pace.over != nil, cursor == 0 { most = min(most, Self.firstSpread) }
        }
        return .window(atMost: most)
    }

    /// Begins the campaign, or goes on: fixes the bound of its audience, and counts what its pace has made due.
    package mutating func begin(at now: Date, bound highest: Int64) {
        if bound == nil { bound = highest }
        guard pace.limitsRate else { return }
        let rate = rate ?? 0
        if credit == nil { credit = PaceCredit(at: now) } else { credit?.advance(to: now, rate: rate) }
    }

    /// Counts a window that covered the numbers up to `end`.
    package mutating func count(
        upTo end: Int64,
        matched: Int,
        reached: Int,
        enqueued: Int,
        skipped more: [String: Int]
    ) {
        cursor = max(cursor, end)
        windows = windows.adding(clamping: 1)
        self.matched = self.matched.adding(clamping: Int64(matched))
        self.reached = self.reached.adding(clamping: Int64(reached))
        self.enqueued = self.enqueued.adding(clamping: Int64(enqueued))
        for (cause, count) in more where count > 0 {
            skipped[cause] = (skipped[cause] ?? 0).adding(clamping: Int64(count))
        }
        credit?.amount -= Double(enqueued)
        lease = nil
    }

    /// Pauses it, or lets it go on; returns false when it is over, or already so.
    package mutating func pause(_ pauses: Bool, at now: Date, reason: String? = nil) -> Bool {
        guard endedAt == nil, phase == .running, isPaused != pauses else { return false }
        setCredit(at: now)
        isPaused = pauses
        pausedAt = now
        // Once a caller lets it go on, the stop rule is not asked again before the next pass.
        pauseReason = pauses ? reason : pauseReason
        lease = nil
        // The time of a pause makes nothing due.
        if !pauses { credit?.at = now }
        return true
    }

    /// Changes its pace; returns false when it is over.
    package mutating func change(pace new: CampaignPace, at now: Date) -> Bool {
        guard endedAt == nil, isOpen else { return false }
        setCredit(at: now)
        if pace.over != new.over { credit?.spread = 0 }
        pace = new
        lease = nil
        return true
    }

    /// Counts what has become due under the pace in force, before that changes.
    private mutating func setCredit(at now: Date) {
        guard !isPaused, let rate else { return }
        credit?.advance(to: now, rate: rate)
    }

    /// Ends it in a phase; returns false when it is over.
    package mutating func end(_ phase: Phase) -> Bool {
        guard endedAt == nil, self.phase == .running else { return false }
        self.phase = phase
        isPaused = false
        lease = nil
        return true
    }

    /// Notes that nothing of it waits.
    package mutating func close(at now: Date) {
        if phase == .running { phase = .finished }
        endedAt = now
        isPaused = false
        lease = nil
    }

    /// Begins the next pass after a wave, or pauses the campaign because more deliveries of the wave failed than the
    /// stop rule allows.
    ///
    /// - Parameters:
    ///   - now: The current time.
    ///   - failed: The number of deliveries that failed.
    ///   - ended: The number of deliveries that ended.
    /// - Returns: Whether it goes on.
    package mutating func beginNextPass(at now: Date, failed: Int, of ended: Int) -> Bool {
        if let most = pace.stopAbove, ended > 0, pauseReason == nil, Double(failed) > most * Double(ended) {
            _ = pause(true, at: now, reason: "stop_rule")
            return false
        }
        let wave = Int(clamping: pass)
        let wait = pace.waves.indices.contains(wave) ? pace.waves[wave].pause : 0
        passAt = now.addingTimeInterval(TimeInterval(wait))
        pass = pass.adding(clamping: 1)
        cursor = 0
        pauseReason = nil
        lease = nil
        return true
    }

    /// Takes its next window for a node, until a time.
    package mutating func take(for node: String, until time: Date) { lease = Lease(node: node, until: time) }

    /// The place of a notification that the next window makes.
    package var nextPart: CampaignPart { CampaignPart(campaign: id.rawValue, first: enqueued, keepsAll: keepsAll) }
}

extension ClaimedDelivery {
    /// The notification that the sender knows: that of the campaign, or its own.
    package var shownID: NotificationID { notificationID.shown(as: head.record.partOf) }

    /// The place of the delivery in ``shownID``.
    package var shownPlace: Int64 { notificationID.shownPlace(of: id, as: head.record.partOf) }
}

extension FoundDelivery {
    /// The notification that the sender knows: that of the campaign, or its own.
    package var shownID: NotificationID { notification.shown(as: record.partOf) }

    /// The place of the delivery in ``shownID``.
    package var shownPlace: Int64 { notification.shownPlace(of: delivery.id, as: record.partOf) }
}

extension ReceivedDelivery {
    /// The notification that the sender knows: that of the campaign, or its own.
    package var shownID: NotificationID { notificationID.shown(as: record?.partOf) }

    /// The place of the delivery in ``shownID``.
    package var shownPlace: Int64 { notificationID.shownPlace(of: id, as: record?.partOf) }
}

extension NotificationID {
    fileprivate func shown(as part: CampaignPart?) -> NotificationID {
        part.map { NotificationID(rawValue: $0.campaign) } ?? self
    }

    fileprivate func shownPlace(of delivery: Int64, as part: CampaignPart?) -> Int64 {
        (part?.first ?? 0).adding(clamping: place(of: delivery))
    }
}
