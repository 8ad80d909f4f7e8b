import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization

extension StoreConformance {
    static let searches: [StoreConformanceCase] = [
        StoreConformanceCase("A search by user, device or reference finds what waits, is sent, and has ended") {
            fixture in
            var store = try await fixture.open()
            let wanted = try await searched(store, fixture)
            for step in ["at once", "after a restart"] {
                for (key, ids) in wanted {
                    let found = try await store.found(SearchLook(.keys([key])))
                    try expect(found.map(\.delivery.id), is: ids.sorted(by: >), "by \(key) \(step)")
                }
                let all = try await store.found(SearchLook())
                try expect(all.count, is: 7, "all \(step)")
                try expect(all.map(\.delivery.id), is: all.map(\.delivery.id).sorted(by: >), "the newest first")
                let key = SearchKey.reference("order-1")
                let some = try await store.found(SearchLook(.keys([key]), onePerNotification: true))
                try expect(some.map(\.notification), is: [all[0].notification], "one of the notification \(step)")
                try expect(some.first?.record.reference, is: "order-1", "its record \(step)")
                try expect(some.first?.caller, is: "shop", "its sender \(step)")
                store = try await fixture.reopen(store)
            }
            let none = try await store.found(SearchLook(.keys([.user("nobody"), .device("none"), .reference("x")])))
            try expect(none.count, is: 0, "by keys that nothing has")
            await store.close()
        },
        StoreConformanceCase("A search goes on below its last delivery, in pages of any size, and repeats nothing") {
            fixture in
            let store = try await fixture.open()
            var ids: [Int64] = []
            for round in 0..<12 {
                let new = NewNotification.search(store, fixture.time, devices: round.isMultiple(of: 3) ? 5 : 1)
                ids += new.recipients.indices.map { new.id.rawValue + Int64($0) }
                _ = try await store.accept(new)
                let claimed = try await store.claimNow("apns", round.isMultiple(of: 2) ? 100 : 1)
                try await store.end(claimed, round.isMultiple(of: 4) ? .failed : .acceptedByPlatform)
                fixture.time.advance(by: .seconds(11))
            }
            let sources: [SearchLook.Source] = [.all, .keys([.user("ali")]), .keys([.reference("order-1")])]
            for source in sources {
                for limit in [1, 3, 7, 100] {
                    let found = try await store.pages(SearchLook(source, limit: limit))
                    try expect(found.map(\.delivery.id), is: ids.sorted(by: >), "\(source) by \(limit)")
                    let heads = try await store.pages(SearchLook(source, limit: limit, onePerNotification: true))
                    let expected = Set(found.map(\.notification)).sorted(by: >)
                    try expect(heads.map(\.notification), is: expected, "notifications of \(source) by \(limit)")
                    let part = try await store.pages(SearchLook(source, from: ids[5], before: ids[20], limit: limit))
                    try expect(part.map(\.delivery.id), is: ids[5..<20].sorted(by: >), "a span of \(source)")
                }
            }
            let even = try await store.pages(SearchLook(limit: 2)) { $0.delivery.id.isMultiple(of: 2) }
            try expect(even.map(\.delivery.id), is: ids.filter { $0.isMultiple(of: 2) }.sorted(by: >), "by a condition")
            await store.close()
        },
        StoreConformanceCase("A delivery that has ended has the time at which it did, with an attempt or without") {
            fixture in
            var store = try await fixture.open()
            let recipients = (0..<3).map { Recipient.sample("of-\($0)") }
            let several = try await store.accept(.sample(store, fixture.time, to: recipients))
            let single = try await store.accept(.sample(store, fixture.time))
            fixture.time.advance(by: .seconds(20))
            let claimed = try await store.claimNow()
            try expect(claimed.count, is: 4, "claimed")
            let last = several.rawValue + 2
            let ended = claimed.filter { $0.id != last }
            // As of a campaign's accepted delivery, of which no attempt is kept.
            try await store.record(ended.map { Resolution(of: $0, .end(.acceptedByPlatform)) })
            let now = store.time.steady
            fixture.time.advance(by: .seconds(20))
            for step in ["at once", "after a restart"] {
                let listed = try await store.deliveries(of: several, after: nil, limit: 10)
                let alone = try await store.deliveries(of: single, after: nil, limit: 10)
                let found = try await store.found(SearchLook()).map(\.delivery)
                try expect((listed + alone).count, is: 4, "listed \(step)")
                for delivery in listed + alone + found {
                    let distance = delivery.endedAt.map { abs($0.timeIntervalSince(now)) }
                    if delivery.id == last {
                        try expect(distance == nil, "\(delivery.id) has not ended \(step)")
                    } else {
                        try expect(distance ?? .infinity < 2, "the end of \(delivery.id) \(step)")
                    }
                }
                store = try await fixture.reopen(store)
            }
            await store.close()
        },
        StoreConformanceCase("A search stops after the rows that it may read, and says below which it goes on") {
            fixture in
            let store = try await fixture.open()
            for _ in 0..<10 {
                _ = try await store.accept(.sample(store, fixture.time))
                try await store.end(try await store.claimNow())
            }
            var looks = 0
            var look = SearchLook(rows: 3)
            while true {
                let page = try await store.searching.search(look) { _ in false }
                try expect(page.found.count, is: 0, "nothing is wanted")
                looks += 1
                guard let next = page.next else { break }
                try expect(next < look.before, "it goes on")
                look.before = next
            }
            try expect(looks, is: 4, "looks of three rows at ten deliveries")
            await store.close()
        },
        StoreConformanceCase(
            "Bad ends are found, marked as handled and brought back, and their marks outlive a restart"
        ) {
            fixture in
            var store = try await fixture.open()
            var ids: [DeliveryState: Int64] = [:]
            for state in [DeliveryState.acceptedByPlatform, .failed, .expired, .unknown, .cancelled] {
                let id = try await store.accept(.sample(store, fixture.time))
                try await store.end(try await store.claimNow(), state)
                ids[state] = id.rawValue
            }
            // One that has a row, since it was tried twice.
            let retried = try await store.accept(.sample(store, fixture.time))
            let first = try await store.claimNow()
            try await store.record(first.map { Resolution(of: $0, .retry(at: fixture.time.steady, step: 0)) })
            try await store.end(try await store.claimNow(), .failed)
            let waiting = try await store.accept(.sample(store, fixture.time))
            let dead = [ids[.failed], ids[.expired], ids[.unknown], retried.rawValue].compactMap { $0 }.sorted(by: >)
            try expect(try await store.pages(SearchLook(.dead, limit: 2)).map(\.delivery.id), is: dead, "bad ends")
            try await store.searching.mark([
                DeadMark(dead[0], isAcknowledged: true), DeadMark(dead[1], isResent: true),
                DeadMark(dead[2], isAcknowledged: true, isResent: true), DeadMark(waiting.rawValue, isResent: true),
                DeadMark(ids[.cancelled] ?? 0, isAcknowledged: true), DeadMark(77, isAcknowledged: true),
            ])
            for step in ["at once", "after a restart"] {
                let found = try await store.pages(SearchLook(.dead))
                try expect(found.map(\.delivery.id), is: dead, "bad ends \(step)")
                try expect(found.map(\.isAcknowledged), is: [true, false, true, false], "acknowledged \(step)")
                try expect(found.map(\.isResent), is: [false, true, true, false], "sent again \(step)")
                store = try await fixture.reopen(store)
            }
            try await store.searching.mark([
                DeadMark(dead[0], isAcknowledged: false), DeadMark(dead[2], isAcknowledged: false),
            ])
            let back = try await store.pages(SearchLook(.dead))
            try expect(back.map(\.isAcknowledged), is: [false, false, false, false], "brought back")
            try expect(back.map(\.isResent), is: [false, true, true, false], "that they were sent again stays")
            await store.close()
        },
        StoreConformanceCase("An erased user's deliveries are found no more, by no key") { fixture in
            let store = try await fixture.open()
            guard let traces = store.abilities.traces else { return }
            let own = NewNotification.search(store, fixture.time, devices: 2)
            _ = try await store.accept(own)
            var shared = NewNotification.search(store, fixture.time, devices: 2)
            shared.recipients[1] = .device("other")
            shared.users[1] = "sara"
            shared.record.reference = "shared"
            _ = try await store.accept(shared)
            _ = try await store.claimNow()
            try await store.end(try await store.claimNow())
            let waiting = NewNotification.search(store, fixture.time, devices: 1)
            _ = try await store.accept(waiting)
            var known = UserTraces(user: "ali")
            known.devices = ["phone-0", "phone-1"]
            known.recipients.formUnion(known.devices.map { Recipient.device($0).storedForm })
            known.end = try await traces.tracesEnd()
            // What was being sent is erased by a further call, as the gateway makes it.
            for _ in 0..<2 {
                try await traces.eraseDeliveries(of: known) { _, _ in
                    Array("cancelled".utf8)
                } state: { _ in
                    ("erasures/test", [1])
                } progress: { _ in
                }
                let claimed = try await store.pages(SearchLook()).filter { !$0.delivery.state.isFinal }
                try await store.record(
                    claimed.map { Resolution(delivery: $0.delivery.id, transition: .end(.acceptedByPlatform)) }
                )
            }
            let keys: [SearchKey] = [
                .user("ali"), .device("phone-0"), .device("phone-1"), .reference("order-1"),
            ]
            for key in keys {
                try expect(try await store.found(SearchLook(.keys([key]))).count, is: 0, "by \(key)")
            }
            let rest = try await store.pages(SearchLook(.keys([.user("sara"), .device("other")])))
            try expect(rest.map(\.delivery.id), is: [shared.id.rawValue + 1], "another user's")
            for delivery in try await store.pages(SearchLook()) {
                try expect(
                    !known.recipients.contains(delivery.delivery.recipient.storedForm),
                    "\(delivery.delivery.recipient.storedForm) is left"
                )
            }
            await store.close()
        },
        StoreConformanceCase("An erasure counts each delivery that goes with its notification as removed, and once") {
            fixture in
            let store = try await fixture.open()
            guard let traces = store.abilities.traces else { return }
            _ = try await store.accept(.search(store, fixture.time, devices: 3))
            var known = UserTraces(user: "ali")
            known.devices = ["phone-0", "phone-1", "phone-2"]
            known.recipients.formUnion(known.devices.map { Recipient.device($0).storedForm })
            known.end = try await traces.tracesEnd()
            let sum = Mutex(ErasedDeliveries())
            try await traces.eraseDeliveries(of: known) { _, _ in
                Array("cancelled".utf8)
            } state: { _ in
                ("erasures/test", [1])
            } progress: { part in
                sum.withLock { $0 += part }
            }
            let result = sum.withLock { $0 }
            try expect([result.cancelled, result.removed, result.anonymised], is: [3, 3, 0], "what the answer counts")
            await store.close()
        },
        StoreConformanceCase("Purged deliveries are found no more") { fixture in
            let store = try await fixture.open()
            _ = try await store.accept(.search(store, fixture.time, devices: 3))
            try await store.end(try await store.claimNow(), .failed)
            fixture.time.advance(by: .seconds(3 * 86_400))
            let kept = try await store.accept(.search(store, fixture.time, devices: 1))
            let before = fixture.time.steady.addingTimeInterval(-86_400)
            var rounds = 0
            while try await store.purge(Retention(notifications: before, events: before)), rounds < 100 { rounds += 1 }
            for source in [SearchLook.Source.all, .keys([.user("ali")]), .keys([.reference("order-1")])] {
                let found = try await store.pages(SearchLook(source))
                try expect(found.map(\.notification), is: [kept], "by \(source)")
            }
            try expect(try await store.pages(SearchLook(.dead)).count, is: 0, "bad ends")
            await store.close()
        },
    ]

    /// Accepts deliveries that wait, are being sent, and have ended; returns the deliveries that each key must find.
    private static func searched(
        _ store: any NotificationStore,
        _ fixture: StoreFixture
    ) async throws -> [SearchKey: [Int64]] {
        var ended = NewNotification.search(store, fixture.time, devices: 1)
        ended.record.reference = nil
        _ = try await store.accept(ended)
        try await store.end(try await store.claimNow())
        var user = NewNotification.search(store, fixture.time, devices: 0)
        (user.recipients, user.users, user.record.reference) = ([.user("ali")], [], nil)
        _ = try await store.accept(user)
        _ = try await store.claimNow()
        _ = try await store.accept(.sample(store, fixture.time))
        var other = NewNotification.search(store, fixture.time, devices: 1)
        (other.recipients, other.users, other.record.reference) = ([.device("tablet")], ["sara"], "order-2")
        _ = try await store.accept(other)
        let waiting = NewNotification.search(store, fixture.time, devices: 3)
        _ = try await store.accept(waiting)
        let number = waiting.id.rawValue
        return [
            .user("ali"): [ended.id.rawValue, user.id.rawValue, number, number + 1, number + 2],
            .device("phone-0"): [ended.id.rawValue, number], .device("phone-2"): [number + 2],
            .user("sara"): [other.id.rawValue], .device("tablet"): [other.id.rawValue],
            .reference("order-1"): [number, number + 1, number + 2], .reference("order-2"): [other.id.rawValue],
        ]
    }
}

extension NewNotification {
    /// Makes a notification to devices of a user, with a reference.
    fileprivate static func search(_ store: any NotificationStore, _ time: ManualTime, devices: Int) -> NewNotification
    {
        let recipients = (0..<devices).map { Recipient.device("phone-\($0)") }
        var new = NewNotification.sample(store, time, to: recipients.isEmpty ? [.sample("a")] : recipients)
        new.users = recipients.map { _ in "ali" }
        new.record.reference = "order-1"
        return new
    }
}

extension NotificationStore {
    /// The search of a store under test, which every store has.
    fileprivate var searching: any SearchStore {
        get throws {
            guard let search = abilities.search else { throw ConformanceFailure("the store has no search") }
            return search
        }
    }

    /// Returns the deliveries of one look.
    fileprivate func found(_ look: SearchLook) async throws -> [FoundDelivery] {
        try await searching.search(look) { _ in true }.found
    }

    /// Returns the deliveries of a look and of those that continue it.
    fileprivate func pages(
        _ look: SearchLook,
        where isWanted: @escaping @Sendable (FoundDelivery) -> Bool = { _ in true }
    ) async throws -> [FoundDelivery] {
        var (look, all): (SearchLook, [FoundDelivery]) = (look, [])
        while true {
            let page = try await searching.search(look, where: isWanted)
            try expect(page.found.count <= look.limit, "more than asked for")
            all += page.found
            guard let next = page.next else { return all }
            try expect(next < look.before, "a search goes on")
            look.before = next
        }
    }
}
