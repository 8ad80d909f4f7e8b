import Foundation
internal import ChaparComposition
package import ChaparCore
package import ChaparQueue
import Synchronization

/// Entries in memory, in the order of acceptance: the simplest implementation of the contract.
struct MemoryOutbox {
    struct Entry {
        var number: Int64
        var operation: OutboxEntry
        var attempts = 0
        var due: Date
        var isLeased = false
        /// Whether the platform asked for the wait.
        var asksToWait = false
    }

    var entries: [Entry] = []
    var events: [[UInt8]] = []
    var waiters: [UInt64: Task<Void, any Error>] = [:]
    /// The changes that are not planned yet, each with the backends that get no entry of it.
    var unplanned: [(change: OutboxChange, skipped: Set<String>)] = []
    private var last: Int64 = 0
    private var lastChange: Int64 = 0
    private var lastWaiter: UInt64 = 0

    /// Adds a waiter that ends after this time, or when something new is there.
    mutating func makeWaiter(_ span: Duration, _ time: any TimeSource) -> MemoryWaiter {
        lastWaiter += 1
        // The waiter awaits this task; code that adds work cancels it.
        let sleep = Task { try await time.sleep(for: span) }
        waiters[lastWaiter] = sleep
        return MemoryWaiter(id: lastWaiter, sleep: sleep)
    }

    /// Puts a change into the outbox.
    mutating func keep(_ content: OutboxChange.Content, at moment: Date) {
        lastChange += 1
        unplanned.append((OutboxChange(number: lastChange, at: moment, content: content), []))
    }

    /// Keeps entries; an entry whose device has a change in the outbox waits behind that change.
    mutating func enqueue(_ operations: [OutboxEntry], now: Date) {
        for operation in operations {
            if unplanned.contains(where: { $0.change.content.device == operation.device }) {
                keep(.operation(operation), at: operation.at)
            } else {
                add([operation], now: now)
            }
        }
    }

    mutating func record(_ plan: OutboxPlan, now: Date) {
        guard let place = unplanned.firstIndex(where: { $0.change.number == plan.change }) else { return }
        let skipped = unplanned.remove(at: place).skipped
        add(plan.operations.filter { !skipped.contains($0.backend) }, now: now)
    }

    mutating func add(_ operations: [OutboxEntry], now: Date) {
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

    /// Returns whether nothing older waits for the same device at the same backend.
    func isHead(_ entry: Entry) -> Bool {
        entries.first { $0.isInLine(of: entry.operation) }?.number == entry.number
    }

    mutating func claim(of backend: String, limit: Int, lease: Duration, now: Date) -> [ClaimedEntry] {
        let due = entries.filter { $0.operation.backend == backend && $0.due <= now && isHead($0) }
        return due.sorted { ($0.due, $0.number) < ($1.due, $1.number) }.prefix(limit).map { entry in
            let attempt = entry.attempts + 1
            change(entry.number) {
                $0.attempts = attempt
                $0.isLeased = true
                $0.asksToWait = false
                $0.due = now.addingTimeInterval(lease.inSeconds)
            }
            return ClaimedEntry(number: entry.number, operation: entry.operation, attempt: attempt)
        }
    }

    private func state(of entry: Entry, now: Date) -> OutboxEntryState {
        if entry.isLeased { return .claimed }
        if !isHead(entry) { return .blocked }
        return entry.due <= now ? .due : .waiting
    }

    mutating func record(_ result: OutboxResult, now: Date) {
        if let event = result.event { events.append(event) }
        let number = result.claim.number
        guard let entry = entries.first(where: { $0.number == number }) else { return }
        let isLeased = entry.isLeased && entry.attempts == result.claim.attempt
        guard let event = result.ending.event(isLeased: isLeased),
            OutboxEntryState.transitions.allows(event, in: state(of: entry, now: now))
        else { return }
        switch result.ending {
        case .end:
            entries.removeAll { $0.number == number }
            if let next = entries.first(where: { $0.isInLine(of: entry.operation) }) {
                change(next.number) { $0.due = now }
            }
        case .retry(let moment):
            change(number) {
                $0.due = moment
                $0.isLeased = false
                $0.asksToWait = result.asksToWait
            }
        case .release:
            change(number) {
                $0.due = now
                $0.isLeased = false
                $0.attempts -= 1
            }
        }
    }

    /// Makes the entries of a backend due that wait for another attempt; returns their number.
    mutating func makeRetriesDue(of backend: String, now: Date) -> Int {
        let found = entries.filter {
            $0.operation.backend == backend && !$0.isLeased && !$0.asksToWait && $0.due > now && isHead($0)
        }
        for entry in found { change(entry.number) { $0.due = now } }
        return found.count
    }

    /// Removes what waits for a backend, now or once it is planned; returns the number of entries.
    mutating func cancel(of backend: String, device: String?) -> Int {
        for place in unplanned.indices
        where unplanned[place].change.content.device == device ?? unplanned[place].change.content.device {
            unplanned[place].skipped.insert(backend)
        }
        let before = entries.count
        entries.removeAll { $0.operation.backend == backend && $0.operation.device == device ?? $0.operation.device }
        return before - entries.count
    }

    private mutating func change(_ number: Int64, _ change: (inout Entry) -> Void) {
        if let place = entries.firstIndex(where: { $0.number == number }) { change(&entries[place]) }
    }
}

extension MemoryOutbox.Entry {
    fileprivate func isInLine(of other: OutboxEntry) -> Bool {
        operation.backend == other.backend && operation.device == other.device
    }
}

extension MemoryDeviceStore: OutboxStore {
    /// The events of entries that were settled, in order.
    package var operationEvents: [[UInt8]] { contents.withLock { $0.operations.events } }

    /// Keeps operations.
    package func enqueue(_ entries: [OutboxEntry]) async throws(StoreError) {
        let now = time.steady
        try use { $0.operations.enqueue(entries, now: now) }
        wake()
    }

    /// Claims due entries, and waits for some when there are none.
    package func claimEntries(
        of backend: String,
        limit: Int,
        lease: Duration,
        wait: Duration
    ) async throws(StoreError) -> [ClaimedEntry] {
        try await find(within: wait) { outbox, now in
            let claims = outbox.claim(of: backend, limit: limit, lease: lease, now: now)
            let heads = outbox.entries.filter { $0.operation.backend == backend && outbox.isHead($0) }
            return (claims, heads.map(\.due).min())
        }
    }

    /// Records the results of operations.
    package func record(_ results: [OutboxResult]) async throws(StoreError) {
        let now = time.steady
        try use { contents in for result in results { contents.operations.record(result, now: now) } }
        wake()
    }

    /// Returns the entries that wait for a device.
    package func entries(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingEntry] {
        try use { contents in
            contents.operations.entries.filter { $0.operation.device == device }.prefix(limit).map { entry in
                WaitingEntry(
                    number: entry.number,
                    operation: entry.operation,
                    attempts: entry.attempts,
                    due: contents.operations.isHead(entry) ? entry.due : nil
                )
            }
        }
    }

    /// Removes the entries that wait for a backend.
    package func cancelEntries(of backend: String, device: String?) async throws(StoreError) -> Int {
        try use { $0.operations.cancel(of: backend, device: device) }
    }

    /// Makes the entries due that wait for another attempt.
    package func makeRetriesDue(ofEntriesAt backend: String) async throws(StoreError) -> Int {
        let now = time.steady
        let count = try use { $0.operations.makeRetriesDue(of: backend, now: now) }
        wake()
        return count
    }

    /// Returns the number of waiting entries at each backend.
    package func outboxDepths() async throws(StoreError) -> [String: OutboxDepth] {
        try use { contents in
            contents.operations.entries.reduce(into: [:]) { depths, entry in
                depths[entry.operation.backend, default: OutboxDepth(waiting: 0, oldest: entry.operation.at)]
                    .waiting += 1
            }
        }
    }

    /// Returns the oldest changes that are not planned yet.
    package func unplannedChanges(limit: Int, wait: Duration) async throws(StoreError) -> [OutboxChange] {
        try await find(within: wait) { outbox, _ in (outbox.unplanned.prefix(limit).map(\.change), nil) }
    }

    /// Replaces changes with their entries.
    package func record(_ plans: [OutboxPlan]) async throws(StoreError) {
        let now = time.steady
        try use { contents in for plan in plans { contents.operations.record(plan, now: now) } }
        wake()
    }

    /// Returns the number of changes that are not planned yet.
    package func unplannedCount(ofDevice device: String?) async throws(StoreError) -> Int {
        try use { contents in
            contents.operations.unplanned.count { device ?? $0.change.content.device == $0.change.content.device }
        }
    }

    /// Searches until something is found, the wait is over or the task is cancelled; `look` also returns when more
    /// comes due.
    private func find<Found: Sendable>(
        within wait: Duration,
        _ look: (inout MemoryOutbox, Date) -> (found: [Found], due: Date?)
    ) async throws(StoreError) -> [Found] {
        let until = time.steady.addingTimeInterval(wait.inSeconds)
        while !Task.isCancelled {
            let now = time.steady
            let (found, waiter) = try use { contents -> ([Found], MemoryWaiter?) in
                let (found, due) = look(&contents.operations, now)
                guard found.isEmpty, now < until else { return (found, nil) }
                let end = min(until, due ?? until)
                return (found, contents.operations.makeWaiter(.seconds(end.timeIntervalSince(now)), time))
            }
            guard let waiter else { return found }
            await self.wait(waiter)
        }
        return []
    }

    private func wait(_ waiter: MemoryWaiter) async {
        await withTaskCancellationHandler {
            _ = try? await waiter.sleep.value
        } onCancel: {
            waiter.sleep.cancel()
        }
        contents.withLock { $0.operations.waiters[waiter.id] = nil }
    }

    /// Removes all waiters: their process has died.
    func forgetWaiters() { contents.withLock { $0.operations.waiters = [:] } }

    /// Makes all waiters search again.
    func wake() {
        let waiters = contents.withLock { contents in
            defer { contents.operations.waiters = [:] }
            return contents.operations.waiters.values
        }
        for waiter in waiters { waiter.cancel() }
    }
}

/// A task that waits for work.
struct MemoryWaiter {
    let id: UInt64
    let sleep: Task<Void, any Error>
}
