import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

extension DeviceStoreConformance {
    static let singleRefusals: [DeviceStoreConformanceCase] = [
        DeviceStoreConformanceCase("A refusal with alternatives leaves out its backend and no other") { store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1)]))
            let exhausted = try await store.record([.doubt("t", by: "ios", asOf: 5)])
            try expect(exhausted, is: [], "tokens without a backend")
            let token = try await store.registration("t")
            try expect(token?.isAlive, is: true, "alive")
            try expect(token?.isUsable(by: "ios"), is: false, "usable by the one that refused it")
            try expect(token?.isUsable(by: "ios-dev"), is: true, "usable by another")
            let refusal = BackendRefusal(backend: "ios", reason: "BadDeviceToken", asOf: .second(5))
            try expect(token?.refusals, is: [refusal], "the refusals")
            _ = try await store.record([.doubt("t", by: "ios", asOf: 7)])
            try expect(try await store.registration("t")?.refusals.map(\.asOf), is: [.second(7)], "after another one")
        },
        DeviceStoreConformanceCase("A refusal older than the registration is not noted, nor one of a dead token") {
            store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 5)]))
            _ = try await store.record([.doubt("t", by: "ios", asOf: 4)])
            try expect(try await store.registration("t")?.refusals, is: [], "after an older refusal")
            _ = try await store.invalidate([.sample("t", asOf: 6)])
            _ = try await store.record([.doubt("t", by: "ios", asOf: 7)])
            try expect(try await store.registration("t")?.refusals, is: [], "of a dead token")
        },
        DeviceStoreConformanceCase("A token that all alternatives have refused is told of, and not noted") { store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1)]))
            _ = try await store.record([.doubt("t", by: "ios", asOf: 5)])
            let last = TokenRefusal.doubt("t", by: "ios-dev", asOf: 6, others: ["ios"])
            try expect(try await store.record([last]), is: [last], "exhausted")
            try expect(try await store.registration("t")?.refusals.map(\.backend), is: ["ios"], "what is noted")
            let three = TokenRefusal.doubt("t", by: "ios-dev", asOf: 6, others: ["ios", "ios-beta"])
            try expect(try await store.record([three]), is: [], "exhausted with a third one")
        },
        DeviceStoreConformanceCase(
            "Refusals end when the token is registered later, like tombstones, also at another device"
        ) {
            store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1)]))
            _ = try await store.record([.doubt("t", by: "ios", asOf: 5)])
            try await store.put(.sample("a", tokens: [.sample("t", at: 5)]))
            try expect(try await store.registration("t")?.refusals.count, is: 1, "after one of the same time")
            try await store.put(.sample("b", tokens: [.sample("t", at: 5)]))
            try expect(try await store.registration("t")?.refusals.count, is: 1, "at another device")
            try await store.put(.sample("b", tokens: [.sample("t", at: 9)]))
            try expect(try await store.registration("t"), is: .sample("t", at: 9), "after a later registration")
            _ = try await store.record([.doubt("t", by: "ios", asOf: 10)])
            _ = try await store.invalidate([.sample("t", asOf: 11, backend: "ios-dev")])
            try expect(try await store.registration("t")?.refusals.count, is: 1, "with a tombstone")
            try await store.put(.sample("b", tokens: [.sample("t", at: 12)]))
            try expect(try await store.registration("t"), is: .sample("t", at: 12), "after the tombstone's end")
        },
        DeviceStoreConformanceCase("No refusal counts beside a quarantined tombstone; a discard leaves none") {
            store in
            try await store.put(.sample("a", tokens: [.sample("t", at: 1)]))
            _ = try await store.record([.doubt("t", by: "ios", asOf: 5)])
            _ = try await store.quarantine([.sample("t", asOf: 6, backend: "ios-dev")])
            for backend in ["ios", "ios-dev"] {
                try expect(try await store.registration("t")?.isUsable(by: backend), is: true, "usable by \(backend)")
            }
            try expect(try await store.discard(quarantinedOf: "ios-dev", limit: 9), is: 1, "discarded")
            try expect(try await store.registration("t"), is: .sample("t", at: 1), "afterwards")
        },
        DeviceStoreConformanceCase("The refusals of all tokens can be forgotten, some at a time") { store in
            for name in ["a", "b", "c"] {
                try await store.put(.sample(name, tokens: [.sample(name, at: 1)]))
                _ = try await store.record([.doubt(name, by: "ios", asOf: 5)])
            }
            try expect(try await store.forgetRefusals(limit: 2), is: 2, "the first time")
            try expect(try await store.forgetRefusals(limit: 2), is: 1, "the second time")
            try expect(try await store.forgetRefusals(limit: 2), is: 0, "the third time")
            try expect(try await store.registration("a")?.refusals, is: [], "afterwards")
        },
        DeviceStoreConformanceCase("The last refusal of a token that nobody registered is told of") { store in
            var refusal = TokenRefusal.doubt("nobody", by: "ios", asOf: 5)
            try expect(try await store.record([refusal]), is: [refusal], "the last one")
            refusal.isLast = false
            try expect(try await store.record([refusal]), is: [], "one that is not the last")
        },
        DeviceStoreConformanceCase("A token's environment stays unless another one is told") { store in
            var token = RegisteredToken.sample("t", at: 1)
            token.environment = .development
            try await store.put(.sample("a", tokens: [token]))
            try await store.put(.sample("a", tokens: [.sample("t", at: 2)]))
            try expect(try await store.registration("t")?.environment, is: .development, "when none is told")
            token.environment = .production
            try await store.put(.sample("a", tokens: [token]))
            try expect(try await store.registration("t")?.environment, is: .production, "when another is told")
        },
    ]
}

extension TokenRefusal {
    /// Makes a refusal that may hold for its backend only.
    fileprivate static func doubt(
        _ name: String,
        by backend: String,
        asOf second: Double,
        others: [String] = ["ios-dev"]
    ) -> TokenRefusal {
        .sample(name, asOf: second, backend: backend, reason: "BadDeviceToken", alternatives: others)
    }
}
