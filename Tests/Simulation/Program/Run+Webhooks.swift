import Foundation
import NIOHTTP1
import ChaparCore
import SimulationDisk

/// What operators do with webhooks, what becomes of their receivers, and what must hold of them at rest.
extension Run {
    /// The most time that receivers which work are waited for, in nanoseconds: more than the third wait of the table.
    private static let longestRetry: Int64 = 3 * 3_600_000_000_000

    /// Adds the webhooks that are not added yet.
    func addWebhooks() {
        guard world.conditions.hasWebhooks else { return }
        for (place, endpoint) in world.oracle.webhooks.endpoints.enumerated()
        where endpoint.since == nil && !endpoint.isBusy {
            world.oracle.webhooks.endpoints[place].isBusy = true
            let body = #"{"url":"http://127.0.0.1/\#(endpoint.name)",\#(endpoint.settings)}"#
            world.ask(.PUT, "/v1/webhooks/\(endpoint.name)", [], body) { [self] status, answer in
                world.oracle.webhooks.endpoints[place].isBusy = false
                takeWebhook(place, status, answer)
            }
        }
    }

    private func takeWebhook(_ place: Int, _ status: Int?, _ answer: JSONValue) {
        let name = world.oracle.webhooks.endpoints[place].name
        world.tellPeer()
        switch status {
        case 200?, 201?:
            if answer["key_missing"]?.boolValue == true {
                // The request that added it was cut short.
                world.ask(.POST, "/v1/webhooks/\(name)/rotate", [], "{}") { [world] _, _ in world.tellPeer() }
                return
            }
            guard let cursor = answer["cursor"]?.integerValue else {
                return world.oracle.fail("a webhook without a cursor: \(answer.text)")
            }
            world.oracle.webhooks.endpoints[place].since = cursor
        case nil, 409?, 429?, 503?: break
        case let status?: world.oracle.fail("the webhook \(name) is answered with \(status): \(answer.text)")
        }
    }

    /// A receiver behaves in another way, messages go out, or the gateway dies amid them.
    func troubleWebhook(_ numbers: [Int]) {
        addWebhooks()
        let endpoints = world.oracle.webhooks.endpoints
        let place = numbers[0] % endpoints.count
        if !endpoints[place].isAlwaysHealthy {
            let all = WebhookModel.Behavior.allCases + [.failing, .failing, .losing, .healthy, .healthy]
            world.oracle.webhooks.endpoints[place].behavior = all[numbers[1] % all.count]
            trace.record("\(endpoints[place].name) is \(world.oracle.webhooks.endpoints[place].behavior)")
        }
        if numbers[2] % 2 == 0 { post(1 + numbers[3] % 8, [numbers[3], 3, 0, 0, 0]) }
        if numbers[2] % 4 == 0 { world.run(milliseconds: 200 + numbers[4] % 2_000) }
    }

    /// Stops the process or the machine while webhooks are told of messages.
    func crashAmidWebhooks(_ numbers: [Int]) {
        addWebhooks()
        for number in 0..<2 { post(2 + numbers[4] % 6, [numbers[0] + number, 3, 0, 0, 0]) }
        world.run(milliseconds: 50 + numbers[1] % 400)
        let requests = world.oracle.webhooks.endpoints.reduce(0) { $0 + $1.requests.count }
        if let database = world.database {
            database.crash(inCalls: numbers[3] % 40)
        } else {
            world.disk.crash(numbers[2] % 4 == 1 ? .power : .process, inCalls: numbers[3] % 40)
        }
        world.run(milliseconds: 1_000)
        if world.oracle.webhooks.endpoints.reduce(0, { $0 + $1.requests.count }) > requests {
            world.oracle.cover(.diedAmidWebhooks)
        }
    }

    /// The second gateway is killed, stopped or frozen; over an embedded store it is not there.
    func troublePeer(_ numbers: [Int]) {
        guard world.database != nil else { return troubleWebhook(numbers) }
        post(1 + numbers[4] % 4, [numbers[3], 3, 0, 0, 0])
        switch numbers[0] % 5 {
        case 0: world.killPeer()
        case 1: world.stopPeer()
        default: world.freezePeer(seconds: [2, 20, 45, 70][numbers[1] % 4])
        }
        if numbers[2] % 2 == 0 {
            for part in 0..<4 {
                world.run(milliseconds: 10_000)
                post(1 + numbers[4] % 3, [numbers[3] + part, 3, 0, 0, 0])
            }
        }
    }

    /// All receivers work again.
    func healWebhooks() {
        for place in world.oracle.webhooks.endpoints.indices {
            world.oracle.webhooks.endpoints[place].behavior = .healthy
        }
    }

    /// Every webhook has got what it wants, and nothing else.
    func checkWebhooks() {
        guard world.conditions.hasWebhooks else { return }
        for (place, endpoint) in world.oracle.webhooks.endpoints.enumerated() where endpoint.since == nil {
            let body = #"{"url":"http://127.0.0.1/\#(endpoint.name)",\#(endpoint.settings)}"#
            guard let (status, answer) = settled(.PUT, "/v1/webhooks/\(endpoint.name)", body) else { return }
            takeWebhook(place, status, answer)
        }
        post(3, [0, 3, 0, 0, 0])
        let end = world.scheduler.now + Self.longestRetry
        // Events may come while it is asked whether messages wait.
        while !isIdle() || lacking() != nil {
            guard !world.oracle.hasFailed else { return }
            guard world.scheduler.now < end else {
                return world.oracle.fail(lacking() ?? "a webhook has messages that wait, though it got every event")
            }
            world.run(milliseconds: 5_000)
        }
        for endpoint in world.oracle.webhooks.endpoints {
            let disturbances = world.oracle.disturbances + world.oracle.webhooks.disturbances
            guard let wrong = world.oracle.webhooks.complaint(endpoint, disturbances: disturbances) else { continue }
            return world.oracle.fail("the webhook \(endpoint.name) \(wrong)")
        }
        let requests = world.oracle.webhooks.endpoints.map(\.requests)
        world.oracle.cover(.webhooksJudged)
        if requests.contains(where: { $0.contains { !$0.isTaken } }) { world.oracle.cover(.webhookRefused) }
        if requests.contains(where: { $0.contains { $0.items.count > 1 } }) { world.oracle.cover(.webhookBatched) }
        let ids = requests.flatMap { $0.filter(\.isTaken).map(\.id) }
        if Set(ids).count < ids.count { world.oracle.cover(.webhookRepeated) }
    }

    /// What a webhook lacks; nil when each has all.
    private func lacking() -> String? {
        let ended = world.oracle.submissions.filter { $0.isSettled && $0.device == nil && $0.erasedAt == nil }
        for endpoint in world.oracle.webhooks.endpoints {
            if let first = world.oracle.webhooks.missing(endpoint).first {
                let type = world.oracle.webhooks.log[first]?.type ?? ""
                return "the webhook \(endpoint.name) never got event \(first) (\(type))"
            }
            if let first = world.oracle.webhooks.unfinished(endpoint, of: ended.compactMap(\.id)).first {
                return "the webhook \(endpoint.name) was never told that \(first) has ended"
            }
        }
        return nil
    }

    /// Whether no webhook has a message that waits.
    private func isIdle() -> Bool {
        guard let (status, answer) = settled(.GET, "/v1/webhooks"), status == 200 else { return false }
        let webhooks = answer["webhooks"]?.arrayValue ?? []
        for webhook in webhooks where webhook["status"] == "disabled" || webhook["key_missing"]?.boolValue == true {
            world.oracle.fail("a webhook that never said it is gone is shown as \(webhook.text)")
        }
        return webhooks.allSatisfy { $0["open"] == 0 && $0["lag"] == 0 }
    }
}
