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
