import Foundation
import ChaparCore
import ChaparQueue
import ChaparStorePostgres

/// What comes and goes in a day, at two nodes at once: deliveries, idempotency keys, changes of devices with what platforms are told of
/// them, notes of the nodes to each other, quotas and state.
struct Day {
    /// An idempotency key is kept so long, in seconds: a day's share of how long the work takes.
    private static let keyAge = 30.0
    /// The number of devices; a thousand deliveries come with changes of 33 of them.
    private static let devices = 200_000
    private static let changesAtOnce = 33

    let bench: Bench
    let nodes: [PostgresStore]

    /// Accepts and ends so many deliveries; the rest goes on beside them until then.
    func run(deliveries: Int) async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await deliver(deliveries)
                return true
            }
            for node in nodes {
                for part in [plan, tellPlatforms, keepHouse] {
                    group.addTask {
                        try await part(node)
                        return false
                    }
                }
            }
            while try await group.next() == false {}
            group.cancelAll()
        }
    }

    private func deliver(_ count: Int) async throws {
        async let ended: Void = bench.workOff(nodes, rows: count, limit: 500, workers: 2, backend: "apns")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for producer in 0..<8 {
                let node = nodes[producer % nodes.count]
                group.addTask {
                    for call in 0..<count / 8 / 10 {
                        var batch = bench.batch(node, 10)
                        batch.idempotency = IdempotencyEntry(
                            caller: "shop",
                            key: UUID().uuidString,
                            fingerprint: Array(repeating: 1, count: 32),
                            answer: Array(repeating: 2, count: 120),
                            keepUntil: node.time.steady + Self.keyAge
                        )
                        _ = try await node.enqueue(batch)
                        if call % 100 == 0 { try await changeDevices(node) }
                    }
                }
            }
            try await group.waitForAll()
        }
        try await ended
    }

    private func changeDevices(_ node: PostgresStore) async throws {
        let now = node.time.now
        _ = try await node.put(
            (0..<Self.changesAtOnce).map { _ in
                let number = Int.random(in: 0..<Self.devices)
                let token = DeviceToken(String(format: "%064x", number), service: .iOSAPNs)
                return Device(
                    id: "device-\(number)",
                    user: "user-\(number / 2)",
                    tokens: [RegisteredToken(token, registeredAt: now)],
                    tags: ["tag-\(Int.random(in: 0..<9))"],
                    createdAt: now
                )
            },
            outbox: now
        )
    }

    /// Makes of each change an entry for one platform.
    private func plan(_ node: PostgresStore) async throws {
        while !Task.isCancelled {
            let changes = try await node.unplannedChanges(limit: 200, wait: .seconds(1))
            try await node.record(
                changes.map { change in
                    let entry = OutboxEntry(
                        backend: "crm",
                        device: change.content.device,
                        kind: .tags,
                        body: ["tag": "a"],
                        at: change.at
                    )
                    return OutboxPlan(change: change.number, [entry])
                }
            )
        }
    }

    /// Ends what the platform is to be told; a tenth of it is tried twice.
    private func tellPlatforms(_ node: PostgresStore) async throws {
        while !Task.isCancelled {
            let claims = try await node.claimEntries(of: "crm", limit: 200, lease: .seconds(60), wait: .seconds(1))
            try await node.record(
                claims.map { claim in
                    let isAgain = claim.attempt == 1 && claim.number % 10 == 0
                    return OutboxResult(claim, isAgain ? .retry(at: node.time.steady + 1) : .end)
                }
            )
        }
    }

    /// What a gateway does beside its messages, ten times a second.
    private func keepHouse(_ node: PostgresStore) async throws {
        let pacing = Pacing(perSecond: 100_000)
        var round = 0
        while !Task.isCancelled {
            round += 1
            node.tell(NodeNote(topic: "pause \(round % 9)", body: Array(repeating: 1, count: 100)))
            _ = try await node.reserve(QuotaRequest(pacing: pacing, wanted: 500), of: "quota \(round % 9)")
            if round % 10 == 0 {
                try await node.saveState("bench.state \(round % 9)", Array(repeating: 1, count: 200))
                let before = Date() - 86_400
                while try await node.purge(Retention(notifications: before, events: before)) {}
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }
}
