import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension AudienceStoreConformance {
    static let windows: [AudienceStoreConformanceCase] = [
        AudienceStoreConformanceCase("A walk reads at most three rows for each match, and one for each window") {
            store in
            let tags = ["one", "two", "three", "four", "five"]
            for start in stride(from: 0, to: 1_000, by: 100) {
                _ = try await store.put(
                    (start..<start + 100).map { number in
                        var own = [tags[number % 5]]
                        if number % 2 == 0 { own.append("even") }
                        if number % 20 == 0 { own.append("rare") }
                        return Device.sample("device-\(number)", tags: own)
                    }
                )
            }
            let rules: [(String, AudienceRule, Int)] = [
                ("one tag", .tag("rare"), 50), ("two tags", .all([.tag("even"), .tag("rare")]), 50),
                ("any of five", .any(tags.map(AudienceRule.tag)), 1_000), ("not", .not(.tag("even")), 500),
                ("none", .tag("unknown"), 0),
            ]
            for (name, rule, count) in rules {
                let walk = try await store.walk(.sample(rule), span: 50, limit: 20)
                try expect(walk.ids.count, is: count, "matches of \(name)")
                if store is MemoryDeviceStore { continue }
                try expect(walk.rowsRead <= 3 * walk.matched + walk.windows, "\(name) read \(walk.rowsRead) rows")
            }
        },
        AudienceStoreConformanceCase("Devices whose tags change during a walk come at most once, and the others once") {
            store in
            _ = try await store.put((0..<40).map { Device.sample("device-\($0)", tags: ["news"]) })
            let plan = try await store.plan(.sample(.tag("news")))
            let end = try await store.lastDeviceNumber()
            var ids: [String] = []
            var cursor: Int64 = 0
            var turn = 0
            while cursor < end {
                let window = try await store.window(plan, after: cursor, through: end, limit: 7)
                ids += window.devices.map(\.device.id)
                cursor = window.cursor
                turn += 1
                // One that was found, one that was not, and a new one.
                let own = turn % 2 == 0 ? ["news"] : []
                _ = try await store.patch("device-0") { $0.tags = own }
                _ = try await store.patch("device-39") { $0.tags = own + ["x"] }
                try await store.put(.sample("late-\(turn)", tags: ["news"]))
            }
            try expect(Set(ids).count, is: ids.count, "devices that came twice")
            try expect(Set(ids).isSuperset(of: (1..<39).map { "device-\($0)" }), "those that stayed came")
            try expect(ids.contains { $0.hasPrefix("late") }, is: false, "one that was registered during the walk came")
        },
        AudienceStoreConformanceCase("A device that a window has read is seen with each change since") { store in
            for (name, change) in AudienceChange.all { try await AudienceChange.check(name, change, store) }
        },
        AudienceStoreConformanceCase("A device keeps its number through changes, and gets a new one after a deletion") {
            store in
            try await store.put(.sample("a"))
            let first = try await store.subjects(["a"])["a"]?.number
            try await store.put(.sample("b"))
            _ = try await store.patch("a") { $0.user = "ali" }
            try expect(try await store.subjects(["a"])["a"]?.number, is: first, "the number after a change")
            _ = try await store.delete("a")
            try await store.put(.sample("a"))
            let last = try await store.lastDeviceNumber()
            try expect(try await store.subjects(["a"])["a"]?.number, is: last, "the number after a deletion")
            try expect(try await store.subjects(["a", "x"]).count, is: 1, "subjects")
            let empty = try await store.window(store.plan(.sample(.everyone)), after: last, through: last, limit: 5)
            try expect(empty.isOver && empty.devices.isEmpty, "an empty range is over")
        },
    ]
}

/// A change of the device `a` of the user `ali`, whose next look must show it.
private struct AudienceChange {
    typealias Change = @Sendable (AudienceStoreConformance.Store) async throws -> Void

    static func check(_ name: String, _ change: Change, _ store: AudienceStoreConformance.Store) async throws {
        for id in ["a", "b", "c"] { _ = try await store.delete(id) }
        try await store.put(.sample("a", user: "ali", tags: ["news"]))
        try await store.put(.sample("b", user: "sara", tags: ["news"]))
        try await store.label("ali", AudienceLabel.userTag("gold"))
        var plan = try await store.plan(.sample(.tag("news")))
        plan.isForSends = true
        let end = try await store.lastDeviceNumber()
        let window = try await store.window(plan, after: 0, through: end, limit: 100)
        try expect(window.devices.map(\.device.id), is: ["a", "b"], "what the window has before \(name)")
        try await change(store)
        let seen = try await store.subjects(["a", "b"])
        try expect(seen["a"] != window.devices[0], "\(name) is seen")
        // What a store kept was handed out.
        try expect(try await store.subjects(["a", "b"]), is: seen, "what is read anew after \(name)")
    }

    static let all: [(String, Change)] = [
        ("a new tag", { store in _ = try await store.patch("a") { $0.tags = ["news", "x"] } }),
        ("a log-out", { store in _ = try await store.patch("a") { $0.user = nil } }),
        ("a deletion", { store in _ = try await store.delete("a") }),
        (
            "a registration anew",
            { store in try await store.put(.sample("a", user: "ali", tokens: [.sample("z", at: 9)])) }
        ),
        (
            "a token that another device takes",
            { store in try await store.put(.sample("c", tokens: [.sample("a", at: 9)])) }
        ),
        ("a token that is removed", { store in try await store.remove([.sample("a")], in: .default) }),
        ("a dead token", { store in _ = try await store.invalidate([.sample("a", asOf: 5)]) }),
        (
            "a tag of the user",
            { store in try await store.label("ali", AudienceLabel.userTag("silver")) }
        ),
        (
            "a tag that the user loses",
            { store in
                _ = try await store.relabel([LabelChange(.user("ali"), removed: [AudienceLabel.userTag("gold")])])
            }
        ),
        (
            "a suspension",
            { store in
                _ = try await store.relabel([LabelChange(.device("a"), added: [AudienceLabel.standing(.suspended)])])
            }
        ),
    ]
}
