import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let records: [StoreConformanceCase] = [
        StoreConformanceCase("Fields of a record that the program does not know are given back, also after a restart") {
            fixture in
            var store = try await fixture.open()
            for recipients in [[Recipient.sample("a")], [.sample("b"), .sample("c")]] {
                var new = NewNotification.sample(store, fixture.time, to: recipients)
                // A field of two bytes with the tag 1,000, and an empty one with the largest tag.
                let unknown: [UInt8] = [0xE8, 0x07, 2, 7, 8] + Array(repeating: 0xFF, count: 9) + [1, 0]
                let encoded = new.record.encoded + unknown
                guard let record = NotificationRecord(encoded: encoded) else {
                    throw ConformanceFailure("a record with unknown fields cannot be read")
                }
                new.record = record
                let id = try await store.accept(new)
                let fresh = try await store.claimNow()
                try expect(fresh.map(\.head.record.encoded), is: recipients.map { _ in encoded }, "of the first claims")
                try await store.record(fresh.map { Resolution(of: $0, .release) })
                store = try await fixture.reopen(store)
                try expect(try await store.notification(id)?.record, is: record, "of one that waits")
                let read = try await store.claimNow()
                try expect(read.map(\.head.record.encoded), is: recipients.map { _ in encoded }, "of later claims")
                try await store.end(read)
                try expect(try await store.notification(id)?.record, is: record, "of one that has ended")
                store = try await fixture.reopen(store)
                let last = try await store.notification(id)
                try expect(last?.record.encoded, is: encoded, "of one that has ended, after a restart")
            }
            await store.close()
        },
        StoreConformanceCase("A notification gives back all its plans in their order, also after a restart") {
            fixture in
            var store = try await fixture.open()
            var new = NewNotification.sample(store, fixture.time, to: [.sample("a"), .sample("b"), .sample("c")])
            new.record.plans = [
                DeliveryPlan(["apns", "fcm"], onUnknown: .wait, unknownWait: .seconds(7)), DeliveryPlan(["fcm"]),
                DeliveryPlan(["apns"], onUnknown: .stop, fallbackAfter: .milliseconds(1_500)),
            ]
            new.planOf = [2, 1, 0]
            let id = try await store.accept(new)
            for step in ["before a restart", "after it"] {
                try expect(try await store.notification(id)?.record, is: new.record, "the record \(step)")
                let claimed = try await store.claimNow()
                try expect(claimed.map(\.id), is: [id.rawValue, id.rawValue + 2], "claimed \(step)")
                try expect(claimed.map(\.plan), is: [new.record.plans[2], new.record.plans[0]], "the plans \(step)")
                try await store.record(claimed.map { Resolution(of: $0, .release) })
                store = try await fixture.reopen(store)
            }
            await store.close()
        },
    ]
}
