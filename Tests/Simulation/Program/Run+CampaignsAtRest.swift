import Foundation
import NIOHTTP1
import ChaparCore

/// The end of a run with campaigns: they go on, end, and are judged; then what failed of them is sent again once more.
extension Run {
    /// Lets every campaign go on, also one of whose acceptance no answer came.
    func resumeCampaigns() {
        guard !world.oracle.campaigns.all.isEmpty, findCampaigns() else { return }
        for number in world.oracle.campaigns.all.indices {
            guard let id = world.oracle.campaigns.all[number].id else { continue }
            world.oracle.campaigns.endPause(number, at: world.scheduler.now)
            guard let (resumed, words) = settled(.POST, "/v1/notifications/\(id)/resume", "{}") else { return }
            if resumed != 200, resumed != 409 {
                world.oracle.fail("campaign c\(number) does not go on: \(resumed) \(words.text)")
            }
        }
    }

    /// Finds the campaigns of whose acceptance no answer came, and posts those that are not there again; whether it could.
    private func findCampaigns() -> Bool {
        guard let (status, answer) = settled(.GET, "/v1/campaigns?limit=200") else { return false }
        guard status == 200, let items = answer["items"]?.arrayValue else {
            world.oracle.fail("campaigns are answered with \(status): \(answer.text)")
            return false
        }
        for item in items {
            guard let id = item["id"]?.stringValue,
                let number = world.oracle.campaigns.number(named: item["audience"]?["name"]?.stringValue)
            else {
                world.oracle.fail("a campaign of no client is listed: \(item.text)")
                return false
            }
            world.oracle.learn(number, id)
        }
        for campaign in world.oracle.campaigns.all where campaign.id == nil && mayRepeat {
            let key = [("Idempotency-Key", "campaign-\(campaign.number)")]
            guard let (status, answer) = settled(.POST, "/v1/notifications", campaign.body, key) else { return false }
            guard status == 202 else {
                world.oracle.fail("campaign \(campaign.name) is answered with \(status): \(answer.text)")
                return false
            }
            accepted(campaign: campaign.number, answer)
        }
        return true
    }

    /// Looks at the campaigns that are not known to be over.
    func followCampaigns() {
        for campaign in world.oracle.campaigns.all where !campaign.isOver {
            if let id = campaign.id { look(at: campaign.number, id) }
        }
    }

    /// Every campaign is over, and is as it must be.
    func checkCampaigns() {
        for number in world.oracle.campaigns.all.indices where !world.oracle.hasFailed { check(campaign: number) }
    }

    private func check(campaign number: Int) {
        let campaign = world.oracle.campaigns.all[number]
        guard let id = campaign.id else { return }
        let path = "/v1/notifications/\(id)"
        guard let (status, answer) = settled(.GET, path) else { return }
        guard status == 200 else {
            return world.oracle.fail("campaign c\(number) was accepted, and is answered with \(status)")
        }
        world.oracle.read(number, answer)
        guard answer["ended_at"] != nil else {
            return world.oracle.fail("campaign c\(number) (\(id)) has not ended: \(answer.text)")
        }
        guard let items = items(of: path) else { return }
        world.oracle.judge(campaign: number, answer, items, world)
        if campaign.isSentAgain, !world.oracle.hasFailed { checkResends(of: number, id, items) }
    }

    /// The deliveries of a notification.
    private func items(of path: String) -> [JSONValue]? {
        guard let (status, answer) = settled(.GET, path + "/deliveries?limit=1000") else { return nil }
        guard status == 200, let items = answer["items"]?.arrayValue else {
            world.oracle.fail("\(path)/deliveries is answered with \(status): \(answer.text)")
            return nil
        }
        return items
    }

    // MARK: Resends

    /// Sends what failed of a campaign again, twice: once each, and no dead token.
    private func checkResends(of number: Int, _ id: String, _ items: [JSONValue]) {
        for (index, order) in world.oracle.campaigns.orders.enumerated() where order.campaign == number {
            if !order.isAnswered, sendAgain(index) == nil { return }
        }
        guard let dead = deadPlaces(items) else { return }
        let body = #"{"filter":{"id":"\#(id)"},"options":{"ttl":60}}"#
        world.oracle.campaigns.orders.append(CampaignModel.Order(campaign: number, body: body, places: nil))
        let last = world.oracle.campaigns.orders.count - 1
        guard let first = sendAgain(last) else { return }
        for new in first {
            guard let place = place(of: new, id) else { return }
            switch dead[place] {
            case nil: world.oracle.fail("delivery \(place) of campaign c\(number) has not failed, and was sent again")
            case true?: world.oracle.fail("delivery \(place) of campaign c\(number) was sent again to a dead token")
            case false?: break
            }
        }
        let end = world.scheduler.now + 120_000_000_000
        while !world.oracle.campaigns.isSettled, !world.oracle.hasFailed, world.scheduler.now < end {
            world.run(milliseconds: 100)
        }
        guard let second = sendAgain(last) else { return }
        if !second.isEmpty { world.oracle.fail("deliveries of campaign c\(number) were sent again twice: \(second)") }
        world.oracle.judgeResends(number)
    }

    /// Asks for a resend until it is answered; gives the ids of the new notifications.
    private func sendAgain(_ index: Int) -> [String]? {
        let order = world.oracle.campaigns.orders[index]
        guard let (status, answer) = settled(.POST, "/v1/deliveries/resend", order.body) else { return nil }
        guard status == 202 else {
            world.oracle.fail("a resend of campaign c\(order.campaign) is answered with \(status): \(answer.text)")
            return nil
        }
        world.oracle.sentAgain(index, answer)
        return answer["notifications"]?.arrayValue?.compactMap(\.stringValue) ?? []
    }

    /// The places of deliveries that ended badly, and whether the tokens of their devices are dead or gone.
    private func deadPlaces(_ items: [JSONValue]) -> [Int: Bool]? {
        var dead: [Int: Bool] = [:]
        for item in items where Self.isDead(item["state"]?.stringValue ?? "") {
            guard let place = item["delivery"]?.integerValue, let recipient = item["recipient"]?.stringValue else {
                continue
            }
            let device = String(recipient.drop { $0 != ":" }.dropFirst())
            dead[Int(place)] = true
            guard !device.isEmpty else { continue }  // Its user was erased.
            guard let (status, answer) = settled(.GET, "/v1/devices/\(device)") else { return nil }
            let tokens = answer["tokens"]?.objectValue ?? [:]
            if status == 200 { dead[Int(place)] = !tokens.contains { $0.value["alive"]?.boolValue == true } }
        }
        return dead
    }

    /// The place of the delivery that a notification sends again, which is one of a campaign.
    private func place(of new: String, _ campaign: String) -> Int? {
        guard let (status, answer) = settled(.GET, "/v1/notifications/\(new)/deliveries") else { return nil }
        guard status == 200, answer["items"]?.arrayValue?.count == 1, let old = answer["resend_of"],
            old["notification"]?.stringValue == campaign, let place = old["delivery"]?.integerValue
        else {
            world.oracle.fail("\(new) sends a delivery of \(campaign) again, and is shown as \(answer.text)")
            return nil
        }
        return Int(place)
    }
}
