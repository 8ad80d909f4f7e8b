import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparTesting
import Synchronization

extension StoreConformance {
    static let receipts: [StoreConformanceCase] = [
        StoreConformanceCase("A receipt takes an accepted delivery to its real end, over a restart") { fixture in
            var store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, to: (0..<4).map { Recipient.sample($0) }))
            try await store.acceptByPlatform(try await store.claimNow(), "REQ-1")
            store = try await fixture.reopen(store)
            let events = try await store.lastEvent()
            let results = try await store.record([
                .sample("REQ-1", "token-0", .delivered), .sample("REQ-1", "token-1", .failed),
                .sample("REQ-1", "token-2", nil), .sample("REQ-1", "token-9", .delivered),
                .sample("REQ-9", "token-3", .delivered), .sample("REQ-1", "token-3", .delivered, backend: "other"),
            ])
            try expect(
                results.map(\.word),
                is: ["recorded", "recorded", "recorded", "unknown", "unknown", "unknown"],
                "results"
            )
            try expect(
                try await store.counts(id),
                is: [.delivered: 1, .failed: 1, .acceptedByPlatform: 2],
                "counts"
            )
            try expect(
                try await store.eventTexts(after: events),
                is: ["delivered token-0", "failed token-1", "accepted_by_platform token-2"],
                "events"
            )
            store = try await fixture.reopen(store)
            let stories = try await store.deliveries(of: id, after: nil, limit: 10).map {
                String(decoding: $0.attemptLog, as: UTF8.self)
            }
            try expect(
                stories.map { $0.contains(#"{"outcome":"receipt""#) },
                is: [true, true, true, false],
                "what is in the stories"
            )
            await store.close()
        },
        StoreConformanceCase("A receipt finds a delivery by its number, though no receipt was expected") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, to: (0..<2).map { Recipient.sample($0) }))
            let claims = try await store.claimNow()
            try await store.record(
                claims.map {
                    Resolution(delivery: $0.id, transition: .end(.acceptedByPlatform), attempt: [0x7B, 0x7D])
                }
            )
            func receive(_ address: ReceiptAddress) async throws -> String {
                let logEntry = Array(#"{"outcome":"receipt"}"#.utf8)
                let entry = ReceiptEntry(address, state: .opened, logEntry: logEntry) { _ in [1] }
                let received = try await store.record([entry])
                return received[0].word
            }
            let backend = claims[0].plan.backends[0]
            let number = id.rawValue + 1
            try expect(
                try await receive(ReceiptAddress(delivery: number, backend: "other")),
                is: "unknown",
                "elsewhere"
            )
            try expect(
                try await receive(ReceiptAddress(delivery: number, backend: backend)),
                is: "recorded",
                "where it was"
            )
            try expect(try await receive(ReceiptAddress(delivery: number)), is: "repeated", "again")
            try expect(try await receive(ReceiptAddress(delivery: id.rawValue)), is: "recorded", "wherever it was")
            try expect(try await receive(ReceiptAddress(delivery: 7)), is: "unknown", "none")
            try expect(try await store.counts(id), is: [.opened: 2], "counts")
            await store.close()
        },
        StoreConformanceCase("A receipt finds no delivery that it cannot be about, told with its sender") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time))
            let claims = try await store.claimNow()
            let backend = claims[0].plan.backends[0]
            try await store.acceptByPlatform(claims, "REQ-1")
            let number = ReceiptAddress(delivery: id.rawValue)
            let logEntry = Array(#"{"outcome":"receipt"}"#.utf8)
            for (isRight, word) in [(false, "unknown"), (true, "recorded")] {
                let isFor = { @Sendable (delivery: ReceivedDelivery) in
                    isRight && delivery.caller == "shop" && delivery.backend == backend
                }
                let entry = ReceiptEntry(number, state: .opened, logEntry: logEntry, isFor: isFor) { _ in [1] }
                let received = try await store.record([entry])
                try expect(received[0].word, is: word, "the answer")
            }
            try expect(try await store.counts(id), is: [.opened: 1], "counts")
            await store.close()
        },
        StoreConformanceCase("Receipts that differ in nothing but the state are different ones") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time))
            try await store.acceptByPlatform(try await store.claimNow(), "REQ-1")
            let logEntry = Array(#"{"outcome":"receipt","reason":"0"}"#.utf8)
            for (state, word) in [
                (DeliveryState.delivered, "recorded"), (.delivered, "repeated"), (.opened, "recorded"),
                (.opened, "repeated"),
            ] {
                let number = ReceiptAddress(delivery: id.rawValue)
                let received = try await store.record([
                    ReceiptEntry(number, state: state, logEntry: logEntry) { _ in [1] }
                ])
                try expect(received[0].word, is: word, "the answer to \(state)")
            }
            try expect(try await store.counts(id), is: [.opened: 1], "counts")
            await store.close()
        },
        StoreConformanceCase("A receipt that comes again, or after better news, changes nothing") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time))
            try await store.acceptByPlatform(try await store.claimNow(), "REQ-1")
            func receive(_ state: DeliveryState?) async throws -> String {
                let received = try await store.record([.sample("REQ-1", "token-a", state)])
                return received[0].word
            }
            try expect(try await receive(nil), is: "recorded", "first news")
            try expect(try await receive(nil), is: "repeated", "the same news")
            try expect(try await receive(.delivered), is: "recorded", "delivered")
            let events = try await store.lastEvent()
            for state in [DeliveryState.delivered, .failed] {
                try expect(try await receive(state), is: "repeated", "\(state) after delivered")
            }
            try expect(try await store.lastEvent(), is: events, "the newest event")
            try expect(try await receive(.opened), is: "recorded", "opened")
            try expect(try await receive(.delivered), is: "repeated", "delivered after opened")
            try expect(try await store.counts(id), is: [.opened: 1], "counts")
            await store.close()
        },
        StoreConformanceCase("A report of an app about a delivery that may have arrived has to come again") { fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, to: (0..<2).map { Recipient.sample($0) }))
            func words(_ backend: String = "", isRight: Bool = true) async throws -> [String] {
                let logEntry = Array(#"{"outcome":"receipt"}"#.utf8)
                let entries = (0..<2).map { place in
                    let address = ReceiptAddress(delivery: id.delivery(at: place), backend: backend)
                    return ReceiptEntry(address, state: .opened, logEntry: logEntry, isFor: { _ in isRight }) { _ in [1]
                    }
                }
                return try await store.record(entries).map(\.word)
            }
            try expect(try await words(), is: ["unknown", "unknown"], "before anything was sent")
            let claims = try await store.claimNow()
            try expect(try await words(), is: ["early", "early"], "while it is sent")
            try expect(try await words("other"), is: ["unknown", "unknown"], "by another backend")
            try expect(try await words(isRight: false), is: ["unknown", "unknown"], "of another recipient")
            let later = Resolution.Transition.retry(at: store.time.steady + 60, step: 0)
            let timeout = Array(#"{"at":"1","backend":"apns","outcome":"unknown"}"#.utf8)
            let refused = Array(#"{"at":"1","backend":"apns","outcome":"refused"}"#.utf8)
            try await store.record([
                Resolution(of: claims[0], later, attempt: timeout, mayHaveBeenSent: true),
                Resolution(of: claims[1], later, attempt: refused),
            ])
            try expect(try await words(), is: ["early", "unknown"], "while it waits for the next attempt")
            fixture.time.advance(by: .seconds(61))
            try await store.acceptByPlatform(try await store.claimNow(), "REQ-1")
            try expect(try await words(), is: ["recorded", "recorded"], "when the platform has answered")
            await store.close()
        },
        StoreConformanceCase("A receipt finds no delivery that is under way, ended otherwise or was purged") {
            fixture in
            let store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, to: (0..<2).map { Recipient.sample($0) }))
            let claimed = try await store.claimNow()
            func receive(_ token: String) async throws -> String {
                let received = try await store.record([.sample("REQ-1", token, .delivered)])
                return received[0].word
            }
            try expect(try await receive("token-0"), is: "unknown", "while claimed")
            try await store.acceptByPlatform([claimed[0]], "REQ-1")
            try await store.end([claimed[1]], .failed)
            try expect(try await receive("token-1"), is: "unknown", "of a failed one")
            try expect(try await store.counts(id), is: [.acceptedByPlatform: 1, .failed: 1], "counts")
            fixture.time.advance(by: .seconds(100_000))
            while try await store.purge(Retention(notifications: store.time.steady, events: store.time.steady)) {}
            try expect(try await receive("token-0"), is: "unknown", "after the purge")
            await store.close()
        },
    ]
}

extension NotificationStore {
    /// Ends deliveries as accepted by the platform, with a receipt to come.
    fileprivate func acceptByPlatform(_ deliveries: [ClaimedDelivery], _ platformID: String) async throws {
        try await record(
            deliveries.map { delivery in
                guard case .token(let token) = delivery.recipient else {
                    throw ConformanceFailure("the recipient is another one")
                }
                return Resolution(
                    delivery: delivery.id,
                    transition: .end(.acceptedByPlatform),
                    attempt: Array(#"{"outcome":"accepted","platform_id":"\#(platformID)"}"#.utf8),
                    event: Array("ended \(delivery.id)".utf8),
                    receipt: ReceiptAddress(backend: "apns", platformID: platformID, token: token.value)
                )
            }
        )
    }
}

extension ReceiptEntry {
    fileprivate static func sample(
        _ platformID: String,
        _ token: String,
        _ state: DeliveryState?,
        backend: String = "apns"
    ) -> ReceiptEntry {
        ReceiptEntry(
            ReceiptAddress(backend: backend, platformID: platformID, token: token),
            state: state,
            logEntry: Array(#"{"outcome":"receipt","reason":"\#(state?.rawValue ?? "note")"}"#.utf8)
        ) { delivery in
            guard case .token(let token) = delivery.recipient else { return [] }
            return Array("\(delivery.state.rawValue) \(token.value)".utf8)
        }
    }
}

extension ReceiptResult {
    var word: String {
        switch self {
        case .unknown: "unknown"
        case .early: "early"
        case .repeated: "repeated"
        case .recorded: "recorded"
        }
    }
}
