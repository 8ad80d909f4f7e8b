import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let numbers: [StoreConformanceCase] = [
        StoreConformanceCase("A number that nothing has finds nothing, up to the last that there is") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time))
            try await store.publish([[1]])
            let last = try await store.lastEvent()
            for number in [Int64.max, .max - 1, NotificationID.highest, .min, -1, 0] {
                let other = NotificationID(rawValue: number)
                try expect(try await store.notification(other) == nil, "\(number): a notification")
                let none = try await store.deliveries(of: other, after: nil, limit: 10)
                try expect(none.count, is: 0, "\(number): deliveries")
                let page = try await store.deliveries(of: id, after: number, limit: 10)
                try expect(page.count, is: number < id.rawValue ? 1 : 0, "\(number): deliveries behind it")
                try expect(try await store.cancel(other) { _, _ in [] }, is: nil, "\(number): a cancellation")
                let receipt = ReceiptEntry(ReceiptAddress(delivery: number), state: .opened, logEntry: [49]) { _ in [1]
                }
                try expect(try await store.record([receipt])[0].word, is: "unknown", "\(number): a receipt")
                let events = try await store.events(after: number, limit: 10_000, wait: .zero)
                try expect(events.isEmpty, is: number > last, "\(number): events behind it")
                _ = try await store.move(backend: "elsewhere-\(number)", to: "apns")
            }
            try expect(try await store.lastEvent(), is: last, "the last event")
            try expect(try await store.claimNow().map(\.notificationID), is: [id], "what is claimed")
            await store.close()
        }
    ]
}
