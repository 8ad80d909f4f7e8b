import Foundation
public import PushCore
import Synchronization

/// Operations in memory, in the order of acceptance: the plainest thing that keeps the contract.
struct MemoryOperations {
    struct Entry {
        var number: Int64
        var operation: DeviceOperation
        var attempts = 0
        var due: Date
        var isLeased = false
    }

    var entries: [Entry] = []
    var events: [[UInt8]] = []
    var waiters: [UInt64: Task<Void, any Error>] = [:]
    private var last: Int64 = 0
    private var lastWaiter: UInt64 = 0

    /// The next number of somebody who waits.
    mutating func makeWaiter() -> UInt64 {
        lastWaiter += 1
        return lastWaiter
    }

    mutating func add(_ operations: [DeviceOperation], now: Date) {
        for operation in operations {
            let line = entries.last { $0.isInLine(of: operation) }
            if operation.kind == .register, let line, line.operation.kind == .register, !line.isLeased,
                line.operation.user == operation.user
            {
                continue
            }
            last += 1
            entries.append(Entry(number: last, operation: operation, due: now))
        }
    }

    /// Whether nothing older waits for the same device at the same backend.
    func isHead(_ entry: Entry) -> Bool {
        entries.first { $0.isInLine(of: entry.operation) }?.number == entry.number
    }

    mutating func claim(of backend: String, limit: Int, lease: Duration, now: Date) -> [ClaimedOperation] {
        let due = entries.filter { $0.operation.backend == backend && $0.due <= now && isHead($0) }
        return due.sorted { ($0.due, $0.number) < ($1.due, $1.number) }.prefix(limit).map { entry in
            let attempt = entry.attempts + 1
            change(entry.number) {
                $0.attempts = attempt
                $0.isLeased = true
                $0.due = now.addingTimeInterval(lease.inSeconds)
            }
            return ClaimedOperation(number: entry.number, operation: entry.operation, attempt: attempt)
        }
    }

    mutating func settle(_ result: OperationResult, now: Date) {
        if let event = result.event { events.append(event) }
        let number = result.claim.number
        guard let entry = entries.first(where: { $0.number == number }) else { return }
        let isOurs = entry.isLeased && entry.attempts == result.claim.attempt
        switch result.ending {
        case .over:
            entries.removeAll { $0.number == number }
            if let next = entries.first(where: { $0.isInLine(of: entry.operation) }) {
                change(next.number) { $0.due = now }
            }
        case .again(let moment) where isOurs:
            change(number) {
                $0.due = moment
                $0.isLeased = false
            }
        case .untried where isOurs:
            change(number) {
                $0.due = now
                $0.isLeased = false
                $0.attempts -= 1
            }
        case .again, .untried: break
        }
    }

    private mutating func change(_ number: Int64, _ change: (inout Entry) -> Void) {
        if let place = entries.firstIndex(where: { $0.number == number }) { change(&entries[place]) }
    }
}

extension MemoryOperations.Entry {
    fileprivate func isInLine(of other: DeviceOperation) -> Bool {
        operation.backend == other.backend && operation.device == other.device
    }
}

extension MemoryDeviceStore: OperationStore {
    /// The events of operations that were settled, in order.
    public var operationEvents: [[UInt8]] { contents.withLock { $0.operations.events } }

    /// Keeps operations.
    public func add(_ operations: [DeviceOperation]) async throws(StoreError) {
        let now = time.now
        try use { $0.operations.add(operations, now: now) }
        wake(operations)
    }

    /// Takes what is due, and waits for some when there is none.
    public func claimOperations(
        of backend: String,
        limit: Int,
        lease: Duration,
        patience: Duration
    ) async throws(StoreError) -> [ClaimedOperation] {
        let until = time.now.addingTimeInterval(patience.inSeconds)
        while !Task.isCancelled {
            let now = time.now
            let (claims, waiter) = try use { contents -> ([ClaimedOperation], (UInt64, Task<Void, any Error>)?) in
                let claims = contents.operations.claim(of: backend, limit: limit, lease: lease, now: now)
                guard claims.isEmpty, now < until else { return (claims, nil) }
                let heads = contents.operations.entries.filter {
                    $0.operation.backend == backend && contents.operations.isHead($0)
                }
                let end = heads.map(\.due).reduce(until) { min($0, $1) }
                let id = contents.operations.makeWaiter()
                // Awaited below; a task, so that whoever adds something can end it.
                let sleep = Task { [time] in try await time.sleep(for: .seconds(end.timeIntervalSince(now))) }
                contents.operations.waiters[id] = sleep
                return (claims, (id, sleep))
            }
            guard let (id, sleep) = waiter else { return claims }
            await withTaskCancellationHandler {
                _ = try? await sleep.value
            } onCancel: {
                sleep.cancel()
            }
            contents.withLock { $0.operations.waiters[id] = nil }
        }
        return []
    }

    /// Writes what became of operations.
    public func settle(_ results: [OperationResult]) async throws(StoreError) {
        let now = time.now
        try use { contents in for result in results { contents.operations.settle(result, now: now) } }
        wake(results.map(\.claim.operation))
    }

    /// What waits for a device.
    public func operations(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingOperation] {
        try use { contents in
            contents.operations.entries.filter { $0.operation.device == device }.prefix(limit).map { entry in
                WaitingOperation(
                    number: entry.number,
                    operation: entry.operation,
                    attempts: entry.attempts,
                    due: contents.operations.isHead(entry) ? entry.due : nil
                )
            }
        }
    }

    /// Removes what waits for a backend.
    public func removeOperations(of backend: String, device: String?) async throws(StoreError) -> Int {
        try use { contents in
            let before = contents.operations.entries.count
            contents.operations.entries.removeAll {
                $0.operation.backend == backend && device ?? $0.operation.device == $0.operation.device
            }
            return before - contents.operations.entries.count
        }
    }

    /// How much waits at each backend.
    public func operationDepths() async throws(StoreError) -> [String: OperationDepth] {
        try use { contents in
            contents.operations.entries.reduce(into: [:]) { depths, entry in
                depths[entry.operation.backend, default: OperationDepth(waiting: 0, oldest: entry.operation.at)]
                    .waiting += 1
            }
        }
    }

    /// Lets those look again who wait for something to do.
    func wake(_ operations: [DeviceOperation]) {
        guard !operations.isEmpty else { return }
        let waiters = contents.withLock { contents in
            defer { contents.operations.waiters = [:] }
            return contents.operations.waiters.values
        }
        for waiter in waiters { waiter.cancel() }
    }
}
