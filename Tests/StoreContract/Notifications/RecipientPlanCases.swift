import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let plans: [StoreConformanceCase] = [
        StoreConformanceCase("Recipients with plans of their own go through their own backends, also after a restart") {
            fixture in
            var store = try await fixture.open()
            let plans = [
                DeliveryPlan(["one", "three"]), DeliveryPlan(["two"], onUnknown: .stop),
                DeliveryPlan(["three", "one"]),
            ]
            func accept(_ planOf: [UInt8], _ name: String) async throws -> NotificationID {
                let recipients = planOf.indices.map { Recipient.sample("\(name)\($0)") }
                var new = NewNotification.sample(store, fixture.time, to: recipients)
                new.record.plans = plans
                new.planOf = planOf
                return try await store.accept(new)
            }
            func check(_ planOf: [UInt8], _ id: NotificationID) async throws {
                for (backend, plan) in [("one", 0), ("two", 1), ("three", 2)] {
                    let claimed = try await store.claimNow(backend)
                    let wanted = planOf.indices.filter { planOf[$0] == plan }.map { id.rawValue + Int64($0) }
                    try expect(claimed.map(\.id), is: wanted, "claimed in backend \(backend)")
                    for delivery in claimed {
                        try expect(delivery.plan, is: plans[plan], "the plan of \(delivery.id)")
                        try expect(delivery.notificationID, is: id, "the notification of \(delivery.id)")
                    }
                    try await store.end(claimed)
                }
            }
            for (round, planOf) in [[0, 1, 0, 2, 1], [2, 1, 2, 0], [1, 1, 0]].enumerated() {
                let planOf = planOf.map { UInt8($0) }
                try await check(planOf, try await accept(planOf, "a\(round)"))
                let id = try await accept(planOf, "b\(round)")
                store = try await fixture.reopen(store)
                try await check(planOf, id)
            }
            // Later deliveries have none of their plans.
            let id = try await store.accept(.sample(store, fixture.time, to: [.sample("x"), .sample("y")]))
            let claimed = try await store.claimNow()
            try expect(
                claimed.map(\.plan),
                is: Array(repeating: DeliveryPlan(["apns"]), count: 2),
                "the plans of \(id)"
            )
            await store.close()
        },
        StoreConformanceCase("A retry goes to the backend of its step in the delivery's own plan") { fixture in
            let store = try await fixture.open()
            var new = NewNotification.sample(store, fixture.time, to: [.sample("a"), .sample("b")])
            new.record.plans = [DeliveryPlan(["one", "two"]), DeliveryPlan(["two", "three"])]
            new.planOf = [0, 1]
            let id = try await store.accept(new)
            let first = try await store.claimNow("two")
            try expect(first.map(\.id), is: [id.rawValue + 1], "claimed in backend two")
            try await store.record([
                Resolution(delivery: id.rawValue + 1, transition: .retry(at: fixture.time.now, step: 1))
            ])
            let second = try await store.claimNow("three")
            try expect(second.map(\.id), is: [id.rawValue + 1], "claimed in backend three")
            try expect(second.first?.plan, is: new.record.plans[1], "its plan")
            await store.close()
        },
    ]
}
