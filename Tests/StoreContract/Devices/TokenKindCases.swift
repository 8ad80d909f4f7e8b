import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension DeviceStoreConformance {
    static let kinds: [DeviceStoreConformanceCase] = [
        DeviceStoreConformanceCase("A device has one token of each service and kind") { store in
            let device = Device.sample("a", tokens: [.sample("t"), .sample("call", .voip), .sample("x", .order(1))])
            try expect(try await store.put(device).device, is: device, "the device as it was put")
            try expect(try await store.device("a"), is: device, "the device")
            let patched = try await store.patch("a") { $0.setToken(.sample("y", .order(1), at: 1)) }
            try expect(patched?.token(of: .iOSAPNs, .order(1)), is: .sample("y", .order(1), at: 1), "the new one")
            try expect(try await store.device("a")?.tokens.count, is: 3, "tokens")
            try expect(try await store.device(having: .sample("x")), is: nil, "who has the old one")
            try expect(try await store.device(having: .sample("y"))?.id, is: "a", "who has the new one")
        },
        DeviceStoreConformanceCase(
            "A registration that takes the place of another one leaves the tokens of other kinds"
        ) {
            store in
            try await store.put(.sample("a", tokens: [.sample("t"), .sample("x", .order(1)), .sample("y", .order(2))]))
            let put = try await store.put(.sample("a", tokens: [.sample("u", at: 1), .sample("z", .order(2), at: 1)]))
            let kept = [
                RegisteredToken.sample("u", at: 1), .sample("x", .order(1)), .sample("z", .order(2), at: 1),
            ]
            try expect(put.device.tokens, is: kept, "the tokens in the answer")
            try expect(try await store.device("a")?.tokens, is: kept, "the tokens")
            let patched = try await store.patch("a") { $0.removeToken(of: TokenSlot(.iOSAPNs, .order(1))) }
            try expect(patched?.tokens.count, is: 2, "tokens after one is removed")
        },
        DeviceStoreConformanceCase("A token changes its kind, and its device, with a later registration") { store in
            try await store.put(.sample("a", tokens: [.sample("t")]))
            _ = try await store.patch("a") { $0.setToken(.sample("t", .voip, at: 1)) }
            try expect(try await store.device("a")?.tokens, is: [.sample("t", .voip, at: 1)], "as another kind")
            try await store.put(.sample("b", tokens: [.sample("t", at: 2)]))
            try expect(try await store.device("a")?.tokens, is: [], "the tokens of the first")
            try expect(try await store.device("b")?.tokens, is: [.sample("t", at: 2)], "the tokens of the second")
        },
        DeviceStoreConformanceCase("A tombstone is one of a kind's token alone") { store in
            try await store.put(.sample("a", tokens: [.sample("t"), .sample("x", .order(1))]))
            let others: [TokenKind] = [.device, .voip]
            let about = others.map { TokenRefusal.sample("x", kind: $0, asOf: 5) }
            try expect(try await store.invalidate(about), is: [], "buried by an answer about another kind")
            try expect(try await store.quarantine(about), is: 0, "quarantined by an answer about another kind")
            let alternatives = others.map { TokenRefusal.sample("x", kind: $0, asOf: 5, alternatives: ["two"]) }
            try expect(try await store.record(alternatives), is: [], "exhausted by an answer about another kind")
            try expect(try await store.device("a")?.token(of: .iOSAPNs, .order(1))?.refusals, is: [], "refusals")
            // An answer about another activity concerns the same topic.
            let buried = try await store.invalidate([.sample("x", kind: .order(2), asOf: 5)])
            try expect(buried.map(\.device), is: ["a"], "buried")
            let device = try await store.device("a")
            try expect(device?.token(of: .iOSAPNs)?.isAlive, is: true, "the app's own token")
            try expect(device?.token(of: .iOSAPNs, .order(1))?.isAlive, is: false, "the activity's")
            try expect(try await store.quarantine(tombstonesOf: "ios", since: .second(0)), is: 1, "quarantined")
            try expect(try await store.invalidate(quarantinedOf: "ios", limit: 10).count, is: 1, "released")
            try expect(
                try await store.device("a")?.token(of: .iOSAPNs, .order(1))?.isAlive,
                is: false,
                "after the release"
            )
        },
        DeviceStoreConformanceCase("Devices are found by the kind of a token, within an app") { store in
            for (number, id) in ["a", "b", "c"].enumerated() {
                let tokens = [RegisteredToken.sample(id), .sample("\(id)-x", .order(number == 2 ? 2 : 1))]
                try await store.put(.sample(id, tokens: tokens))
            }
            try await store.put(.sample("shop/d", tokens: [.sample("d"), .sample("d-x", .order(1))]))
            func found(_ number: Int, _ app: AppName = .default, limit: Int = 10) async throws -> [String] {
                try await store.devices(withTokenOf: .order(number), in: app, limit: limit).map(\.id)
            }
            try expect(try await found(1), is: ["a", "b"], "of the first")
            try expect(try await found(1, limit: 1), is: ["a"], "of the first, one")
            try expect(try await found(2), is: ["c"], "of the second")
            try expect(try await found(3), is: [], "of none")
            try expect(try await found(1, AppName(rawValue: "shop")), is: ["shop/d"], "of another app")
            let start = TokenKind.liveActivityStart(attributesType: "order-1")
            try expect(try await store.devices(withTokenOf: start, in: .default, limit: 10).count, is: 0, "of a type")
            _ = try await store.delete("a")
            try expect(try await found(1), is: ["b"], "after one is deleted")
        },
        DeviceStoreConformanceCase("Tokens are taken away from whoever has them, within an app") { store in
            try await store.put(.sample("a", tokens: [.sample("t"), .sample("x", .order(1))]))
            try await store.put(.sample("shop/a", tokens: [.sample("x", .order(1))]))
            try await store.remove([.sample("x"), .sample("nobody's")], in: .default)
            try expect(try await store.device("a")?.tokens, is: [.sample("t")], "what is left")
            try expect(try await store.device(having: .sample("x")), is: nil, "who has it")
            try expect(try await store.device("shop/a")?.tokens.count, is: 1, "of another app")
        },
        DeviceStoreConformanceCase("A list by service knows the app's own tokens only") { store in
            try await store.put(.sample("a", tokens: [.sample("x", .order(1))]))
            try await store.put(.sample("b"))
            try expect(try await store.ids(DeviceQuery(service: .iOSAPNs)), is: ["b"], "with the service")
        },
    ]
}

extension TokenKind {
    /// Returns the kind of a running activity's token.
    fileprivate static func order(_ number: Int) -> TokenKind { .liveActivityUpdate(activity: "order-\(number)") }
}

extension RegisteredToken {
    /// Makes a registration of a kind at a second of the samples.
    fileprivate static func sample(_ name: String, _ kind: TokenKind, at second: Double = 0) -> RegisteredToken {
        RegisteredToken(.sample(name), kind: kind, registeredAt: .second(second))
    }
}
