import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension DeviceStoreConformance {
    static let records: [DeviceStoreConformanceCase] = [
        DeviceStoreConformanceCase("A device comes back as it was put, to the millisecond") { store in
            let device = Device(
                id: "A-z.9_:x",
                user: "user \u{1F600}",
                platform: "web",
                tokens: [
                    .sample("b", .androidFirebase, at: 0.001), .sample("a"),
                    RegisteredToken(
                        .sample("c", .iOSFirebase),
                        registeredAt: .second(1),
                        tombstone: Tombstone(
                            asOf: .second(2.345),
                            at: .second(3),
                            backend: "fcm",
                            reason: "UNREGISTERED",
                            isQuarantined: true
                        )
                    ),
                ],
                tags: ["plan:pro", "city:tehran", "plan:pro"],
                locale: "fa-IR",
                appVersion: "1.2 (3)",
                timeZone: "Asia/Tehran",
                createdAt: .second(0.5),
                updatedAt: .second(0.25),
                lastSeen: .second(0.125)
            )
            let put = try await store.put(device)
            try expect(put, is: DevicePut(device, isNew: true), "what put returns")
            try expect(try await store.device("A-z.9_:x"), is: device, "the device")
            try expect(try await store.device("a-z.9_:x"), is: nil, "an id with other letters")
        },
        DeviceStoreConformanceCase("A device is replaced whole, but for the time it was registered first") { store in
            try await store.put(.sample("a", user: "u", tags: ["x"], at: 1))
            let second = Device.sample("a", tokens: [.sample("n", .androidHuawei, at: 9)], tags: ["y"], at: 9)
            let put = try await store.put(second)
            var wanted = second
            wanted.createdAt = .second(1)
            try expect(put, is: DevicePut(wanted, isNew: false), "what put returns")
            try expect(try await store.device("a"), is: wanted, "the device")
            try expect(try await store.ids(DeviceQuery(user: "u")), is: [], "devices of its old user")
            try expect(try await store.ids(DeviceQuery(tag: "x")), is: [], "devices with its old tag")
            try expect(try await store.ids(DeviceQuery(tag: "y")), is: ["a"], "devices with its new tag")
            try expect(try await store.device(having: .sample("a")), is: nil, "who has its old token")
        },
        DeviceStoreConformanceCase("Many devices are put at once, and of a repeated one the last counts") { store in
            var batch = (0..<300).map { Device.sample("d\($0)", at: Double($0)) }
            batch.append(.sample("d7", user: "late", at: 400))
            let puts = try await store.put(batch)
            try expect(puts.map(\.device.id), is: batch.map(\.id), "the order of the results")
            try expect(puts.filter(\.isNew).count, is: 300, "new devices")
            try expect(try await store.device("d7")?.user, is: "late", "the user of the repeated one")
            let found = try await store.devices(["d1", "nobody", "d299"])
            try expect(found.keys.sorted(), is: ["d1", "d299"], "devices that exist")
        },
        DeviceStoreConformanceCase(
            "A patch changes what it says, all at once, and nothing of a device that is not there"
        ) {
            store in
            try await store.put(.sample("a", user: "u", tags: ["x"]))
            let patched = try await store.patch("a") { device in
                device.id = "other"
                device.createdAt = .second(99)
                device.tags = ["y"]
                device.setToken(.sample("f", .iOSFirebase, at: 5))
                device.updatedAt = .second(5)
            }
            var wanted = Device.sample("a", user: "u", tags: ["y"])
            wanted.setToken(.sample("f", .iOSFirebase, at: 5))
            wanted.updatedAt = .second(5)
            try expect(patched, is: wanted, "what patch returns")
            try expect(try await store.device("a"), is: wanted, "the device")
            try expect(try await store.patch("b") { $0.user = "x" }, is: nil, "a patch of nobody")
            try expect(try await store.ids(), is: ["a"], "devices")
        },
        DeviceStoreConformanceCase("Patches that run at the same time all count") { store in
            try await store.put(.sample("a"))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<50 {
                    group.addTask { _ = try await store.patch("a") { $0.tags.append("t\(number)") } }
                }
                try await group.waitForAll()
            }
            let tags = try await store.device("a")?.tags ?? []
            try expect(Set(tags).count, is: 50, "tags of 50 patches")
        },
        DeviceStoreConformanceCase("A deleted device is gone with everything it had") { store in
            try await store.put(.sample("a", user: "u", tags: ["x"]))
            try expect(try await store.delete("a"), is: true, "the first delete")
            try expect(try await store.delete("a"), is: false, "the second delete")
            try expect(try await store.device("a"), is: nil, "the device")
            try expect(try await store.device(having: .sample("a")), is: nil, "who has its token")
            for query in [DeviceQuery(), DeviceQuery(user: "u"), DeviceQuery(tag: "x")] {
                try expect(try await store.ids(query), is: [], "devices in the list")
            }
            let buried = try await store.invalidate([.sample("a", asOf: 9)])
            try expect(buried, is: [], "its token buried")
            try expect(try await store.put(.sample("a", at: 20)).isNew, is: true, "a device with its id is new")
        },
    ]

    static let ownership: [DeviceStoreConformanceCase] = [
        DeviceStoreConformanceCase("A token that another device registers is taken from the first") { store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1), .sample("f", .iOSFirebase, at: 1)]))
            let put = try await store.put(.sample("b", tokens: [.sample("t", at: 2)]))
            try expect(put.device.tokens, is: [.sample("t", at: 2)], "the tokens of the second")
            try expect(try await store.device("a")?.tokens, is: [.sample("f", .iOSFirebase, at: 1)], "of the first")
            try expect(try await store.device(having: .sample("t"))?.id, is: "b", "who has it")
        },
        DeviceStoreConformanceCase("A device that registered a token later keeps it") { store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 5)]))
            let put = try await store.put(
                .sample("b", tokens: [.sample("t", at: 4), .sample("g", .iOSFirebase, at: 4)])
            )
            try expect(put.device.tokens, is: [.sample("g", .iOSFirebase, at: 4)], "the tokens of the second")
            try expect(try await store.device(having: .sample("t"))?.id, is: "a", "who has it")
        },
        DeviceStoreConformanceCase("Within one call the later device gets the token, and the answer shows it") {
            store in
            let puts = try await store.put([
                .sample("a", tokens: [.sample("t")]), .sample("b", tokens: [.sample("t")]),
            ])
            try expect(puts.map(\.device.tokens), is: [[], [.sample("t")]], "the tokens in the answer")
            try expect(try await store.device("a")?.tokens, is: [], "the tokens of the first")
        },
        DeviceStoreConformanceCase("The same text is another token at another service") { store in
            try await store.put(.sample("a", tokens: [.sample("t", .iOSAPNs)]))
            try await store.put(.sample("b", tokens: [.sample("t", .iOSHuawei)]))
            try expect(try await store.device(having: .sample("t", .iOSAPNs))?.id, is: "a", "who has the first")
            try expect(try await store.device(having: .sample("t", .iOSHuawei))?.id, is: "b", "who has the second")
        },
        DeviceStoreConformanceCase("A device's new token of a service takes the place of the old one") { store in
            try await store.put(.sample("a", tokens: [.sample("old", at: 1)]))
            _ = try await store.patch("a") { $0.setToken(.sample("new", at: 2)) }
            try expect(try await store.device("a")?.tokens, is: [.sample("new", at: 2)], "the tokens")
            try expect(try await store.device(having: .sample("old")), is: nil, "who has the old one")
        },
        DeviceStoreConformanceCase("A patch takes a token from another device as well") { store in
            try await store.put([.sample("a", tokens: [.sample("t", at: 1)]), .sample("b", tokens: [])])
            let patched = try await store.patch("b") { $0.setToken(.sample("t", at: 2)) }
            try expect(patched?.tokens, is: [.sample("t", at: 2)], "the tokens of the second")
            try expect(try await store.device("a")?.tokens, is: [], "the tokens of the first")
        },
    ]

    static let lists: [DeviceStoreConformanceCase] = [
        DeviceStoreConformanceCase("Lists find by user, tag, platform and service, and by several of them") { store in
            try await store.put([
                .sample("a", user: "u", tags: ["x", "y"]), .sample("b", user: "v", tags: ["x"]),
                .sample("c", user: "u", tokens: [.sample("c", .androidFirebase)], tags: ["x"]),
                .sample("d", user: "u", tokens: [.sample("d", .androidFirebase), .sample("d", .iOSFirebase)]),
                .sample("e", tokens: [.sample("e", .androidHuawei)], platform: "web"), .sample("f", tokens: []),
                // A service of the operator's own says nothing about the platform.
                .sample("g", tokens: [.sample("g"), .sample("g", TokenService(rawValue: "x-own"))]),
            ])
            let queries: [(DeviceQuery, [String])] = [
                (DeviceQuery(), ["a", "b", "c", "d", "e", "f", "g"]), (DeviceQuery(user: "u"), ["a", "c", "d"]),
                (DeviceQuery(tag: "x"), ["a", "b", "c"]), (DeviceQuery(platform: "ios"), ["a", "b", "g"]),
                (DeviceQuery(platform: "x"), []), (DeviceQuery(platform: "android"), ["c"]),
                (DeviceQuery(platform: "web"), ["e"]),
                (DeviceQuery(service: .androidFirebase), ["c", "d"]), (DeviceQuery(user: "u", tag: "x"), ["a", "c"]),
                (DeviceQuery(tag: "x", platform: "ios", service: .iOSAPNs), ["a", "b"]),
                (DeviceQuery(user: "nobody"), []), (DeviceQuery(tag: "x%"), []),
            ]
            for (query, wanted) in queries {
                for limit in [1, 2, 100] {
                    try expect(try await store.ids(query, by: limit), is: wanted, "\(query) by \(limit)")
                }
            }
        },
        DeviceStoreConformanceCase("Nobody is left out or given twice while the list changes between pages") { store in
            try await store.put((0..<40).map { .sample("d\($0)", user: "u", tags: ["x"]) })
            for query in [DeviceQuery(), DeviceQuery(user: "u"), DeviceQuery(tag: "x")] {
                var seen: [String] = []
                var cursor: DeviceCursor?
                var round = 0
                repeat {
                    let page = try await store.list(query, after: cursor, limit: 7)
                    seen += page.devices.map(\.id)
                    cursor = page.next
                    // The page's last device is removed, others are replaced, new ones are added.
                    if let last = page.devices.last { _ = try await store.delete(last.id) }
                    try await store.put(.sample("d\(round)", user: "u", tags: ["x", "new"], at: 9))
                    try await store.put(.sample("z\(round)", user: "u", tags: ["x"], at: 9))
                    round += 1
                } while cursor != nil && round < 100
                try expect(Set(seen).count, is: seen.count, "each is given once")
                let stayed = try await store.ids(query, by: 100).filter { $0.hasPrefix("d") }
                try expect(Set(seen).isSuperset(of: stayed), "those that stayed were all given")
                for id in try await store.ids(by: 100) { _ = try await store.delete(id) }
                try await store.put((0..<40).map { .sample("d\($0)", user: "u", tags: ["x"]) })
            }
        },
        DeviceStoreConformanceCase("The devices of users come user by user, the oldest first, up to the limit") {
            store in
            try await store.put([
                .sample("a", user: "u"), .sample("b", user: "v"), .sample("c", user: "u"), .sample("d"),
                .sample("e", user: "v"),
            ])
            try expect(
                try await store.devices(ofUsers: ["v", "nobody", "u"], limit: 10).map(\.id),
                is: ["b", "e", "a", "c"],
                "devices"
            )
            try expect(
                try await store.devices(ofUsers: ["v", "u"], limit: 3).map(\.id),
                is: ["b", "e", "a"],
                "limited"
            )
            try expect(try await store.devices(ofUsers: [], limit: 3), is: [], "of nobody")
        },
    ]
}
