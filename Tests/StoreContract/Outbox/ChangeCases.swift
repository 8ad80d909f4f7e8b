import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension OutboxStoreConformance {
    /// Checks that a change of a device is in the outbox from its own commit until its operations are committed.
    static let outbox: [OutboxStoreConformanceCase] = [
        OutboxStoreConformanceCase("A change is kept with its device, before and after it are as they were") {
            fixture in
            let store = fixture.store
            var device = Device.sample("a")
            device.locale = "fa"
            _ = try await store.put([device], outbox: .second(1))
            _ = try await store.patch("a", outbox: .second(2)) { $0.locale = "en" }
            _ = try await store.patch("b", outbox: .second(3)) { $0.locale = "en" }
            let introduced = try await store.backfill(["a", "b"], to: "crm", at: .second(4))
            try expect(introduced, is: 1, "devices that were introduced")
            _ = try await store.delete("a", outbox: .second(5))
            _ = try await store.delete("a", outbox: .second(6))
            let changes = try await fixture.changes()
            try expect(changes.map(\.word), is: ["fa 1", "fa>en 2", "crm: en 4", "en> 5"], "changes, in order")
            try expect(changes.map(\.number), is: changes.map(\.number).sorted(), "their numbers")
            let whole = OutboxChange.Content.device(old: nil, new: device.roundedToMilliseconds)
            try expect(changes.first?.content, is: whole, "the device as it was put")
        },
        OutboxStoreConformanceCase("A change is kept whole") { fixture in
            var device = Device.sample(
                "a",
                user: "u",
                tokens: [.sample("t"), .sample("u", .iOSFirebase)],
                tags: ["x", "y:1"],
                platform: "ios"
            )
            device.locale = "fa-IR"
            device.appVersion = "1.2"
            device.timeZone = "Asia/Tehran"
            device.lastSeen = .second(3)
            device.attributes = ["model": "iPhone", "level": 7, "ratio": 0.5, "allowed": true]
            let stored = try await fixture.store.put([device])[0].device
            _ = try await fixture.store.invalidate([.sample("u", .iOSFirebase, asOf: 5)], outbox: .second(9))
            let dead = try await fixture.store.device("a")
            try expect(
                try await fixture.changes().map(\.content),
                is: [.device(old: stored, new: dead)],
                "before and after"
            )
            try expect(dead?.tokens.filter(\.isAlive).count, is: 1, "live tokens")
        },
        OutboxStoreConformanceCase("A device that loses a token to another one is in the outbox too") { fixture in
            let store = fixture.store
            _ = try await store.put([.sample("a", tokens: [.sample("t"), .sample("u", .iOSFirebase)])])
            _ = try await store.put([.sample("b", tokens: [.sample("t", at: 1)])], outbox: .second(1))
            let tokens = try await fixture.changes().map { change -> String in
                guard case .device(let old, let new) = change.content else { return "?" }
                return "\(change.content.device) \(old?.tokens.count ?? 0)>\(new?.tokens.count ?? 0)"
            }
            try expect(Set(tokens), is: ["a 2>1", "b 0>1"], "who lost and who took")
        },
        OutboxStoreConformanceCase("What no platform can hear of, and what nobody wants to hear of, is not kept") {
            fixture in
            _ = try await fixture.store.put([.sample("a")])
            _ = try await fixture.store.patch("a", outbox: .second(1)) {
                $0.lastSeen = .second(1)
                $0.updatedAt = .second(1)
            }
            try expect(try await fixture.changes().count, is: 0, "changes")
            try expect(try await fixture.store.unplannedCount(ofDevice: nil), is: 0, "how many")
        },
        OutboxStoreConformanceCase("Operations take the place of their changes, once") { fixture in
            let store = fixture.store
            _ = try await store.put([.sample("a"), .sample("b")], outbox: .second(1))
            let changes = try await fixture.changes()
            let plans = changes.map {
                OutboxPlan(change: $0.number, [fixture.operation($0.content.device, .register)])
            }
            try await store.record(Array(plans.prefix(1)))
            try expect(try await fixture.changes().map(\.number), is: [changes[1].number], "what is left")
            try expect(try await store.unplannedCount(ofDevice: "a"), is: 0, "of the first device")
            try expect(try await store.unplannedCount(ofDevice: "b"), is: 1, "of the second device")
            try expect(try await store.unplannedCount(ofDevice: nil), is: 1, "of all")
            let claims = try await fixture.claim()
            try await store.record(claims.map { OutboxResult($0, .end) })
            try await store.record(plans)
            try expect(try await fixture.due(), is: ["b"], "what is due when it is all planned again")
        },
        OutboxStoreConformanceCase("An operation waits behind the changes of its device, and no other's") {
            fixture in
            let store = fixture.store
            _ = try await store.put([.sample("a")], outbox: .second(1))
            let later = fixture.operation("a", .tags, user: "u", body: ["tags": ["x": "1"]])
            try await store.enqueue([later, fixture.operation("b", .tags)])
            try expect(try await fixture.due(), is: ["b"], "what is due")
            let changes = try await fixture.changes()
            try expect(changes.last?.content, is: .operation(later), "what waits in the outbox")
            let first = OutboxPlan(change: changes[0].number, [fixture.operation("a", .register)])
            try await store.record([first])
            try await store.enqueue([fixture.operation("a", .event)])
            for change in try await fixture.changes() {
                guard case .operation(let operation) = change.content else { continue }
                try await store.record([OutboxPlan(change: change.number, [operation])])
            }
            let waiting = try await store.entries(ofDevice: "a", limit: 9)
            try expect(waiting.map(\.operation.kind), is: [.register, .tags, .event], "in the order of acceptance")
        },
        OutboxStoreConformanceCase("A backend hears of nothing that was in the outbox when it was cleared") {
            fixture in
            let store = fixture.store
            _ = try await store.put([.sample("a"), .sample("b")], outbox: .second(1))
            try expect(try await store.cancelEntries(of: "crm", device: "a"), is: 0, "operations")
            _ = try await store.patch("a", outbox: .second(2)) { $0.locale = "fa" }
            for change in try await fixture.changes() {
                let device = change.content.device
                let operations = ["crm", "other"].map { fixture.operation(device, .tags, backend: $0) }
                try await store.record([OutboxPlan(change: change.number, operations)])
            }
            let waiting = try await store.entries(ofDevice: "a", limit: 9).map(\.operation.backend)
            try expect(waiting.filter { $0 == "crm" }.count, is: 1, "what came later")
            try expect(waiting.filter { $0 == "other" }.count, is: 2, "what another backend hears")
            try expect(try await fixture.due(), is: ["b", "a"], "what the backend hears")
        },
        OutboxStoreConformanceCase("A look for changes that waits gets what is changed meanwhile") { fixture in
            let look = Task { try await fixture.store.unplannedChanges(limit: 5, wait: .seconds(60)) }
            _ = try await fixture.store.put([.sample("a")], outbox: .second(1))
            try expect(try await look.value.map(\.content.device), is: ["a"], "what it gets")
            let patient = Task {
                for change in try await fixture.changes() {
                    try await fixture.store.record([OutboxPlan(change: change.number, [])])
                }
                return try await fixture.store.unplannedChanges(limit: 5, wait: .seconds(2))
            }
            try expect(try await fixture.time.advance(until: patient).count, is: 0, "at the end of its patience")
        },
        OutboxStoreConformanceCase("Changes survive the end of their owner, in order", needsDisk: true) { fixture in
            _ = try await fixture.store.put([.sample("a")], outbox: .second(1))
            _ = try await fixture.store.delete("a", outbox: .second(2))
            let later = fixture.operation("a", .event)
            try await fixture.store.enqueue([later])
            let before = try await fixture.changes()
            try expect(before.count, is: 3, "changes")
            let again = try await fixture.reopened()
            try expect(try await again.changes(), is: before, "what is found")
            try await again.store.record([OutboxPlan(change: before[0].number, [again.operation("a", .register)])])
            let third = try await again.reopened()
            try expect(try await third.changes(), is: Array(before.dropFirst()), "what is left")
            try expect(try await third.due(), is: ["a"], "what was planned")
            await third.close(third.store)
        },
    ]
}

extension OutboxFixture {
    /// Returns the changes that are not planned yet.
    fileprivate func changes() async throws -> [OutboxChange] {
        try await store.unplannedChanges(limit: 100, wait: .zero)
    }
}

extension OutboxChange {
    /// The content of the change, by the locales of the device, and its second.
    fileprivate var word: String {
        let second = Int(at.timeIntervalSince(.second(0)))
        switch content {
        case .device(nil, let new): return "\(new?.locale ?? "") \(second)"
        case .device(let old, let new): return "\(old?.locale ?? "")>\(new?.locale ?? "") \(second)"
        case .introduction(let device, let backend): return "\(backend): \(device.locale ?? "") \(second)"
        case .operation(let operation): return "\(operation.kind) \(second)"
        }
    }
}
