import Foundation
import ChaparComposition
import ChaparCore

/// The answers to clients about campaigns and resends, and the checks when these are over.
extension Oracle {
    // MARK: Observations

    /// Records the id of a campaign, of which there may be one only.
    func learn(_ number: Int, _ id: String) {
        if let before = campaigns.all[number].id, before != id {
            return fail("campaign c\(number) was accepted twice, as \(before) and \(id)")
        }
        campaigns.learn(number, id)
    }

    /// Takes an answer about a campaign: at each moment its numbers add up.
    func read(_ number: Int, _ answer: JSONValue) {
        guard let audience = answer["audience"] else {
            return fail("campaign c\(number) is shown without its audience: \(answer.text)")
        }
        read(number, audience: audience)
        if answer["ended_at"] != nil { campaigns.all[number].isOver = true }
    }

    private func read(_ number: Int, audience: JSONValue) {
        let skipped = (audience["skipped"]?.objectValue ?? [:]).reduce(0) { $0 + ($1.value.integerValue ?? 0) }
        guard let matched = audience["matched"]?.integerValue, let enqueued = audience["enqueued"]?.integerValue,
            matched == enqueued + skipped
        else { return fail("the numbers of campaign c\(number) do not add up: \(audience.text)") }
        campaigns.all[number].hasBegun = audience["windows"]?.integerValue ?? 0 > 0
        campaigns.all[number].isPaused = audience["paused"]?.boolValue ?? false
        campaigns.all[number].progress = audience["progress"]?.numberValue ?? 0
    }

    /// The gateway dies while it writes.
    func coverDeathWhileWriting() {
        cover(.diedWhileWriting)
        if campaigns.all.contains(where: \.isFanningOut) { cover(.diedAmidCampaign) }
        if campaigns.orders.contains(where: \.isUnderWay) { cover(.diedAmidResend) }
    }

    // MARK: Events

    /// An event about a campaign names it.
    func advanceCampaign(_ event: JSONValue) {
        guard let id = event["notification"]?.stringValue, let audience = event["audience"],
            let number = campaigns.number(named: audience["name"]?.stringValue)
        else { return fail("an event is about a campaign of no client: \(event.text)") }
        learn(number, id)
        read(number, audience: audience)
    }

    /// An event about a delivery of a campaign or about a resend; false for any other.
    func advanceCampaignDelivery(_ id: String, _ event: JSONValue, _ state: String) -> Bool {
        let isFinal = DeliveryState(rawValue: state)?.isFinal ?? false
        if let number = campaigns.number(of: id) {
            guard isFinal, let place = event["delivery"]?.integerValue else { return true }
            let before = campaigns.all[number].ended.updateValue(state, forKey: Int(place))
            if let before, !Self.isLater(state, before) {
                fail("delivery \(place) of campaign c\(number) ends twice: \(before), then \(state)")
            }
            return true
        }
        guard campaigns.resends[id] != nil else { return false }
        if isFinal { campaigns.resends[id]?.isEnded = true }
        return true
    }

    /// A resend is announced: no delivery is sent again twice, nor one that no client asked for.
    func announceResend(_ number: Int, _ id: String, _ event: JSONValue) {
        guard let old = event["resend_of"], let place = old["delivery"]?.integerValue.map({ Int($0) }),
            let campaign = campaigns.all[number].id, old["notification"]?.stringValue == campaign
        else { return fail("a resend of campaign c\(number) names no delivery of it: \(event.text)") }
        if campaigns.resends.values.contains(where: { $0.campaign == number && $0.place == place }) {
            fail("delivery \(place) of campaign c\(number) was sent again twice")
        }
        if !campaigns.orders.contains(where: { $0.campaign == number && $0.places?.contains(place) ?? true }) {
            fail("delivery \(place) of campaign c\(number) was sent again, and no client asked for it")
        }
        campaigns.resends[id] = CampaignModel.Resend(campaign: number, place: place)
    }

    // MARK: Resends

    /// Takes the answer to a request that sends deliveries again.
    func sentAgain(_ order: Int, _ answer: JSONValue) {
        let number = campaigns.orders[order].campaign
        let leftOut = answer["left_out"]?.objectValue ?? [:]
        func count(_ reason: String) -> Int { Int(leftOut[reason]?.integerValue ?? 0) }
        guard let matched = answer["matched"]?.integerValue, let resent = answer["resent"]?.integerValue,
            let ids = answer["notifications"]?.arrayValue?.compactMap(\.stringValue), ids.count == Int(resent)
        else { return fail("a resend of campaign c\(number) is answered with \(answer.text)") }
        let others = leftOut.reduce(0) { $0 + ($1.value.integerValue ?? 0) } - Int64(count("missing"))
        if resent + others > matched { fail("a resend of campaign c\(number) has more than it found: \(answer.text)") }
        for id in ids { campaigns.answered[id] = number }
        campaigns.orders[order].isAnswered = true
        let claimed = Int(resent) + count("already_resent")
        campaigns.orders[order].claimed = max(campaigns.orders[order].claimed, claimed)
        if resent > 0 { cover(.sentAgain) }
        if count("already_resent") > 0 { cover(.sentAgainBefore) }
        if count("dead_token") > 0 { cover(.deadTokenLeftOut) }
    }

    /// Checks the answers about the resends of a campaign: each was announced and has ended, and none is lacking.
    ///
    /// Of what went to a user who was erased nothing may be left.
    func judgeResends(_ number: Int) {
        guard audience.erasedUsers.isEmpty else { return }
        for (id, campaign) in campaigns.answered where campaign == number {
            guard let resend = campaigns.resends[id] else {
                return fail("\(id) sends a delivery of campaign c\(number) again, and is not announced")
            }
            if !resend.isEnded { fail("\(id), which sends a delivery of campaign c\(number) again, has not ended") }
        }
        for order in campaigns.orders where order.campaign == number {
            let found = campaigns.sentAgain(number, among: order.places)
            if found < order.claimed {
                fail("\(order.claimed) deliveries of campaign c\(number) count as sent again, and \(found) were")
            }
        }
    }

    // MARK: Verdicts

    /// The time after the answer to a pause or a cancellation in which what was under way may still come to a platform.
    ///
    /// Workers know of it within a second; a call of the database, and its answer, may take seconds each.
    private static func grace(_ world: World) -> Int64 { world.database == nil ? 6_000_000_000 : 12_000_000_000 }

    /// Checks a campaign that is over: `answer` is about it, and `items` are its deliveries.
    func judge(campaign number: Int, _ answer: JSONValue, _ items: [JSONValue], _ world: World) {
        let campaign = campaigns.all[number]
        guard let states = judgeDeliveries(campaign, answer, items) else { return }
        let phase = answer["audience"]?["phase"]?.stringValue ?? "none"
        let end = campaign.postedAt + Int64(campaign.timeToLive) * 1_000_000_000
        // It was cancelled long before its time to live was over, which follows a clock that jumps over a restart.
        let wasCancelled = campaign.cancelledAt.map { !world.hasJumped && $0 + 60_000_000_000 < end } ?? false
        switch phase {
        case "finished":
            cover(.campaignFinished)
            if !campaign.isAskedToCancel { judgeReached(campaign, states, world) }
        case "cancelled":
            cover(.campaignCancelled)
            if !campaign.isAskedToCancel { fail("campaign \(campaign.name) was cancelled by no client") }
        case "expired":
            cover(.campaignExpired)
            if wasCancelled { fail("campaign \(campaign.name) was cancelled, and counts as expired") }
        default: return fail("campaign \(campaign.name) is over, and counts as \(phase)")
        }
        for (device, isIn) in campaign.expected where !isIn && states[device] != nil {
            fail("campaign \(campaign.name) went to \(device), which was not in its audience")
        }
        if !campaign.isSentAgain { judgeSends(campaign, states, wasCancelled, world) }
    }

    /// The deliveries of a campaign have ended, add up, and are for a device each; gives their states by device.
    private func judgeDeliveries(
        _ campaign: CampaignModel.Campaign,
        _ answer: JSONValue,
        _ items: [JSONValue]
    ) -> [String: String]? {
        var states: [String: String] = [:]
        var places: Set<Int64> = []
        for item in items {
            guard let state = item["state"]?.stringValue, let recipient = item["recipient"]?.stringValue,
                let place = item["delivery"]?.integerValue
            else {
                fail("a delivery of campaign \(campaign.name) is shown as \(item.text)")
                return nil
            }
            if !(DeliveryState(rawValue: state)?.isFinal ?? false) {
                fail("campaign \(campaign.name) is over, and its delivery \(place) is \(state)")
            }
            if !places.insert(place).inserted { fail("campaign \(campaign.name) has two deliveries \(place)") }
            let device = String(recipient.drop { $0 != ":" }.dropFirst())
            // Of an erased user's device nothing is left.
            if !device.isEmpty, states.updateValue(state, forKey: device) != nil {
                fail("campaign \(campaign.name) has two deliveries to \(device)")
            }
        }
        let enqueued = Int(answer["audience"]?["enqueued"]?.integerValue ?? -1)
        let counted = Int((answer["counts"]?.objectValue ?? [:]).reduce(0) { $0 + ($1.value.integerValue ?? 0) })
        // What went to an erased user alone is gone, and the rest of it need not be shown.
        let isWhole =
            audience.erasedUsers.isEmpty
            ? counted == enqueued && items.count == counted : counted <= enqueued && items.count <= counted
        if !isWhole {
            let found = "\(counted) count, and \(items.count) are shown"
            fail("campaign \(campaign.name) made \(enqueued) deliveries; \(found)")
        }
        return states
    }

    /// A campaign that has gone through its audience has a delivery to each device that was in it all the time.
    ///
    /// Deliveries to devices of a user who was erased since are gone.
    private func judgeReached(_ campaign: CampaignModel.Campaign, _ states: [String: String], _ world: World) {
        for member in audience.members
        where campaign.expected[member.name] == true && states[member.name] == nil
            && !audience.erasedUsers.contains(member.user)
        {
            // The token that it had then may have been refused for good, whatever it has now.
            let isRefused = world.platforms.contains { !$0.invalidated.isDisjoint(with: member.tokenTexts) }
            if !isRefused { fail("campaign \(campaign.name) lacks \(member.name), which was always in its audience") }
        }
    }

    /// Checks the sends of a campaign: none while it was paused or after it was cancelled, and all that count as
    /// accepted.
    private func judgeSends(
        _ campaign: CampaignModel.Campaign,
        _ states: [String: String],
        _ wasCancelled: Bool,
        _ world: World
    ) {
        let grace = Self.grace(world)
        let prefix = campaign.name + "/"
        var (offered, taken): (Set<String>, Set<String>) = ([], [])
        for platform in world.platforms {
            for (key, times) in platform.offered where key.hasPrefix(prefix) {
                let device = String(key.dropFirst(prefix.count).prefix { $0 != "-" })
                offered.insert(device)
                if platform.taken[key] != nil { taken.insert(device) }
                if let end = campaign.cancelledAt, times.contains(where: { $0 > end + grace }) {
                    fail("\(key) was tried after the cancellation of its campaign was answered")
                }
                guard !campaign.isPauseDoubtful else { continue }
                for pause in campaign.pauses {
                    let until = pause.until ?? .max
                    if times.contains(where: { $0 > pause.from + grace && $0 < until }) {
                        fail("\(key) was tried while its campaign was paused")
                    }
                }
            }
        }
        for (device, state) in states {
            if Self.isAcceptance(state), !taken.contains(device) {
                fail("\(prefix)\(device) counts as \(state), and no platform has it")
            }
            if wasCancelled, state == "expired", !offered.contains(device) {
                fail("\(prefix)\(device) waited when its campaign was cancelled, and counts as expired")
            }
        }
        // What a crash or the disk leaves open may be sent again.
        guard world.database == nil, world.incarnations == 1, world.faults == 0 else { return }
        for device in taken.sorted() {
            let own = "\(prefix)\(device)-"
            let isOpen = world.platforms.contains { $0.unresolved.contains { $0.hasPrefix(own) } }
            let count = world.platforms.reduce(0) { sum, platform in
                platform.taken.reduce(sum) { $0 + ($1.key.hasPrefix(own) ? $1.value.count : 0) }
            }
            if !isOpen, count > 1 { fail("\(prefix)\(device) was sent \(count) times") }
        }
    }
}
