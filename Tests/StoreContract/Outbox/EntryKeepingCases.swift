import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension OutboxStoreConformance {
    /// Checks which entries stay, which are removed, and what the store reports of them.
    static let keeping: [OutboxStoreConformanceCase] = [
        OutboxStoreConformanceCase("What was accepted survives the end of its owner", needsDisk: true) { fixture in
            let added = [fixture.operation("a"), fixture.operation("a", .tags), fixture.operation("b", user: "u")]
            try await fixture.store.enqueue(added)
            _ = try await fixture.claim(1, lease: .seconds(3_600))
            let again = try await fixture.reopened()
            let waiting = try await again.store.entries(ofDevice: "a", limit: 9)
            try expect(waiting.map(\.operation), is: Array(added.prefix(2)), "what waits, in order")
            let claims = try await again.claim()
            try expect(Set(claims.map(\.operation.id)), is: [added[0].id, added[2].id], "what is due at once")
            try expect(
                claims.first { $0.operation.id == added[0].id }?.attempt,
                is: 2,
                "the try whose owner died counts"
            )
            await again.close(again.store)
        },
        OutboxStoreConformanceCase("What is over is gone for good", needsDisk: true) { fixture in
            try await fixture.store.enqueue([fixture.operation("a"), fixture.operation("a", .tags)])
            try await fixture.store.record(try await fixture.claim().map { OutboxResult($0, .end) })
            let again = try await fixture.reopened()
            try expect(try await again.claim().map(\.operation.kind), is: [.tags], "what is left")
            await again.close(again.store)
        },
        OutboxStoreConformanceCase("What a platform asked for counts after a restart as well", needsDisk: true) {
            fixture in
            try await fixture.store.enqueue([fixture.operation("a")])
            let claim = try await fixture.claim()[0]
            var result = OutboxResult(claim, .retry(at: fixture.time.steady.addingTimeInterval(60)))
            result.asksToWait = true
            try await fixture.store.record([result])
            let again = try await fixture.reopened()
            try expect(try await again.store.makeRetriesDue(ofEntriesAt: "crm"), is: 0, "entries that became due")
            try expect(try await again.due(), is: [], "what is due before its time")
            await again.close(again.store)
        },
        OutboxStoreConformanceCase("What waits for a device is listed in order, with its tries and its time") {
            fixture in
            try await fixture.store.enqueue([
                fixture.operation("a"), fixture.operation("a", .tags), fixture.operation("b"),
            ])
            let moment = fixture.time.now + 30
            try await fixture.store.record(try await fixture.claim().map { OutboxResult($0, .retry(at: moment)) })
            let waiting = try await fixture.store.entries(ofDevice: "a", limit: 9)
            try expect(waiting.map(\.operation.kind), is: [.subscription, .tags], "in order")
            try expect(waiting.map(\.attempts), is: [1, 0], "tries")
            try expect(waiting.map { $0.due != nil }, is: [true, false], "whether it is its turn")
            try expect(waiting[0].due?.millisecondsSince1970, is: moment.millisecondsSince1970, "when")
            try expect(try await fixture.store.entries(ofDevice: "a", limit: 1).count, is: 1, "no more than asked")
        },
        OutboxStoreConformanceCase("Removing takes one device's or all of a backend, and leaves what comes later") {
            fixture in
            let store = fixture.store
            for device in ["a", "b", "c"] {
                try await store.enqueue([fixture.operation(device), fixture.operation(device, .tags)])
            }
            try await store.enqueue([fixture.operation("a", backend: "other")])
            try expect(try await store.cancelEntries(of: "crm", device: "a"), is: 2, "of one device")
            try expect(try await store.cancelEntries(of: "crm", device: nil), is: 4, "of all")
            try expect(try await store.cancelEntries(of: "crm", device: nil), is: 0, "of none")
            try expect(try await fixture.due(backend: "other"), is: ["a"], "what another backend has")
            try await store.enqueue([fixture.operation("a")])
            try expect(try await fixture.due(), is: ["a"], "what comes later")
        },
        OutboxStoreConformanceCase("An operation that was removed while it was carried out is over") { fixture in
            try await fixture.store.enqueue([fixture.operation("a")])
            let claims = try await fixture.claim()
            _ = try await fixture.store.cancelEntries(of: "crm", device: "a")
            let moment = fixture.time.now
            try await fixture.store.record(claims.map { OutboxResult($0, .retry(at: moment)) })
            try expect(try await fixture.due(), is: [], "what is due")
        },
        OutboxStoreConformanceCase("It is known how many wait at each backend, and since when") { fixture in
            let at = fixture.time.now.millisecondsSince1970
            try await fixture.store.enqueue([fixture.operation("a"), fixture.operation("a", .tags)])
            fixture.time.advance(by: .seconds(5))
            try await fixture.store.enqueue([fixture.operation("b"), fixture.operation("b", backend: "other")])
            let depths = try await fixture.store.outboxDepths()
            try expect(depths.mapValues(\.waiting), is: ["crm": 3, "other": 1], "how many")
            try expect(depths["crm"]?.oldest?.millisecondsSince1970, is: at, "since when")
        },
        OutboxStoreConformanceCase("Many lines are all served, each in its order") { fixture in
            let devices = (0..<300).map { "d\($0)" }
            for kind in [OutboxEntry.Kind.register, .tags, .event] {
                try await fixture.store.enqueue(devices.map { fixture.operation($0, kind) })
            }
            var seen: [String: [OutboxEntry.Kind]] = [:]
            while true {
                let claims = try await fixture.claim(7)
                if claims.isEmpty { break }
                for claim in claims { seen[claim.operation.device, default: []].append(claim.operation.kind) }
                try await fixture.store.record(claims.map { OutboxResult($0, .end) })
            }
            try expect(seen.count, is: 300, "devices")
            try expect(Set(seen.values), is: [[.register, .tags, .event]], "orders")
        },
        OutboxStoreConformanceCase("Attributes are kept, and replaced whole") { fixture in
            var device = Device.sample("a")
            device.attributes = ["os_version": "17.2", "notifications_allowed": true, "level": 7, "ratio": 0.5]
            _ = try await fixture.store.put([device])
            try expect(try await fixture.store.device("a")?.attributes, is: device.attributes, "as they were put")
            device.attributes = ["model": "iPhone"]
            _ = try await fixture.store.put([device])
            try expect(
                try await fixture.store.device("a")?.attributes,
                is: ["model": "iPhone"],
                "as they were replaced"
            )
            _ = try await fixture.store.patch("a") { $0.attributes = JSONObject() }
            try expect(try await fixture.store.device("a")?.attributes, is: JSONObject(), "once they are gone")
        },
    ]
}
