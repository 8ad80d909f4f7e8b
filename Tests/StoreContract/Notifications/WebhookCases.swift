import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    /// Checks of a store that keeps endpoints of webhooks; another one passes them.
    static let webhooks: [StoreConformanceCase] = [
        StoreConformanceCase("An endpoint begins after the newest event, and is replaced only by its revision") {
            fixture in
            var store = try await fixture.open()
            guard store.abilities.webhooks != nil else { return await store.close() }
            try await store.publish([[1], [2], [3]])
            let first = try await store.endpoints.saveWebhook(.sample("a"), replacing: nil)
            try expect(first != nil, "an endpoint was not added")
            try expect(try await store.endpoints.webhookProgress("a")?.cursor, is: 3, "the cursor of a new endpoint")
            try expect(try await store.endpoints.saveWebhook(.sample("a"), replacing: nil), is: nil, "a second one")
            var changed = StoredWebhook.sample("a")
            (changed.app, changed.settings) = ("shop", Array("{}".utf8))
            try expect(
                try await store.endpoints.saveWebhook(changed, replacing: (first ?? 0) + 1),
                is: nil,
                "a replacement of another revision"
            )
            let second = try await store.endpoints.saveWebhook(changed, replacing: first)
            try expect((second ?? 0) > (first ?? 0), "the revision does not grow")
            _ = try await store.endpoints.saveWebhook(.sample("b"), replacing: nil)
            store = try await fixture.reopen(store)
            changed.revision = second ?? 0
            let found = try await store.endpoints.webhooks()
            try expect(found.first, is: changed, "the endpoint after a restart")
            try expect(found.map(\.name), is: ["a", "b"], "all endpoints, in order")
            try expect(try await store.endpoints.webhookProgress("a")?.cursor, is: 3, "its cursor after a change")
            try expect(try await store.endpoints.webhookProgress("c"), is: nil, "an endpoint that is not there")
            await store.close()
        },
        StoreConformanceCase("One holder at a time changes an endpoint, and a lease that is over can be taken") {
            fixture in
            let store = try await fixture.open()
            guard store.abilities.webhooks != nil else { return await store.close() }
            let endpoints = store.endpoints
            try expect(try await endpoints.holdWebhook("a", holder: "x", for: .seconds(30)), is: nil, "no endpoint")
            _ = try await endpoints.saveWebhook(.sample("a"), replacing: nil)
            let held = try await endpoints.holdWebhook("a", holder: "x", for: .seconds(30))
            try expect(held?.cursor, is: 0, "the progress of a lease")
            try expect(try await endpoints.holdWebhook("a", holder: "y", for: .seconds(30)), is: nil, "a held endpoint")
            let moved = WebhookProgress(cursor: 7, memory: [4, 2])
            try expect(
                try await endpoints.changeWebhook(
                    WebhookChange(name: "a", holder: "y", progress: moved, kept: [.sample("m")])
                ),
                is: false,
                "a change without the lease"
            )
            try expect(try await endpoints.webhookCounts(of: "a"), is: WebhookCounts(), "messages of that change")
            try expect(
                try await endpoints.changeWebhook(WebhookChange(name: "a", holder: "x", progress: moved)),
                is: true,
                "a change of the holder"
            )
            fixture.time.advance(by: .seconds(29))
            try expect(try await endpoints.holdWebhook("a", holder: "x", for: .seconds(30)), is: moved, "extended")
            fixture.time.advance(by: .seconds(29))
            try expect(try await endpoints.holdWebhook("a", holder: "y", for: .seconds(30)), is: nil, "still held")
            fixture.time.advance(by: .seconds(2))
            try expect(try await endpoints.holdWebhook("a", holder: "y", for: .seconds(30)), is: moved, "taken")
            try expect(
                try await endpoints.changeWebhook(WebhookChange(name: "a", holder: "x", progress: moved)),
                is: false,
                "a change of the former holder"
            )
            try await endpoints.releaseWebhook("a", holder: "x")
            try expect(try await endpoints.holdWebhook("a", holder: "x", for: .seconds(9)), is: nil, "not released")
            try await endpoints.releaseWebhook("a", holder: "y")
            try expect(try await endpoints.holdWebhook("a", holder: "x", for: .seconds(9)), is: moved, "released")
            await store.close()
        },
        StoreConformanceCase("Messages are kept whole, found by what is due, and go with their endpoint") { fixture in
            var store = try await fixture.open()
            guard store.abilities.webhooks != nil else { return await store.close() }
            _ = try await store.endpoints.saveWebhook(.sample("a"), replacing: nil)
            _ = try await store.endpoints.saveWebhook(.sample("b"), replacing: nil)
            let messages = (0..<5).map { place in
                WebhookMessage.sample("m\(place)", number: Int64(9 - place), due: Double(100 + place))
            }
            _ = try await store.endpoints.changeWebhook(WebhookChange(name: "a", holder: nil, kept: messages))
            _ = try await store.endpoints.changeWebhook(WebhookChange(name: "b", holder: nil, kept: [messages[0]]))
            var given = messages[1]
            (given.state, given.due) = (.failed, Date(timeIntervalSince1970: 500))
            _ = try await store.endpoints.changeWebhook(
                WebhookChange(name: "a", holder: nil, kept: [given], removed: ["m0", "m9"])
            )
            store = try await fixture.reopen(store)
            let endpoints = store.endpoints
            func due(_ second: Double, _ limit: Int = 9) async throws -> [WebhookMessage] {
                try await endpoints.webhookMessages(
                    of: "a",
                    .open,
                    at: Date(timeIntervalSince1970: second),
                    limit: limit
                )
            }
            try expect(try await due(103), is: [messages[2], messages[3]], "what is due")
            try expect(try await due(999, 1), is: [messages[2]], "the first one due")
            try expect(try await endpoints.firstOpenWebhookMessage(of: "a"), is: messages[4], "the oldest event")
            try expect(
                try await endpoints.nextWebhookMessage(of: "a"),
                is: Date(timeIntervalSince1970: 102),
                "the next time"
            )
            try expect(try await endpoints.webhookMessage("m1", of: "a"), is: given, "a message by its id")
            try expect(try await endpoints.webhookCounts(of: "a"), is: WebhookCounts(open: 3, failed: 1), "counts")
            let failed = try await endpoints.webhookMessages(
                of: "a",
                .failed,
                at: Date(timeIntervalSince1970: 500),
                limit: 9
            )
            try expect(failed, is: [given], "messages given up since")
            let before = Date(timeIntervalSince1970: 501)
            try expect(try await endpoints.purgeWebhookMessages(before: before, limit: 9), is: 1, "removed as old")
            try expect(try await endpoints.webhookCounts(of: "a"), is: WebhookCounts(open: 3), "counts after that")
            try expect(try await endpoints.removeWebhook("a"), is: true, "a removal")
            try expect(try await endpoints.removeWebhook("a"), is: false, "a second one")
            _ = try await endpoints.saveWebhook(.sample("a"), replacing: nil)
            try expect(try await endpoints.webhookCounts(of: "a"), is: WebhookCounts(), "messages of a new endpoint")
            try expect(try await endpoints.webhookCounts(of: "b"), is: WebhookCounts(open: 1), "those of another one")
            await store.close()
        },
    ]
}

extension NotificationStore {
    /// The endpoints of a store that keeps them.
    fileprivate var endpoints: any WebhookStore {
        guard let webhooks = abilities.webhooks else { preconditionFailure("checked at the beginning of a case") }
        return webhooks
    }
}

extension StoredWebhook {
    fileprivate static func sample(_ name: String) -> Self {
        Self(name: name, app: "", settings: Array(#"{"url":"https://example.com/"}"#.utf8))
    }
}

extension WebhookMessage {
    fileprivate static func sample(_ id: String, number: Int64 = 1, due: Double = 0) -> Self {
        Self(
            id: id,
            number: number,
            state: .open,
            due: Date(timeIntervalSince1970: due),
            record: Array(#"{"events":[1]}"#.utf8)
        )
    }
}
