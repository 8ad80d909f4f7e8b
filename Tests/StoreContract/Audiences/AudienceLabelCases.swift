import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension AudienceStoreConformance {
    private static let gold = AudienceLabel.userTag("gold")

    static let labels: [AudienceStoreConformanceCase] = [
        AudienceStoreConformanceCase("A user's tags apply to each of the user's devices, and stay with the user") {
            store in
            try await store.put(.sample("a", user: "ali"))
            try await store.label("ali", gold)
            try await store.put(.sample("b", user: "ali"))
            try await store.put(.sample("c", user: "sara"))
            let rule = Audience.sample(.userTag("gold"))
            try expect(try await store.walk(rule).ids, is: ["a", "b"], "devices of the user")
            try expect(try await store.counts(), is: [gold: 2], "counts")
            // A shared phone: the next user's messages, and no others.
            _ = try await store.patch("a") { $0.user = "sara" }
            _ = try await store.patch("c") { $0.user = "ali" }
            try expect(try await store.walk(rule).ids, is: ["b", "c"], "after two switches")
            _ = try await store.patch("b") { $0.user = nil }
            try expect(try await store.walk(rule).ids, is: ["c"], "after a log-out")
            try expect(try await store.counts(), is: [gold: 1], "counts after the switches")
            _ = try await store.relabel([LabelChange(.user("ali"), removed: [gold])])
            try expect(try await store.walk(rule).ids, is: [], "without the tag")
            try expect(try await store.counts(), is: [:], "counts without the tag")
            try expect(try await store.labels(ofUser: "ali"), is: [], "labels")
        },
        AudienceStoreConformanceCase("A device's own segments and standing stay with it when the user changes") {
            store in
            try await store.put(.sample("a", user: "ali"))
            let segment = AudienceLabel.devices("testers", in: .default)
            let changes = [
                LabelChange(.device("a"), added: [segment, AudienceLabel.standing(.suspended)]),
                LabelChange(.device("unknown"), added: [segment]),
            ]
            try expect(try await store.relabel(changes), is: [.device("a")], "devices that exist")
            _ = try await store.patch("a") { $0.user = "sara" }
            let suspended = try await store.walk(.sample(.segment("testers")))
            try expect(suspended.skipped, is: [.suspended: 1], "skipped")
            try expect(try await store.subjects(["a"])["a"]?.standing, is: .suspended, "the standing")
            _ = try await store.relabel([LabelChange(.device("a"), removed: AudienceLabel.standings)])
            try expect(try await store.walk(.sample(.segment("testers"))).ids, is: ["a"], "after it resumed")
            try expect(try await store.members(of: segment, after: nil, limit: 9), is: ["a"], "members")
        },
        AudienceStoreConformanceCase("Counts of tags follow each change of a device, within its app") { store in
            let shop = AppName(rawValue: "shop")
            _ = try await store.put([
                .sample("a", tags: ["news", "beta"]), .sample("b", tags: ["news"]), .sample("shop/c", tags: ["news"]),
            ])
            try expect(try await store.counts(), is: ["t:news": 2, "t:beta": 1], "of the default app")
            try expect(try await store.counts(shop), is: ["t:news": 1], "of another app")
            _ = try await store.patch("a") { $0.tags = ["beta", "new"] }
            try await store.put(.sample("b", tags: []))
            try expect(try await store.counts(), is: ["t:beta": 1, "t:new": 1], "after changes")
            _ = try await store.delete("a")
            try expect(try await store.counts(), is: [:], "after the device is gone")
            let counts = try await store.labelCounts(in: shop, after: "t:news", limit: 5)
            try expect(counts, is: [], "after the last one")
        },
        AudienceStoreConformanceCase("Nothing of a device or a user is left in segments and counts once they are gone")
        {
            store in
            try await store.put(.sample("a", user: "ali", tags: ["news"]))
            let (people, devices) = (
                AudienceLabel.users("vip", in: .default), AudienceLabel.devices("testers", in: .default)
            )
            try await store.label("ali", gold, people, AudienceLabel.list("offers", isIn: false))
            _ = try await store.relabel([LabelChange(.device("a"), added: [devices])])
            let counted: [String: Int64] = ["t:news": 1, gold: 1, people: 1, devices: 1]
            try expect(try await store.counts(), is: counted, "counts before")
            _ = try await store.delete("a")
            let labels = try await store.labels(ofUser: "ali")
            try expect(labels.count, is: 3, "labels of the user")
            _ = try await store.relabel([LabelChange(.user("ali"), removed: labels)])
            try expect(try await store.counts(), is: [:], "counts")
            for label in [people, devices] {
                try expect(try await store.members(of: label, after: nil, limit: 9), is: [], "members of \(label)")
            }
            // A device that is registered again is a new one.
            try await store.put(.sample("a", user: "ali"))
            try expect(try await store.walk(.sample(.segment("testers"))).ids, is: [], "members after a registration")
            try expect(try await store.walk(.sample(.segment("vip"))).ids, is: [], "users after a registration")
        },
        AudienceStoreConformanceCase("A choice about a list wins over its default") { store in
            try await store.put(.sample("a", user: "in"))
            try await store.put(.sample("b", user: "out"))
            try await store.put(.sample("c", user: "silent"))
            try await store.put(.sample("d"))
            try await store.label("in", AudienceLabel.list("offers", isIn: true))
            try await store.label("out", AudienceLabel.list("offers", isIn: false))
            func reached(_ list: Audience.List?) async throws -> [String] {
                try await store.walk(.sample(.everyone, list: list)).ids
            }
            try expect(try await reached(nil), is: ["a", "b", "c", "d"], "without a list")
            try expect(
                try await reached(Audience.List("offers", isDefault: true)),
                is: ["a", "c", "d"],
                "by default in"
            )
            try expect(try await reached(Audience.List("offers", isDefault: false)), is: ["a"], "by default out")
            try expect(try await reached(Audience.List("other", isDefault: false)), is: [], "another list")
        },
    ]
}
