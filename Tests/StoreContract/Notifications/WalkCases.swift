import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    static let walks: [StoreConformanceCase] = (1...6).map { seed in
        StoreConformanceCase("A random walk agrees with a simple model (seed \(seed))") { fixture in
            var walk = StoreWalk(fixture, try await fixture.open(), seed: UInt64(seed))
            for _ in 0..<220 { try await walk.step() }
            try await walk.finish()
        }
    }
}

/// A store and a model of it that go through the same calls.
///
/// The next call is drawn from a seed; from time to time, and at the end, everything in the store is compared with the
/// model. The model is the simplest implementation of the contract, and survives what the store has to survive.
private struct StoreWalk {
    private struct Delivery {
        var state: DeliveryState = .queued
        var backend: String
        var due: Date
        var attempts = 0
        var notification: NotificationID
        var isClaimed = false
        var isCancelled = false
        var mayHaveBeenSent = false
    }

    private let fixture: StoreFixture
    private var store: any NotificationStore
    private var random: SeededGenerator
    private var deliveries: [Int64: Delivery] = [:]
    private var notifications: [NotificationID: Int] = [:]
    private var held: [ClaimedDelivery] = []
    private var eventCount: Int64 = 0
    private var serial = 0
    /// The last seen state of each delivery.
    private var seen: [Int64: DeliveryState] = [:]

    init(_ fixture: StoreFixture, _ store: any NotificationStore, seed: UInt64) {
        self.fixture = fixture
        self.store = store
        random = SeededGenerator(seed: seed)
    }

    mutating func step() async throws {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<6: try await accept()
        case 6..<11: try await claim(["one", "two"].randomElement(using: &random) ?? "one")
        case 11..<16: try await resolve()
        case 16: try await cancel()
        case 17: fixture.time.advance(by: .seconds(Int.random(in: 0..<8, using: &random)))
        case 18: try await check()
        default: if serial % 5 == 0 { try await reopen() }
        }
    }

    /// Works off everything that is left; throws when a delivery is missing.
    mutating func finish() async throws {
        try await check()
        for _ in 0..<200 where deliveries.values.contains(where: { !$0.state.isFinal }) {
            for backend in ["one", "two"] { try await claim(backend) }
            while !held.isEmpty { try await resolve() }
            fixture.time.advance(by: .seconds(5))
        }
        try expect(deliveries.values.allSatisfy(\.state.isFinal), "some deliveries were never claimed")
        try await check()
        await store.close()
    }

    private mutating func accept() async throws {
        let backends = Bool.random(using: &random) ? ["one", "two"] : ["two", "one"]
        let now = fixture.time.now
        let batch = (0..<Int.random(in: 1...3, using: &random)).map { _ in
            let delay = Double(max(0, Int.random(in: -6..<6, using: &random)))
            let recipients = (0..<Int.random(in: 1...4, using: &random)).map { place -> Recipient in
                serial += 1
                return .sample("\(serial)-\(place)")
            }
            return NewNotification.sample(
                store,
                fixture.time,
                to: recipients,
                backends: backends,
                due: delay > 0 ? now + delay : nil,
                timeToLive: .seconds(100_000)
            )
        }
        try expect(try await store.enqueue(EnqueueBatch(batch)), is: .accepted, "enqueue")
        for new in batch {
            notifications[new.id] = new.recipients.count
            eventCount += 1
            for place in new.recipients.indices {
                deliveries[new.id.rawValue + Int64(place)] = Delivery(
                    backend: backends[0],
                    due: new.dueAt ?? now,
                    notification: new.id
                )
            }
        }
    }

    private mutating func claim(_ backend: String) async throws {
        let limit = Int.random(in: 1...12, using: &random)
        let claimed = try await store.claimNow(backend, limit)
        let now = fixture.time.now
        let wanted = deliveries.filter { !$0.value.state.isFinal && !$0.value.isClaimed && $0.value.backend == backend }
            .filter { $0.value.due <= now }.sorted { ($0.value.due, $0.key) < ($1.value.due, $1.key) }
        try expect(claimed.map(\.id), is: wanted.prefix(limit).map(\.key), "claimed in backend \(backend)")
        for delivery in claimed {
            try expect(delivery.attempts, is: deliveries[delivery.id]?.attempts ?? -1, "attempts of \(delivery.id)")
            deliveries[delivery.id]?.isClaimed = true
        }
        held += claimed
    }

    private mutating func resolve() async throws {
        held.shuffle(using: &random)
        let count = min(held.count, Int.random(in: 1...6, using: &random))
        var resolutions: [Resolution] = []
        for delivery in held.prefix(count) {
            var transition: Resolution.Transition
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<6:
                transition = .end([.acceptedByPlatform, .failed, .unknown].randomElement(using: &random) ?? .failed)
            case 6..<9:
                let wait = Double(Int.random(in: 0..<9, using: &random))
                transition = .retry(at: fixture.time.now + wait, step: Int.random(in: 0...1, using: &random))
            default: transition = .release
            }
            let attempt: [UInt8]? = transition == .release ? nil : Array("{}".utf8)
            resolutions.append(
                Resolution(of: delivery, transition, attempt: attempt, event: [1])
            )
            apply(transition, to: delivery)
        }
        held.removeFirst(count)
        try await store.record(resolutions)
        eventCount += Int64(resolutions.count)
    }

    private mutating func apply(_ transition: Resolution.Transition, to delivery: ClaimedDelivery) {
        guard var model = deliveries[delivery.id] else { return }
        model.isClaimed = false
        defer { deliveries[delivery.id] = model }
        let facts = RecordFacts(
            .claimed,
            mayHaveBeenSent: model.mayHaveBeenSent,
            isCancelled: model.isCancelled,
            steps: delivery.plan.backends.count
        )
        switch RecordRules.decide(transition, mayHaveBeenSent: false, facts) {
        case .end(let state):
            model.state = state
            model.attempts += 1
        case .reached:
            model.state = .acceptedByPlatform
            model.attempts += 1
        case .withdraw(let state, _): model.state = state
        case .retry(let at, let step, let isReplay):
            model.due = at
            model.backend = delivery.plan.backends[step]
            model.attempts += 1
            model.mayHaveBeenSent = isReplay
        case .release(let isReplay): model.mayHaveBeenSent = isReplay
        case .ignore, .refuse: break
        }
    }

    private mutating func cancel() async throws {
        guard let id = notifications.keys.sorted().randomElement(using: &random) else { return }
        let numbers = deliveries.filter { $0.value.notification == id }.map(\.key)
        let open = numbers.filter { deliveries[$0].map { !$0.state.isFinal && !$0.isClaimed } ?? false }
        let claimed = numbers.filter { deliveries[$0]?.isClaimed ?? false }
        let found = try await store.cancel(id) { _, _ in [2] }
        let wanted = Cancellation(
            cancelled: open.count,
            tooLate: numbers.count - open.count - claimed.count,
            inFlight: claimed.count
        )
        try expect(found, is: wanted, "cancellation")
        for number in open {
            let mayHaveBeenSent = deliveries[number]?.mayHaveBeenSent == true
            deliveries[number]?.state = RecordRules.withdrawnState(mayHaveBeenSent: mayHaveBeenSent)
        }
        for number in claimed { deliveries[number]?.isCancelled = true }
        eventCount += Int64(open.count)
    }

    private mutating func reopen() async throws {
        store = try await fixture.reopen(store)
        for delivery in held {
            deliveries[delivery.id]?.isClaimed = false
            deliveries[delivery.id]?.mayHaveBeenSent = true
        }
        held = []
    }

    private mutating func check() async throws {
        let now = fixture.time.now
        for (id, recipients) in notifications {
            var wanted: [DeliveryState: Int] = [:]
            for delivery in deliveries.values where delivery.notification == id {
                var state = delivery.state
                if delivery.isClaimed {
                    state = .sending
                } else if !state.isFinal {
                    state = delivery.attempts > 0 ? .retrying : delivery.due > now ? .scheduled : .queued
                }
                wanted[state, default: 0] += 1
            }
            let found = try await store.counts(id)
            try expect(found.values.reduce(0, +), is: recipients, "the sum of the counts of \(id)")
            try expect(found, is: wanted, "the counts of \(id)")
            for delivery in try await store.deliveries(of: id, after: nil, limit: 10) {
                let before = seen.updateValue(delivery.state, forKey: delivery.id)
                try expect(
                    before.map { DeliveryState.transitions.leads(from: $0, to: delivery.state) } ?? true,
                    "nothing leads from \(before?.rawValue ?? "") to \(delivery.state.rawValue)"
                )
            }
        }
        for backend in ["one", "two"] {
            let open = deliveries.values.filter { $0.backend == backend && !$0.state.isFinal }
            let depth = try await store.depths()[backend] ?? QueueDepth()
            try expect(depth.waiting, is: open.filter { !$0.isClaimed }.count, "waiting in \(backend)")
            try expect(depth.claimed, is: open.filter(\.isClaimed).count, "claimed in \(backend)")
            let oldest = open.filter { !$0.isClaimed && $0.due <= now }.map(\.due).min()
            try expect(depth.oldestDue, is: oldest, "the oldest due in \(backend)")
        }
        try expect(try await store.lastEvent(), is: eventCount, "events")
    }
}
