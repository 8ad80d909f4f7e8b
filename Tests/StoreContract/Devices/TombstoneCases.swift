import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension DeviceStoreConformance {
    static let refusals: [DeviceStoreConformanceCase] = [
        DeviceStoreConformanceCase("A refused token gets a tombstone, is told of once, and its device stays") { store in
            try await store.put(.sample("a", user: "u", tokens: [.sample("t", at: 1), .sample("f", .iOSFirebase)]))
            let refusal = TokenRefusal.sample("t", asOf: 5, learned: 6)
            let tombstone = Tombstone(asOf: .second(5), at: .second(6), backend: "ios", reason: "Unregistered")
            let buried = try await store.invalidate([refusal, .sample("unknown", asOf: 5)])
            try expect(
                buried,
                is: [InvalidatedToken(device: "a", user: "u", token: .sample("t"), tombstone: tombstone)],
                "what was buried"
            )
            let device = try await store.device("a")
            try expect(device?.token(of: .iOSAPNs)?.tombstone, is: tombstone, "the tombstone")
            try expect(device?.liveToken(of: .iOSAPNs), is: nil, "the live token")
            try expect(device?.liveToken(of: .iOSFirebase), is: .sample("f", .iOSFirebase), "the other token")
            try expect(try await store.invalidate([refusal, .sample("t", asOf: 7)]), is: [], "told of again")
            try expect(try await store.registration("t")?.tombstone, is: tombstone, "the tombstone afterwards")
        },
        DeviceStoreConformanceCase("A refusal older than the registration does nothing; one of the same time buries") {
            store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 5)]))
            try expect(try await store.invalidate([.sample("t", asOf: 4.999)]), is: [], "buried by an older refusal")
            try expect(try await store.registration("t")?.isAlive, is: true, "alive")
            try expect(
                try await store.invalidate([.sample("t", asOf: 5)]).count,
                is: 1,
                "buried by one of the same time"
            )
        },
        DeviceStoreConformanceCase(
            "Of a registration and a refusal at the same time the younger registration stays valid"
        ) {
            store in
            for round in 0..<20 {
                let at = Double(round * 10)
                try await store.put(.sample("a", tokens: [.sample("t", at: at)]))
                async let refusal = store.invalidate([.sample("t", asOf: at + 1)])
                async let registration = store.put([.sample("a", tokens: [.sample("t", at: at + 2)])])
                _ = try await (refusal, registration)
                try expect(try await store.registration("t")?.isAlive, is: true, "alive in round \(round)")
            }
        },
        DeviceStoreConformanceCase("A tombstone ends when the token is registered later, not by other changes") {
            store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1)]))
            _ = try await store.invalidate([.sample("t", asOf: 5)])
            try await store.put(.sample("a", user: "u", tokens: [.sample("t", at: 5)], at: 9))
            try expect(try await store.registration("t")?.isAlive, is: false, "after a put of the same time")
            _ = try await store.patch("a") { $0.tags = ["x"] }
            try expect(try await store.registration("t")?.isAlive, is: false, "after a patch of tags")
            let put = try await store.put(.sample("a", tokens: [.sample("t", at: 5.001)]))
            try expect(put.device.tokens, is: [.sample("t", at: 5.001)], "after a later registration")
        },
        DeviceStoreConformanceCase(
            "A tombstone goes with the token to another device, and ends by a later registration"
        ) {
            store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1)]))
            _ = try await store.invalidate([.sample("t", asOf: 5)])
            try await store.put(.sample("b", tokens: [.sample("t", at: 3)]))
            try expect(try await store.device("b")?.tokens.first?.isAlive, is: false, "moved by an old registration")
            try await store.put(.sample("c", tokens: [.sample("t", at: 6)]))
            try expect(try await store.device("c")?.tokens.first?.isAlive, is: true, "moved by a new registration")
        },
        DeviceStoreConformanceCase("A platform's clock that is ahead does not keep a token dead") { store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1)]))
            _ = try await store.invalidate([.sample("t", asOf: 3_600, learned: 5)])
            try await store.put(.sample("a", tokens: [.sample("t", at: 6)]))
            try expect(try await store.registration("t")?.isAlive, is: true, "alive")
        },
        DeviceStoreConformanceCase("A tombstone that comes with a device is kept unless the registration is younger") {
            store in
            let tombstone = Tombstone(asOf: .second(5), at: .second(6), backend: "ios", reason: "Unregistered")
            for (second, isAlive) in [(4.0, false), (5.0, false), (6.0, true)] {
                var token = RegisteredToken.sample("t\(second)", at: second)
                token.tombstone = tombstone
                try await store.put(.sample("a", tokens: [token]))
                let found = try await store.registration("t\(second)")
                try expect(found?.isAlive, is: isAlive, "alive when registered at \(second)")
                try expect(found?.tombstone, is: isAlive ? nil : tombstone, "tombstone when registered at \(second)")
            }
        },
    ]

    static let guarding: [DeviceStoreConformanceCase] = [
        DeviceStoreConformanceCase("A quarantined tombstone leaves the token alive, until it is released") { store in
            try await store.put((0..<5).map { .sample("d\($0)", user: "u") })
            let refusals = (0..<5).map { TokenRefusal.sample("d\($0)", asOf: 5, learned: 6 + Double($0)) }
            try expect(try await store.quarantine(refusals), is: 5, "quarantined")
            try expect(try await store.quarantine(refusals), is: 0, "quarantined again")
            try expect(try await store.registration("d0")?.isAlive, is: true, "alive while quarantined")
            try expect(
                try await store.quarantined(),
                is: [
                    QuarantinedTokens(
                        backend: "ios",
                        count: 5,
                        reasons: ["Unregistered": 5],
                        oldest: .second(6),
                        newest: .second(10)
                    )
                ],
                "the summary"
            )
            try expect(
                try await store.invalidate(quarantinedOf: "other", limit: 9),
                is: [],
                "released for another backend"
            )
            let first = try await store.invalidate(quarantinedOf: "ios", limit: 2)
            try expect(first.count, is: 2, "released")
            for token in first {
                try expect(token.tombstone.isQuarantined, is: false, "quarantined after the release")
                let found = try await store.device(having: token.token)?.token(of: token.token.service)
                try expect(found?.isAlive, is: false, "alive after the release")
                try expect(found?.tombstone, is: token.tombstone, "the tombstone")
            }
            try expect(try await store.discard(quarantinedOf: "ios", limit: 2), is: 2, "forgotten")
            try expect(try await store.discard(quarantinedOf: "ios", limit: 2), is: 1, "forgotten then")
            try expect(try await store.discard(quarantinedOf: "ios", limit: 2), is: 0, "forgotten at last")
            try expect(try await store.quarantined(), is: [], "what is quarantined afterwards")
            var alive = 0
            for number in 0..<5 {
                guard let token = try await store.registration("d\(number)") else { continue }
                if token.isAlive { alive += 1 }
                try expect(token.tombstone?.isQuarantined ?? false, is: false, "something quarantined of d\(number)")
            }
            try expect(alive, is: 3, "alive at the end")
        },
        DeviceStoreConformanceCase("The tombstones of a backend since a moment are quarantined, no others") { store in
            try await store.put((0..<6).map { .sample("d\($0)") })
            _ = try await store.invalidate((0..<4).map { .sample("d\($0)", asOf: 1, learned: 10 + Double($0)) })
            _ = try await store.invalidate([.sample("d4", asOf: 1, learned: 20, backend: "other")])
            let count = try await store.quarantine(tombstonesOf: "ios", since: .second(12))
            try expect(count, is: 2, "quarantined")
            var alive: [String] = []
            for number in 0..<6 where try await store.registration("d\(number)")?.isAlive == true {
                alive.append("d\(number)")
            }
            try expect(alive, is: ["d2", "d3", "d5"], "alive")
        },
        DeviceStoreConformanceCase("A sure refusal overrules a quarantined tombstone, and not the reverse") { store in
            try await store.put([.sample("a"), .sample("b")])
            _ = try await store.quarantine([.sample("a", asOf: 5)])
            let buried = try await store.invalidate([.sample("a", asOf: 6, backend: "other", reason: "Gone")])
            try expect(buried.map(\.tombstone.reason), is: ["Gone"], "buried")
            _ = try await store.invalidate([.sample("b", asOf: 5)])
            try expect(try await store.quarantine([.sample("b", asOf: 6)]), is: 0, "quarantined")
            try expect(try await store.registration("b")?.isAlive, is: false, "alive")
            try expect(try await store.quarantined(), is: [], "what is quarantined")
        },
        DeviceStoreConformanceCase("A quarantined token that is registered again is no longer listed") { store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1)]))
            _ = try await store.quarantine([.sample("t", asOf: 5)])
            try await store.put(.sample("a", tokens: [.sample("t", at: 6)]))
            try expect(try await store.quarantined(), is: [], "what is quarantined")
            try expect(try await store.invalidate(quarantinedOf: "ios", limit: 9), is: [], "released")
            try expect(try await store.registration("t")?.isAlive, is: true, "alive")
        },
        DeviceStoreConformanceCase("Held tokens are listed page by page, each once") { store in
            try await store.put(
                (0..<10).map { .sample("d\($0)", tokens: [.sample($0), .sample($0, .iOSFirebase)]) }
            )
            _ = try await store.quarantine(
                (0..<10).flatMap { [.sample($0, asOf: 5), .sample($0, .iOSFirebase, asOf: 5)] }
            )
            var seen: [DeviceToken] = []
            var cursor: DeviceCursor?
            repeat {
                let page = try await store.quarantined(of: "ios", after: cursor, limit: 3)
                try expect(page.tokens.allSatisfy(\.tombstone.isQuarantined), "each is quarantined")
                seen += page.tokens.map(\.token)
                cursor = page.next
            } while cursor != nil
            try expect(seen.count, is: 20, "tokens")
            try expect(Set(seen).count, is: 20, "different tokens")
        },
    ]

    static let comparison: [DeviceStoreConformanceCase] = (1...4).map { seed in
        DeviceStoreConformanceCase("A random walk agrees with a registry in memory (seed \(seed))") { store in
            var walk = DeviceWalk(store, seed: UInt64(seed))
            for _ in 0..<250 { try await walk.step() }
            try await walk.compare()
        }
    }
}

/// A store and the registry in memory that go through the same calls.
///
/// The next call is drawn from a seed. The registry in memory is the model: where the two differ, one of them is wrong.
private struct DeviceWalk {
    private let store: any DeviceStore
    private let model = MemoryDeviceStore()
    private var random: SeededGenerator
    private var now = 0.0

    init(_ store: any DeviceStore, seed: UInt64) {
        self.store = store
        random = SeededGenerator(seed: seed)
    }

    private static let services: [TokenService] = [.iOSAPNs, .iOSFirebase, .androidHuawei]

    private mutating func token() -> RegisteredToken {
        let service = Self.services.randomElement(using: &random) ?? .iOSAPNs
        let age = Double(Int.random(in: 0...3, using: &random))
        return .sample(Int.random(in: 0..<9, using: &random), service, at: now - age)
    }

    private mutating func device() -> Device {
        .sample(
            "d\(Int.random(in: 0..<7, using: &random))",
            user: Bool.random(using: &random) ? "u\(Int.random(in: 0..<3, using: &random))" : nil,
            tokens: (0..<Int.random(in: 0...3, using: &random)).map { _ in token() },
            tags: (0..<Int.random(in: 0...3, using: &random)).map { _ in "t\(Int.random(in: 0..<4, using: &random))" },
            at: now
        )
    }

    private mutating func refusals() -> [TokenRefusal] {
        (0..<Int.random(in: 1...4, using: &random)).map { _ in
            let token = token()
            return TokenRefusal(
                token.token,
                asOf: token.registeredAt,
                at: .second(now),
                backend: Bool.random(using: &random) ? "one" : "two",
                reason: "Gone"
            )
        }
    }

    mutating func step() async throws {
        now += 1
        switch Int.random(in: 0..<12, using: &random) {
        case 0..<4:
            let batch = (0..<Int.random(in: 1...4, using: &random)).map { _ in device() }
            try expect(try await store.put(batch), is: try await model.put(batch), "put")
        case 4, 5:
            let new = device()
            let change: @Sendable (inout Device) -> Void = { device in
                device.user = new.user
                for token in new.tokens { device.setToken(token) }
                device.removeToken(of: .androidHuawei)
            }
            try expect(try await store.patch(new.id, change), is: try await model.patch(new.id, change), "patch")
        case 6:
            let id = device().id
            try expect(try await store.delete(id), is: try await model.delete(id), "delete")
        case 7, 8:
            let refusals = refusals()
            try expect(try await store.invalidate(refusals), is: try await model.invalidate(refusals), "bury")
        case 9:
            let refusals = refusals()
            try expect(try await store.quarantine(refusals), is: try await model.quarantine(refusals), "quarantine")
        case 10:
            let since = Date.second(now - 20)
            let found = try await store.quarantine(tombstonesOf: "one", since: since)
            try expect(found, is: try await model.quarantine(tombstonesOf: "one", since: since), "quarantine since")
        default:
            let found = try await store.invalidate(quarantinedOf: "two", limit: 1_000)
            let wanted = try await model.invalidate(quarantinedOf: "two", limit: 1_000)
            try expect(Set(found), is: Set(wanted), "release")
            try expect(
                try await store.discard(quarantinedOf: "one", limit: 1_000),
                is: try await model.discard(quarantinedOf: "one", limit: 1_000),
                "discard"
            )
        }
        if Int(now) % 10 == 0 { try await compare() }
    }

    func compare() async throws {
        let wanted = try await model.list(DeviceQuery(), after: nil, limit: 1_000).devices
        try expect(try await store.list(DeviceQuery(), after: nil, limit: 1_000).devices, is: wanted, "all devices")
        for device in wanted {
            for token in device.tokens {
                try expect(try await store.device(having: token.token)?.id, is: device.id, "who has a token")
            }
        }
        for query in [DeviceQuery(user: "u1"), DeviceQuery(tag: "t2"), DeviceQuery(platform: "ios")] {
            let found = try await store.list(query, after: nil, limit: 1_000).devices
            try expect(found, is: try await model.list(query, after: nil, limit: 1_000).devices, "\(query)")
        }
        try expect(try await store.quarantined(), is: try await model.quarantined(), "what is quarantined")
    }
}
