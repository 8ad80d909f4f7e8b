import ChaparCore

@testable import ChaparDelivery

/// The way to the receivers of webhooks, and the receivers: each answers as the world says.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class SimulatedHooks: WebhookTransport, @unchecked Sendable {
    private unowned let world: World
    private let time: VirtualTime

    init(_ world: World, _ time: VirtualTime) { (self.world, self.time) = (world, time) }

    func check(_ url: WebhookURL, _ rule: WebhookGuard) async -> WebhookURL.Mistake? { nil }

    func post(
        _ url: WebhookURL,
        headers: [(String, String)],
        body: [UInt8],
        _ rule: WebhookGuard
    ) async -> WebhookAnswer {
        do {
            return try await answer(to: headers, body, at: String(url.target.dropFirst()))
        } catch {
            return WebhookAnswer(.reset, "the gateway is stopping")
        }
    }

    private func answer(
        to headers: [(String, String)],
        _ body: [UInt8],
        at name: String
    ) async throws -> WebhookAnswer {
        try await sleep(milliseconds: 1 + world.scheduler.draw(below: 40))
        guard let place = world.oracle.webhooks.index(of: name) else { return WebhookAnswer(status: 404) }
        let request = world.oracle.webhooks.endpoints[place].requests.count
        let behavior = world.oracle.webhooks.endpoints[place].behavior
        world.oracle.webhooks.endpoints[place].requests.append(read(headers, body))
        world.trace.record("request \(request) to \(name), which is \(behavior)")
        func take() { world.oracle.webhooks.endpoints[place].requests[request].isTaken = true }
        switch behavior {
        case .healthy:
            take()
            try await sleep(milliseconds: world.scheduler.draw(below: 40))
            return WebhookAnswer(status: 200)
        case .slow:
            try await sleep(milliseconds: 2_000 + world.scheduler.draw(below: 12_000))
            take()
            return WebhookAnswer(status: 200)
        case .failing: return WebhookAnswer(status: 500)
        case .busy, .throttled:
            var answer = WebhookAnswer(status: behavior == .busy ? 503 : 429)
            answer.retryAfter = .seconds(world.scheduler.draw(below: 20))
            return answer
        case .hanging, .losing:
            if behavior == .losing { take() }
            try await sleep(milliseconds: 15_000)
            return WebhookAnswer(.timeout, "no answer within 15 s")
        case .reset: return WebhookAnswer(.reset, "the connection ended before an answer")
        }
    }

    private func sleep(milliseconds: Int) async throws { try await time.sleep(for: .milliseconds(milliseconds)) }

    private func read(_ headers: [(String, String)], _ body: [UInt8]) -> WebhookModel.Request {
        let id = headers.first { $0.0 == "webhook-id" }?.1 ?? ""
        guard let json = try? JSONValue(parsing: body) else {
            world.oracle.fail("a webhook got what is no JSON")
            return WebhookModel.Request(at: world.scheduler.now, id: id, items: [])
        }
        let events = json["data"]?["events"]?.arrayValue ?? [json]
        let items = events.map { event in
            WebhookModel.Item(
                number: event["data"]?["number"]?.integerValue ?? 0,
                type: event["type"]?.stringValue ?? "",
                notification: event["data"]?["notification"]?.stringValue ?? ""
            )
        }
        return WebhookModel.Request(at: world.scheduler.now, id: id, items: items)
    }
}
