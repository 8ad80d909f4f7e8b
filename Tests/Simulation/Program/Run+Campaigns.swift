import Foundation
import NIOHTTP1
import ChaparCore
import SimulationDisk

/// The actions of clients on campaigns, on the devices that these go to, and on failed deliveries.
extension Run {
    // MARK: Devices

    /// Registers devices in one request.
    func registerAudience(_ numbers: [Int]) {
        let added = world.oracle.audience.add(8 + numbers[0] % 16, tags: numbers[1])
        guard !added.isEmpty else { return }
        let members = world.oracle.audience.members[added]
        // Devices that are registered after a campaign has begun are not in it.
        for number in world.oracle.campaigns.all.indices where world.oracle.campaigns.all[number].hasBegun {
            for member in members { world.oracle.campaigns.all[number].expected[member.name] = false }
        }
        let devices = members.map { #"{"id":"\#($0.name)",\#($0.fields)}"# }.joined(separator: ",")
        world.ask(.POST, "/v1/devices/batch", [], #"{"devices":[\#(devices)]}"#) { [world] status, answer in
            let isDone = status == 200
            for index in added { world.oracle.audience.end(index, isDone: isDone) }
            if isDone ? answer["refused"]?.integerValue != 0 : !Self.isWithoutVerdict(status) {
                world.oracle.fail("a batch of devices is answered with \(status ?? 0): \(answer.text)")
            }
        }
    }

    /// Whether nothing is known of a request with this answer: the store may have carried it out.
    private static func isWithoutVerdict(_ status: Int?) -> Bool {
        switch status {
        case nil, 429?, 503?: true
        default: false
        }
    }

    /// Changes, moves, unsubscribes, removes or erases a device of the audience.
    private func changeAudience(_ numbers: [Int]) {
        let members = world.oracle.audience.members
        guard let first = members.indices.first(where: { members[$0].isKnown }) else {
            return registerAudience(numbers)
        }
        let drawn = numbers[2] % members.count
        let index = members[drawn].isKnown ? drawn : first
        var member = members[index]
        let path = "/v1/devices/\(member.name)"
        switch numbers[3] % 8 {
        case 0, 1, 2:
            // A registration may say nothing of the subscription: only subscribed ones are changed.
            guard member.isSubscribed else { return }
            member.tags = AudienceModel.tags(numbers[1])
            member.token += 1
            if numbers[3] % 8 == 2 { member.user += "m" }
            change(index, .PUT, path, "{\(member.fields)}") { [member] in
                ($0.tags, $0.token, $0.user) = (member.tags, member.token, member.user)
            }
        case 3, 4:
            let status = member.isSubscribed ? "unsubscribed" : "subscribed"
            change(index, .PUT, path + "/subscription", #"{"status":"\#(status)"}"#) { $0.isSubscribed.toggle() }
        case 5: change(index, .DELETE, path, nil) { $0.isGone = true }
        case 6 where world.oracle.audience.erasedUsers.count < 2: eraseAudience(of: member.user)
        default: break
        }
    }

    private func change(
        _ index: Int,
        _ method: HTTPMethod,
        _ path: String,
        _ body: String?,
        _ change: @escaping (inout AudienceModel.Member) -> Void
    ) {
        begin(index)
        world.ask(method, path, [], body) { [world] status, answer in
            let isDone = [200, 201, 202, 204].contains(status)
            world.oracle.audience.end(index, isDone: isDone, change)
            if !isDone, !Self.isWithoutVerdict(status) {
                world.oracle.fail("\(method) \(path) is answered with \(status ?? 0): \(answer.text)")
            }
        }
    }

    private func begin(_ index: Int) {
        world.oracle.audience.begin(index)
        world.oracle.campaigns.forget(world.oracle.audience.members[index].name)
    }

    private func eraseAudience(of user: String) {
        guard !world.oracle.audience.members.contains(where: { $0.user == user && $0.isChanging }) else { return }
        let devices = world.oracle.audience.beginErasure(of: user)
        for index in devices { world.oracle.campaigns.forget(world.oracle.audience.members[index].name) }
        world.ask(.DELETE, "/v1/users/\(user)") { [world] status, answer in
            let isDone = status == 200 || status == 202
            for index in devices { world.oracle.audience.end(index, isDone: isDone) { $0.isGone = true } }
            if !isDone, !Self.isWithoutVerdict(status) {
                world.oracle.fail("the erasure of \(user) is answered with \(status ?? 0): \(answer.text)")
            }
        }
    }

    // MARK: Campaigns

    /// Posts a message to an audience; gives its number, nil when there are enough of them.
    @discardableResult
    func postCampaign(
        _ numbers: [Int],
        isSentAgain: Bool? = nil,
        timeToLive: Int? = nil,
        route: String? = nil
    ) -> Int? {
        if world.oracle.audience.members.isEmpty {
            registerAudience(numbers)
            world.run(milliseconds: 200)
        }
        var number = world.oracle.campaigns.all.count
        guard number < CampaignModel.most else { return nil }
        if let isSentAgain, isSentAgain != (number % 2 == 1) {
            postCampaign(numbers.reversed())
            number += 1
        }
        guard number < CampaignModel.most else { return nil }
        let rule = AudienceModel.Rule.allCases[numbers[0] % AudienceModel.Rule.allCases.count]
        let paces = [
            "{}", "{}", #"{"per_minute":600}"#, #"{"per_minute":150}"#, #"{"over":30}"#,
            #"{"waves":[{"percent":30,"wait":5},{"percent":60,"wait":1}]}"#,
            #"{"waves":[{"percent":50,"wait":2}],"stop_above":50}"#,
        ]
        let pace = paces[numbers[2] % paces.count]
        let seconds = timeToLive ?? [120, 300, 600][numbers[1] % 3]
        let route = route ?? ["alpha", "next"][numbers[3] % 2]
        let body =
            #"{"to":\#(rule.recipients),"name":"c\#(number)","content":{"title":"c\#(number)"},"#
            + #""options":{"ttl":\#(seconds)},"route":"\#(route)","pace":\#(pace),"#
            + #""keep":"\#(numbers[4] % 4 == 0 ? "all" : "failures")"}"#
        let known = world.oracle.audience.members.filter(\.isKnown).map { ($0.name, rule.holds(for: $0)) }
        world.oracle.campaigns.all.append(
            CampaignModel.Campaign(
                number: number,
                body: body,
                timeToLive: seconds,
                hasWaves: pace.contains("waves"),
                postedAt: world.scheduler.now,
                expected: Dictionary(known) { first, _ in first }
            )
        )
        send(campaign: number, attempts: 3)
        return number
    }

    /// Posts a campaign, again and again with its key while there is no verdict.
    func send(campaign number: Int, attempts: Int) {
        let campaign = world.oracle.campaigns.all[number]
        let key = [("Idempotency-Key", "campaign-\(number)")]
        world.ask(.POST, "/v1/notifications", key, campaign.body) { [self] status, answer in
            if status == 202 { return accepted(campaign: number, answer) }
            guard status == 409 || Self.isWithoutVerdict(status) else {
                return world.oracle.fail("campaign c\(number) is answered with \(status ?? 0): \(answer.text)")
            }
            guard attempts > 0 else { return }
            world.scheduler.add { send(campaign: number, attempts: attempts - 1) }
        }
    }

    /// Takes the acceptance of a campaign.
    func accepted(campaign number: Int, _ answer: JSONValue) {
        guard let id = answer["id"]?.stringValue else {
            return world.oracle.fail("202 without an id: \(answer.text)")
        }
        if world.oracle.campaigns.all[number].id != nil { world.oracle.cover(.campaignRepeated) }
        world.oracle.learn(number, id)
    }

    /// Posts a campaign, and stops the process or the machine at one of the writes that follow.
    func crashAmidCampaign(_ numbers: [Int]) {
        // Without waves: the crash is to come among the windows.
        guard let number = postCampaign([numbers[0], numbers[1], numbers[2] % 4, numbers[3], numbers[4]]) else {
            return control(numbers)
        }
        for _ in 0..<40 where world.oracle.campaigns.all[number].id == nil { world.run(steps: 10) }
        crashSoon(numbers, within: 64)
        world.run(milliseconds: 3_000)
        if mayRepeat { send(campaign: number, attempts: 1) }
    }

    /// Whether the gateway still knows the keys of requests.
    var mayRepeat: Bool { !world.hasJumped }

    private func crashSoon(_ numbers: [Int], within calls: Int) {
        if let database = world.database {
            database.crash(inCalls: numbers[3] % (calls / 4))
        } else {
            world.disk.crash(numbers[4] % 4 == 1 ? .power : .process, inCalls: numbers[3] % calls)
        }
    }

    /// Pauses a campaign, lets it go on, changes its pace, cancels it, or changes a device meanwhile.
    func control(_ numbers: [Int]) {
        let all = world.oracle.campaigns.all
        for campaign in all where campaign.id == nil && mayRepeat { send(campaign: campaign.number, attempts: 1) }
        let open = all.filter { $0.id != nil && !$0.isBusy && !$0.isOver }
        guard !open.isEmpty else {
            changeAudience(numbers)
            return
        }
        let campaign = open[open.count - 1 - numbers[0] % min(3, open.count)]
        guard let id = campaign.id else { return }
        switch numbers[1] % 10 {
        case 0, 1, 2: pause(campaign.number, id, !campaign.isPaused)
        case 3, 4: changePace(campaign, id, numbers)
        case 5: cancel(campaign: campaign.number, id)
        default: changeAudience(numbers)
        }
        world.run(milliseconds: [1, 50, 500, 8_000][numbers[4] % 4])
        look(at: campaign.number, id)
    }

    /// Looks at a campaign.
    func look(at number: Int, _ id: String) {
        world.ask(.GET, "/v1/notifications/\(id)") { [world] status, answer in
            if status == 200 { return world.oracle.read(number, answer) }
            guard !Self.isWithoutVerdict(status) else { return }
            world.oracle.fail("campaign c\(number) was accepted, and is answered with \(status ?? 0): \(answer.text)")
        }
    }

    private func pause(_ number: Int, _ id: String, _ pauses: Bool) {
        world.oracle.campaigns.all[number].isBusy = true
        if !pauses { world.oracle.campaigns.endPause(number, at: world.scheduler.now) }
        let path = "/v1/notifications/\(id)/\(pauses ? "pause" : "resume")"
        world.ask(.POST, path, [], "{}") { [world] status, answer in
            world.oracle.campaigns.all[number].isBusy = false
            switch status {
            case 200?:
                world.oracle.read(number, answer)
                guard pauses, answer["audience"]?["paused"]?.boolValue == true else { return }
                world.oracle.campaigns.all[number].pauses.append((world.scheduler.now, nil))
                world.oracle.cover(.campaignPaused)
            case 409?: break  // It is over.
            case let status where Self.isWithoutVerdict(status):
                if !pauses { world.oracle.campaigns.all[number].isPauseDoubtful = true }
            default: world.oracle.fail("\(path) is answered with \(status ?? 0): \(answer.text)")
            }
        }
    }

    private func changePace(_ campaign: CampaignModel.Campaign, _ id: String, _ numbers: [Int]) {
        let number = campaign.number
        world.oracle.campaigns.all[number].isBusy = true
        let pace = ["{}", #"{"per_minute":300}"#, #"{"per_minute":1200}"#][numbers[2] % 3]
        world.ask(.PATCH, "/v1/notifications/\(id)", [], #"{"pace":\#(pace)}"#) { [world] status, answer in
            world.oracle.campaigns.all[number].isBusy = false
            switch status {
            case 200?:
                world.oracle.read(number, answer)
                world.oracle.cover(.paceChanged)
            case 409?: break  // It is over, or has made all of its deliveries.
            case 422? where campaign.hasWaves: break  // Waves stay once it has begun.
            case let status where Self.isWithoutVerdict(status): break
            default: world.oracle.fail("a pace is answered with \(status ?? 0): \(answer.text)")
            }
        }
    }

    private func cancel(campaign number: Int, _ id: String) {
        world.oracle.campaigns.all[number].isBusy = true
        world.oracle.campaigns.all[number].isAskedToCancel = true
        world.ask(.DELETE, "/v1/notifications/\(id)") { [world] status, answer in
            world.oracle.campaigns.all[number].isBusy = false
            if status == 200 {
                world.oracle.campaigns.all[number].cancelledAt = world.scheduler.now
            } else if !Self.isWithoutVerdict(status) {
                let words = "the cancellation of campaign c\(number) is answered with"
                world.oracle.fail("\(words) \(status ?? 0): \(answer.text)")
            }
        }
    }

    // MARK: Resends

    /// Lets deliveries of a campaign fail, and sends them again: the request is repeated, also after a crash that lost
    /// its answer.
    func sendAgain(_ numbers: [Int]) {
        for index in world.oracle.campaigns.orders.indices { order(index) }
        guard let number = campaignToSendAgain(numbers) else { return control(numbers) }
        guard let id = world.oracle.campaigns.all[number].id else { return }
        let dead = world.oracle.campaigns.all[number].ended.filter { Self.isDead($0.value) }.keys.sorted()
        var places: Set<Int>?
        var selection = #""filter":{"id":"\#(id)","dead":true}"#
        switch numbers[2] % 3 {
        case 0: break
        case 1: selection = #""filter":{"id":["\#(id)"]}"#
        default:
            guard !dead.isEmpty else { break }
            let first = numbers[3] % dead.count
            places = Set(dead[first..<min(first + 5, dead.count)])
            let named = (places ?? []).sorted().map { #"{"notification":"\#(id)","delivery":\#($0)}"# }
            selection = #""deliveries":[\#(named.joined(separator: ","))]"#
        }
        let body = #"{\#(selection),"options":{"ttl":60}}"#
        world.oracle.campaigns.orders.append(CampaignModel.Order(campaign: number, body: body, places: places))
        let index = world.oracle.campaigns.orders.count - 1
        order(index)
        switch numbers[1] % 4 {
        case 0: break
        case 1:
            world.run(steps: numbers[4] % 400)
            world.cutConnections()
        default:
            world.run(steps: 20)
            crashSoon(numbers, within: 96)
        }
        world.run(milliseconds: 2_000)
        order(index)
        world.run(milliseconds: 200)
    }

    /// Whether a delivery with a final state is a bad end.
    static func isDead(_ state: String) -> Bool { ["failed", "expired", "unknown"].contains(state) }

    /// A campaign of which deliveries are sent again: a new one whose platform fails, or an earlier one.
    private func campaignToSendAgain(_ numbers: [Int]) -> Int? {
        let earlier = world.oracle.campaigns.all.last { $0.isSentAgain && $0.id != nil }
        if let earlier, numbers[0] % 3 == 0 { return earlier.number }
        // What is lost ends as unknown; what nothing takes expires; what is invalid fails, and is left out.
        let (behavior, route, rules): (SimulatedPlatform.Behavior, String, [AudienceModel.Rule]) =
            switch numbers[4] % 6 {
            case 0, 1: (.losing, "stop", [.anyTag, .tag])
            case 2: (.invalidating, "alpha", [.tagWithout])  // Few: these devices are reached no more.
            default: (.busy, "alpha", [.anyTag, .everyoneWithout])
            }
        let platform = world.platforms[route == "stop" ? 1 : 0]
        platform.set(behavior, at: world.scheduler.now)
        let rule = rules[numbers[3] % rules.count].rawValue
        let made = postCampaign([rule, 0, 0, 0, numbers[4]], isSentAgain: true, timeToLive: 8, route: route)
        guard let number = made else { return earlier?.number }
        world.run(milliseconds: 12_000)
        platform.set(.healthy, at: world.scheduler.now)
        return number
    }

    /// Asks for a resend, or asks again with the same words.
    private func order(_ index: Int) {
        guard !world.oracle.campaigns.orders[index].isUnderWay else { return }
        world.oracle.campaigns.orders[index].isUnderWay = true
        let order = world.oracle.campaigns.orders[index]
        world.ask(.POST, "/v1/deliveries/resend", [], order.body) { [world] status, answer in
            world.oracle.campaigns.orders[index].isUnderWay = false
            if status == 202 { return world.oracle.sentAgain(index, answer) }
            guard !Self.isWithoutVerdict(status) else { return }
            world.oracle.fail("a resend of campaign c\(order.campaign) is answered with \(status ?? 0): \(answer.text)")
        }
    }
}
