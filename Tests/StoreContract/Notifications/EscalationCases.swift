import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting
import Foundation

/// Checks of deliveries that a platform took and that wait for a report before another backend takes over.
extension StoreConformance {
    static let escalations: [StoreConformanceCase] = [
        StoreConformanceCase("A report ends the wait for it, over a restart: no other backend takes over") { fixture in
            var store = try await fixture.open()
            let id = try await store.hold(fixture, ["token-0", "token-1", "token-2", "token-3"])
            store = try await fixture.reopen(store)
            let events = try await store.lastEvent()
            let results = try await store.record([
                .report("token-0", .delivered), .report("token-1", .opened),
                .report(ReceiptAddress(delivery: id.rawValue + 2), .delivered),
                .report(ReceiptAddress(delivery: id.rawValue + 3, backend: "apns"), .opened),
            ])
            try expect(results.map(\.word), is: Array(repeating: "recorded", count: 4), "results")
            try expect(try await store.counts(id), is: [.delivered: 2, .opened: 2], "counts")
            try expect(
                try await store.eventTexts(after: events),
                is: ["delivered apns", "opened apns", "delivered apns", "opened apns"],
                "events"
            )
            fixture.time.advance(by: .seconds(200))
            try expect(try await store.claimNow("sms").count, is: 0, "claimed by the next backend")
            store = try await fixture.reopen(store)
            let ended = try await store.deliveries(of: id, after: nil, limit: 10)
            try expect(ended.map(\.backend), is: Array(repeating: "apns", count: 4), "the backends that have them")
            let logs = ended.map { String(decoding: $0.attemptLog, as: UTF8.self) }
            try expect(
                logs.map { $0.contains(#","outcome":"accepted""#) && $0.hasSuffix(#""receipt"}"#) },
                is: [true, true, true, true],
                "what is in the stories"
            )
            try expect(try await store.depths()["sms"]?.waiting ?? 0, is: 0, "waiting for the next backend")
            await store.close()
        },
        StoreConformanceCase("Without a report the next backend claims the delivery, which no report ends then") {
            fixture in
            let store = try await fixture.open()
            let id = try await store.hold(fixture, ["token-0"])
            try expect(try await store.claimNow("sms").count, is: 0, "claimed before the time")
            fixture.time.advance(by: .seconds(121))
            let claimed = try await store.claimNow("sms")
            try expect(claimed.map(\.id), is: [id.rawValue], "claimed at the time")
            try expect(claimed.map(\.step), is: [1], "its step")
            try expect(claimed.map(\.isAccepted), is: [true], "whether a platform has it")
            let report = ReceiptEntry.report("token-0", .delivered)
            try expect(try await store.record([report]).map(\.word), is: ["early"], "a report while it is claimed")
            let number = ReceiptEntry.report(ReceiptAddress(delivery: id.rawValue), .opened)
            try expect(try await store.record([number]).map(\.word), is: ["early"], "an app's report then")
            let other = ReceiptEntry.report("token-0", .delivered, backend: "other")
            try expect(try await store.record([other]).map(\.word), is: ["unknown"], "one of another backend")
            try expect(try await store.counts(id), is: [.sending: 1], "counts")
            // The next backend refuses for a moment: it waits again, and the report ends it.
            let later = store.time.steady + 60
            let refused = Array(#"{"at":"3","backend":"sms","outcome":"refused"}"#.utf8)
            try await store.record([Resolution(of: claimed[0], .retry(at: later, step: 1), attempt: refused)])
            try expect(try await store.record([report]).map(\.word), is: ["recorded"], "a report while it waits again")
            try expect(try await store.counts(id), is: [.delivered: 1], "counts")
            await store.close()
        },
        StoreConformanceCase("A report that a delivery does not wait for is noted, and a failure makes it due") {
            fixture in
            var store = try await fixture.open()
            let id = try await store.hold(fixture, ["token-0", "token-1"], unless: .opened)
            func word(_ entry: ReceiptEntry) async throws -> String? {
                let results = try await store.record([entry])
                return results.first?.word
            }
            let events = try await store.lastEvent()
            try expect(try await word(.report("token-0", .delivered)), is: "recorded", "an arrival")
            try expect(try await word(.report("token-0", .delivered)), is: "repeated", "the arrival again")
            try expect(try await word(.report("token-0", .delivered, backend: "other")), is: "unknown", "of another")
            try expect(try await store.counts(id), is: [.retrying: 2], "counts after the arrival")
            try expect(try await store.eventTexts(after: events), is: ["retrying apns"], "events")
            store = try await fixture.reopen(store)
            let log = try await store.deliveries(of: id, after: nil, limit: 1).first?.attemptLog ?? []
            let story = String(decoding: log, as: UTF8.self)
            try expect(story.hasSuffix(#""delivered","outcome":"receipt"}"#), "the story")
            try expect(try await word(.report("token-0", .opened)), is: "recorded", "an opening")
            try expect(try await store.claimNow("sms").count, is: 0, "claimed before the failure")
            try expect(try await word(.report("token-1", .failed)), is: "recorded", "a failure")
            let claimed = try await store.claimNow("sms")
            try expect(claimed.map(\.id), is: [id.rawValue + 1], "claimed after the failure")
            try expect(claimed.map(\.isAccepted), is: [false], "whether a platform has it")
            try expect(claimed.map(\.attempts), is: [1], "attempts")
            try expect(try await store.counts(id), is: [.opened: 1, .sending: 1], "counts")
            await store.close()
        },
        StoreConformanceCase("A delivery that waits for a report and is cancelled ends as accepted") { fixture in
            let store = try await fixture.open()
            let id = try await store.hold(fixture, ["token-0"])
            let events = try await store.lastEvent()
            let cancelled = try await store.cancel(id) { Array("cancelled \($0.step) \($1.rawValue)".utf8) }
            try expect(cancelled, is: Cancellation(cancelled: 1, tooLate: 0), "the cancellation")
            try expect(
                try await store.eventTexts(after: events),
                is: ["cancelled 1 accepted_by_platform"],
                "events"
            )
            // One that is cancelled on its way to the platform waits for nothing when that has taken it.
            let second = try await store.accept(.waiting(store, fixture, ["token-1"]))
            let claimed = try await store.claimNow()
            _ = try await store.cancel(second) { Array("late \($0.step) \($1.rawValue)".utf8) }
            try await store.record(claimed.map { .awaiting($0, store) })
            for one in [id, second] {
                try expect(try await store.counts(one), is: [.acceptedByPlatform: 1], "counts")
                let ended = try await store.deliveries(of: one, after: nil, limit: 1)
                try expect(ended.map(\.backend), is: ["apns"], "the backend that has it")
            }
            fixture.time.advance(by: .seconds(200))
            try expect(try await store.claimNow("sms").count, is: 0, "claimed by the next backend")
            let reports: [ReceiptEntry] = [.report("token-0", .delivered), .report("token-1", .opened)]
            let words = try await store.record(reports).map(\.word)
            try expect(words, is: ["recorded", "recorded"], "their reports, later")
            try expect(try await store.counts(second), is: [.opened: 1], "counts after the report")
            await store.close()
        },
        StoreConformanceCase("Reports that come together about a delivery that waits for one are all recorded") {
            fixture in
            let store = try await fixture.open()
            let id = try await store.hold(fixture, ["token-0", "token-1", "token-2"])
            let events = try await store.lastEvent()
            let third = ReceiptAddress(delivery: id.rawValue + 2)
            let results = try await store.record([
                .report("token-0", .delivered), .report("token-0", .opened),
                .report("token-1", .delivered), .report("token-1", .delivered),
                .report(third, .opened), .report(third, .delivered),
            ])
            try expect(
                results.map(\.word),
                is: ["recorded", "recorded", "recorded", "repeated", "recorded", "repeated"],
                "results"
            )
            try expect(try await store.counts(id), is: [.delivered: 1, .opened: 2], "counts")
            try expect(
                try await store.eventTexts(after: events),
                is: ["delivered apns", "opened apns", "delivered apns", "opened apns"],
                "events"
            )
            let logs = try await store.deliveries(of: id, after: nil, limit: 10).map {
                String(decoding: $0.attemptLog, as: UTF8.self).components(separatedBy: #""receipt"}"#).count - 1
            }
            try expect(logs, is: [2, 1, 1], "reports in the stories")
            await store.close()
        },
        StoreConformanceCase("A delivery that the next backend gives up is of the one that took it") { fixture in
            let store = try await fixture.open()
            let id = try await store.hold(fixture, ["token-0"])
            fixture.time.advance(by: .seconds(121))
            let claimed = try await store.claimNow("sms")
            let limited = Array(#"{"at":"3","outcome":"none","reason":"escalation_limit"}"#.utf8)
            try await store.record(claimed.map { Resolution(of: $0, .reached(step: 0), attempt: limited, event: [1]) })
            try expect(try await store.counts(id), is: [.acceptedByPlatform: 1], "counts")
            let ended = try await store.deliveries(of: id, after: nil, limit: 1)
            try expect(ended.map(\.backend), is: ["apns"], "the backend that has it")
            let story = ended.map { String(decoding: $0.attemptLog, as: UTF8.self) }.first
            try expect(story?.hasSuffix(#"limit"}"#) == true, "the story")
            let report = ReceiptEntry.report("token-0", .delivered)
            try expect(try await store.record([report]).map(\.word), is: ["recorded"], "its report, later")
            await store.close()
        },
        StoreConformanceCase("An operator's retry leaves a delivery that waits for a report") { fixture in
            let store = try await fixture.open()
            let id = try await store.hold(fixture, ["token-0"])
            try expect(try await store.makeRetriesDue(of: "sms"), is: 0, "made due")
            fixture.time.advance(by: .seconds(121))
            let claimed = try await store.claimNow("sms")
            let refused = Array(#"{"at":"3","backend":"sms","outcome":"refused"}"#.utf8)
            let later = Resolution.Transition.retry(at: store.time.steady + 600, step: 1)
            try await store.record(claimed.map { Resolution(of: $0, later, attempt: refused) })
            try expect(try await store.makeRetriesDue(of: "sms"), is: 1, "made due after an attempt")
            try expect(try await store.claimNow("sms").map(\.id), is: [id.rawValue], "claimed")
            await store.close()
        },
        StoreConformanceCase("An erased user's delivery that waits for a report goes to no other backend") { fixture in
            let store = try await fixture.open()
            guard let traces = store.abilities.traces else { return await store.close() }
            _ = try await store.hold(fixture, ["token-0"])
            var known = UserTraces(user: "ali")
            known.recipients.insert(Recipient.sample("0").storedForm)
            try await traces.eraseDeliveries(of: known) { _, _ in
                Array("cancelled".utf8)
            } state: { _ in
                ("erasures/test", [1])
            } progress: { _ in
            }
            fixture.time.advance(by: .seconds(200))
            try expect(try await store.claimNow("sms").count, is: 0, "claimed by the next backend")
            let report = ReceiptEntry.report("token-0", .delivered)
            try expect(try await store.record([report]).map(\.word), is: ["unknown"], "a report after the erasure")
            await store.close()
        },
    ]
}

extension NewNotification {
    /// Makes a notification for which `sms` takes over two minutes after `apns` took it.
    fileprivate static func waiting(
        _ store: any NotificationStore,
        _ fixture: StoreFixture,
        _ tokens: [String],
        unless report: Escalation.Report = .delivered
    ) -> NewNotification {
        let recipients = tokens.map { Recipient.token(DeviceToken($0, service: .iOSAPNs)) }
        var new = NewNotification.sample(store, fixture.time, to: recipients, backends: ["apns", "sms"])
        new.record.plans[0].escalation = Escalation(step: 1, after: .seconds(120), unless: report)
        return new
    }
}

extension Resolution {
    /// Returns the resolution of a delivery that the platform took and that waits for a report.
    fileprivate static func awaiting(_ claim: ClaimedDelivery, _ store: any NotificationStore) -> Resolution {
        var token = ""
        if case .token(let own) = claim.recipient { token = own.value }
        return Resolution(
            of: claim,
            .retry(at: store.time.steady + 120, step: 1),
            attempt: Array(#"{"at":"1","backend":"apns","outcome":"accepted","platform_id":"ID-\#(token)"}"#.utf8),
            mayHaveBeenSent: true,
            event: Array("awaits \(token)".utf8),
            receipt: ReceiptAddress(backend: "apns", platformID: "ID-\(token)", token: token)
        )
    }
}

extension NotificationStore {
    /// Accepts a notification whose deliveries `apns` takes, and that wait for reports.
    fileprivate func hold(
        _ fixture: StoreFixture,
        _ tokens: [String],
        unless report: Escalation.Report = .delivered
    ) async throws -> NotificationID {
        let id = try await accept(.waiting(self, fixture, tokens, unless: report))
        let claimed = try await claimNow()
        try expect(claimed.count, is: tokens.count, "claimed by the first backend")
        try await record(claimed.map { .awaiting($0, self) })
        try expect(try await counts(id), is: [.retrying: tokens.count], "while they wait for a report")
        return id
    }
}

extension ReceiptEntry {
    /// Makes the platform's report about the message to a token.
    fileprivate static func report(_ token: String, _ state: DeliveryState, backend: String = "apns") -> ReceiptEntry {
        report(ReceiptAddress(backend: backend, platformID: "ID-\(token)", token: token), state)
    }

    /// Makes a report.
    fileprivate static func report(_ address: ReceiptAddress, _ state: DeliveryState) -> ReceiptEntry {
        let failed = state == .failed ? #","state":"failed""# : ""
        let logEntry = Array(#"{"at":"2"\#(failed),"reason":"\#(state.rawValue)","outcome":"receipt"}"#.utf8)
        return ReceiptEntry(address, state: state, logEntry: logEntry) { delivery in
            Array("\(delivery.state.rawValue) \(delivery.backend)".utf8)
        }
    }
}
