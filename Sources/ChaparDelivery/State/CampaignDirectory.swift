package import ChaparCore
package import ChaparQueue
package import Foundation
internal import Synchronization

/// The running campaigns, as this gateway last read them: whether their deliveries may be sent now, and to which
/// devices.
///
/// The fan-out reads them anew twice a second, and the API at once when it changes a campaign. So a pause takes effect
/// here within a second, whichever gateway got the request. Workers look here before each send of a campaign's
/// deliveries; without campaigns that costs nothing.
package final class CampaignDirectory: Sendable {
    /// The treatment of a campaign's delivery by a worker.
    package enum Permission: Sendable, Hashable {
        /// It may send it.
        case send
        /// It keeps it until a time: the campaign is paused.
        case wait(until: Date)
        /// It ends it: the campaign was cancelled.
        case end
    }

    private struct Known {
        var isPaused: Bool
        var isCancelled: Bool
        var pausedAt: Date?
        /// The campaign's audience with a rule that holds for every device.
        ///
        /// It checks all conditions that are not in the caller's rule, such as `exclude`.
        var check: Audience?
        var readAt: Date
    }

    /// The time, in seconds, for which a reading of a campaign is used.
    private static let trust: TimeInterval = 1
    /// The longest time, in seconds, for which a delivery of a paused campaign is postponed: it may wait this long
    /// after the campaign goes on.
    static let longestPause: TimeInterval = 60

    private let campaigns: (any CampaignStore)?
    private let audiences: (any AudienceStore)?
    private let time: any TimeSource
    private let known = Mutex<[Int64: Known]>([:])
    /// Raised when a campaign was accepted or changed here.
    package let signal = AsyncSignal()

    package init(
        _ campaigns: (any CampaignStore)?,
        _ audiences: (any AudienceStore)?,
        time: any TimeSource
    ) {
        self.campaigns = campaigns
        self.audiences = audiences
        self.time = time
    }

    /// Replaces the known campaigns with the open ones.
    package func replace(by open: [Campaign]) {
        let now = time.steady
        known.withLock { known in
            known = Dictionary(
                open.map { ($0.id.rawValue, Self.known($0, checks: known[$0.id.rawValue]?.check, now)) },
                uniquingKeysWith: { $1 }
            )
        }
    }

    /// Takes a campaign that was accepted or changed here, and wakes the fan-out.
    package func note(_ campaign: Campaign) {
        let now = time.steady
        known.withLock { known in
            known[campaign.id.rawValue] = Self.known(campaign, checks: known[campaign.id.rawValue]?.check, now)
        }
        signal.signal()
    }

    private static func known(_ campaign: Campaign, checks: Audience?, _ now: Date) -> Known {
        var check = checks
        if check == nil {
            check = CampaignTarget(stored: campaign.audience)?.audience
            check?.rule = .everyone
        }
        return Known(
            isPaused: campaign.isPaused,
            isCancelled: campaign.phase == .cancelled,
            pausedAt: campaign.pausedAt,
            check: check,
            readAt: now
        )
    }

    /// The decisions about the campaign deliveries of a claim, and the devices that were read for them.
    struct Look: Sendable {
        /// The treatment of the deliveries that may not be sent now, by their numbers.
        var decisions: [Int64: Decision] = [:]
        /// The devices that were read, by their ids, so that they are not read again for their tokens.
        var devices: [String: Device] = [:]
    }

    /// Checks the campaign deliveries of a claim, and reads their devices again: the fan-out read them some time ago.
    func look(at claims: [ClaimedDelivery]) async throws(StoreError) -> Look {
        var ids: Set<Int64> = []
        for claim in claims { if let part = claim.head.record.partOf { ids.insert(part.campaign) } }
        guard !ids.isEmpty else { return Look() }
        var checks: [Int64: Audience] = [:]
        var permissions: [Int64: Permission] = [:]
        for id in ids {
            let known = try await current(id)
            permissions[id] = Self.permission(known, at: time.steady)
            checks[id] = known?.check
        }
        var look = Look()
        var left: [(delivery: Int64, device: String, check: Audience)] = []
        for claim in claims {
            guard let part = claim.head.record.partOf else { continue }
            switch permissions[part.campaign] ?? .send {
            case .wait(let until): look.decisions[claim.id] = .wait(until: until)
            case .end: look.decisions[claim.id] = .end(reason: "cancelled_by_caller")
            case .send:
                guard case .device(let device) = claim.recipient, let check = checks[part.campaign] else { continue }
                left.append((claim.id, device, check))
            }
        }
        guard let audiences, !left.isEmpty else { return look }
        let subjects = try await audiences.subjects(Set(left.map(\.device)).sorted())
        look.devices = subjects.mapValues(\.device)
        for (delivery, device, check) in left {
            // For a device that is gone the worker finds no token.
            guard let subject = subjects[device], case .skipped(let cause) = check.verdict(subject) else { continue }
            // The token's kind is the worker's choice: a voip message needs another one than an audience's.
            if cause != .noToken { look.decisions[delivery] = .end(reason: cause.rawValue) }
        }
        return look
    }

    /// The treatment of a delivery that may not be sent now.
    enum Decision: Sendable, Hashable {
        case wait(until: Date)
        /// It ends as cancelled, for a reason.
        case end(reason: String)
    }

    /// Returns what is known of a campaign: from memory while that is fresh, else from the store; nil once it is over.
    private func current(_ id: Int64) async throws(StoreError) -> Known? {
        let now = time.steady
        if let found = known.withLock({ $0[id] }), now < found.readAt.addingTimeInterval(Self.trust) { return found }
        guard let campaign = try await campaigns?.campaign(NotificationID(rawValue: id)) else { return nil }
        let read = Self.known(campaign, checks: known.withLock { $0[id]?.check }, now)
        if campaign.endedAt == nil { known.withLock { $0[id] = read } }
        return read
    }

    /// Returns whether a delivery of the campaign may be sent now, is postponed, or ends.
    ///
    /// A delivery is postponed for as long as the pause has lasted so far. So after a short pause it is sent soon, and
    /// during a long pause it is rarely looked at.
    private static func permission(_ known: Known?, at now: Date) -> Permission {
        guard let known else { return .send }
        if known.isCancelled { return .end }
        guard known.isPaused else { return .send }
        let lasted = known.pausedAt.map { now.timeIntervalSince($0) } ?? 0
        return .wait(until: now.addingTimeInterval(min(max(lasted, 1), longestPause)))
    }
}
