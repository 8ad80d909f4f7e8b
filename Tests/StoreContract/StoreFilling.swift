import Foundation
import ChaparComposition
package import ChaparCore
package import ChaparQueue

/// Fills a store with rows of every kind by public calls, and compares its answers: for tests of copies and of damaged
/// files.
package struct StoreFilling: Sendable {
    package typealias Store = DeviceStore & NotificationStore & OutboxStore & StateStore & TraceStore

    package private(set) var notifications: [NotificationID] = []
    /// The campaigns, each with a part among the notifications.
    private(set) var campaigns: [NotificationID] = []
    /// The marks of deliveries that ended badly.
    private(set) var deadMarks: [DeadMark] = []
    /// The longest wait of a claim for work.
    package var patience = Duration.milliseconds(200)

    /// Makes one for an empty store.
    package init() {}

    /// Fills a store; one delivery stays claimed and one entry leased when it is closed.
    package mutating func fill(_ store: some Store) async throws {
        try await deliver(store)
        try await register(store)
        try await store.saveState("credential.apns", [0, 1, 2, 255])
        try await store.publish([Array("one".utf8), Array("two".utf8)])
        try await fillAbilities(store)
    }

    /// Notes a campaign and the notification that a window of it made.
    mutating func add(campaign: NotificationID, part: NotificationID) {
        campaigns.append(campaign)
        notifications.append(part)
    }

    // MARK: Deliveries

    private mutating func accept(
        _ store: some Store,
        _ names: [String],
        backends: [String] = ["apns"],
        due: Date? = nil,
        collapseID: String? = nil,
        key: String? = nil,
        change: (inout NewNotification) -> Void = { _ in }
    ) async throws {
        let now = store.time.steady
        var new = NewNotification(
            id: store.makeID(recipients: names.count),
            notification: PushNotification(
                title: .plain("Hello"),
                priority: names.count > 1 ? .normal : .high,
                collapseID: collapseID
            ),
            record: NotificationRecord(
                content: Array(#"{"title":"Hello \#(names[0])"}"#.utf8),
                plans: [DeliveryPlan(backends)],
                acceptedAt: now
            ),
            recipients: names.map { .token(DeviceToken("token-\($0)", service: .iOSAPNs)) },
            caller: names.count > 1 ? "shop" : "",
            dueAt: due,
            expiresAt: now + 86_400,
            collapseID: collapseID,
            event: Array("accepted \(names[0])".utf8)
        )
        change(&new)
        let entry = key.map {
            IdempotencyEntry(caller: "shop", key: $0, fingerprint: [7], answer: [8, 0], keepUntil: now + 3_600)
        }
        _ = try await store.enqueue(EnqueueBatch([new], idempotency: entry))
        notifications.append(new.id)
    }

    private func claim(_ store: some Store, _ backend: String = "apns", limit: Int = 100) async throws
        -> [ClaimedDelivery]
    {
        try await store.claim(backend: backend, limit: limit, normal: limit, wait: patience)
    }

    private func record(_ store: some Store, _ resolutions: [Resolution]) async throws {
        try await store.record(resolutions) { delivery, state, _ in Array("\(delivery.id) \(state)".utf8) }
    }

    private mutating func deliver(_ store: some Store) async throws {
        let attempt = Array(#"{"result":"ok"}"#.utf8)
        // Plain ends, one of them with a receipt to come.
        for name in ["plain", "receipt", "failed", "plain again"] { try await accept(store, [name]) }
        for (place, claim) in try await claim(store).enumerated() {
            let receipt = place == 1 ? ReceiptAddress(backend: "apns", platformID: "m1", token: "token-receipt") : nil
            let state: DeliveryState = place == 2 ? .failed : .acceptedByPlatform
            if state == .failed { deadMarks.append(DeadMark(claim.id, isAcknowledged: true)) }
            try await record(
                store,
                [Resolution(of: claim, .end(state), attempt: attempt, event: [9], receipt: receipt)]
            )
        }
        // One of three ends, one waits for another attempt at its next backend, one stays unchanged; with plans of
        // their own.
        try await accept(store, ["a", "b", "c"], backends: ["apns", "fcm"], collapseID: "news") {
            $0.record.plans += [DeliveryPlan(["fcm"]), DeliveryPlan(["apns", "hms"])]
            $0.planOf = [0, 1, 2]
        }
        let claims = try await claim(store)
        try await record(store, [Resolution(of: claims[0], .end(.acceptedByPlatform), attempt: attempt)])
        let later = store.time.steady + 600
        try await record(
            store,
            [Resolution(of: claims[1], .retry(at: later, step: 1), attempt: attempt, mayHaveBeenSent: true)]
        )
        // Planned, cancelled, and one with a key.
        try await accept(store, ["later"], due: store.time.now + 7_200)
        try await accept(store, ["cancelled"], backends: ["gone"])
        _ = try await store.cancel(notifications[notifications.count - 1]) { _, _ in [1] }
        try await accept(store, ["moved"], backends: ["gone"])
        try await accept(store, ["there already"], backends: ["hms"])
        _ = try await store.move(backend: "gone", to: "hms")
        try await accept(store, ["key"], backends: ["fcm"], key: "k1")
        try await accept(store, ["referenced"], backends: ["fcm"]) { $0.record.reference = "order-1" }
        // Claimed when the store is closed, with another one waiting behind it.
        try await accept(store, ["claimed"], backends: ["slow"], collapseID: "x")
        _ = try await claim(store, "slow")
        try await accept(store, ["claimed"], backends: ["slow"], collapseID: "x")
        try await accept(store, ["new"])
    }

    // MARK: Devices

    private func register(_ store: some Store) async throws {
        let now = Date(timeIntervalSince1970: store.time.now.timeIntervalSince1970.rounded())
        var devices = (1...5).map { number in
            Device(
                id: "d\(number)",
                user: "u\(number % 2)",
                platform: "ios",
                tokens: [
                    RegisteredToken(
                        DeviceToken("t\(number)", service: .iOSAPNs),
                        environment: .development,
                        registeredAt: now
                    ),
                    RegisteredToken(DeviceToken("f\(number)", service: .androidFirebase), registeredAt: now),
                ],
                tags: ["red", "t\(number)"],
                locale: "fa-IR",
                appVersion: "1.\(number)",
                timeZone: "Asia/Tehran",
                attributes: ["name": .string("ن\(number)")],
                createdAt: now,
                lastSeen: number == 1 ? nil : now
            )
        }
        _ = try await store.put(devices, outbox: now)
        devices[0].tags = []
        _ = try await store.put([devices[0]], outbox: nil)
        _ = try await store.delete("d5", outbox: nil)
        func refusal(_ number: Int, certain: Bool = true) -> TokenRefusal {
            TokenRefusal(
                DeviceToken("t\(number)", service: .iOSAPNs),
                asOf: now + 1,
                at: now + 2,
                backend: "apns",
                reason: "Unregistered",
                isCertain: certain,
                alternatives: certain ? [] : ["fcm"],
                isLast: certain
            )
        }
        _ = try await store.invalidate([refusal(2)], outbox: nil)
        _ = try await store.quarantine([refusal(3)])
        _ = try await store.record([refusal(4, certain: false)])
        try await store.enqueue([
            OutboxEntry(
                backend: "altcraft",
                device: "d6",
                user: "u1",
                kind: .register,
                body: ["a": .integer(1)],
                at: now
            ),
            OutboxEntry(backend: "altcraft", device: "d6", kind: .tags, at: now),
            OutboxEntry(backend: "chabok", device: "d7", kind: .remove, at: now),
        ])
        _ = try await store.claimEntries(of: "chabok", limit: 1, lease: .seconds(3_600), wait: .zero)
    }

    // MARK: Answers

    /// Returns a store's answers to all questions; at the end it claims what is due.
    package func answers(_ store: some Store) async throws -> [String] {
        var lines: [String] = []
        for question in questions(store) { lines += try await question() }
        return lines
    }

    /// A question to a store; returns the answer as text.
    package typealias Question = () async throws -> [String]

    /// Returns all questions to a store; the last ones claim what is due.
    package func questions(_ store: some Store) -> [Question] {
        var all: [Question] = notifications.map { id in { try await about(id, store) } }
        all.append { ["last event \(try await store.lastEvent())"] }
        all.append {
            try await store.events(after: 0, limit: 1_000, wait: .zero).map {
                "event \($0.number) \(String(decoding: $0.json, as: UTF8.self))"
            }
        }
        all.append { ["state \(String(describing: try await store.loadState("credential.apns")))"] }
        all.append { try await store.list(DeviceQuery(), after: nil, limit: 100).devices.map { "\($0)" } }
        for tag in ["red", "t2", "t5"] {
            all.append {
                ["\(tag): \(try await store.list(DeviceQuery(tag: tag), after: nil, limit: 100).devices.map(\.id))"]
            }
        }
        all.append { ["\(try await store.quarantined())"] }
        all.append {
            let owner = try await store.device(having: DeviceToken("t1", service: .iOSAPNs))
            return ["\(String(describing: owner?.id))"]
        }
        all.append { try await store.unplannedChanges(limit: 100, wait: .zero).map { "\($0)" } }
        for device in ["d6", "d7"] {
            all.append {
                try await store.entries(ofDevice: device, limit: 10).map {
                    "\($0.number) \($0.operation) \($0.attempts) \($0.due == nil)"
                }
            }
        }
        all.append { ["\(try await store.outboxDepths().mapValues(\.waiting).sorted { $0.key < $1.key })"] }
        all.append {
            let depths = try await store.depths().mapValues { "\($0.waiting) \($0.claimed)" }.filter {
                $0.value != "0 0"
            }
            return ["\(depths.sorted { $0.key < $1.key })"]
        }
        all.append { ["\(try await repeated(store))"] }
        all.append {
            let receipt = ReceiptEntry(
                ReceiptAddress(backend: "apns", platformID: "m1", token: "token-receipt"),
                state: .delivered,
                logEntry: [0x7B, 0x7D]
            ) { _ in [3] }
            return try await store.record([receipt]).map { "\($0)" }
        }
        all += questionsToAbilities(store)
        for backend in ["apns", "fcm", "hms", "slow"] { all.append { try await claims(of: backend, store) } }
        return all
    }

    private func about(_ id: NotificationID, _ store: some Store) async throws -> [String] {
        guard let found = try await store.notification(id) else { return ["\(id) is not known"] }
        let counts = found.counts.map { "\($0.key) \($0.value)" }.sorted()
        return [
            "\(id) \(found.content) \(found.caller) \(found.acceptedAt.timeIntervalSince1970) \(found.expiresAt) \(counts)",
            "\(String(describing: found.dueAt))",
        ] + (try await store.deliveries(of: id, after: nil, limit: 100).map { "\($0)" })
    }

    private func claims(of backend: String, _ store: some Store) async throws -> [String] {
        try await claim(store, backend).sorted { $0.id < $1.id }.map { claim in
            """
            claimed \(backend) \(claim.id) \(claim.recipient) \(claim.caller) \(claim.step) \(claim.attempts) \
            \(String(decoding: claim.attemptLog, as: UTF8.self)) \(claim.isReplay) \(claim.isRecovered) \
            \(claim.isCancelled) \(claim.plan) \(claim.expiresAt)
            """
        }
    }

    private func repeated(_ store: some Store) async throws -> EnqueueResult {
        let now = store.time.steady
        let new = NewNotification(
            id: store.makeID(recipients: 1),
            notification: PushNotification(title: .plain("Again")),
            record: NotificationRecord(content: [], plans: [DeliveryPlan(["none"])], acceptedAt: now),
            recipients: [.token(DeviceToken("k", service: .iOSAPNs))],
            caller: "shop",
            expiresAt: now + 60,
            event: []
        )
        let entry = IdempotencyEntry(caller: "shop", key: "k1", fingerprint: [7], answer: [], keepUntil: now + 60)
        return try await store.enqueue(EnqueueBatch([new], idempotency: entry))
    }
}
