import ChaparTesting
import Synchronization

extension ManualTime {
    /// Moves the clock in small steps until a task that waits on it ends.
    func advance<Value: Sendable>(until task: Task<Value, any Error>, line: Int = #line) async throws -> Value {
        let isDone = Flag()
        let watcher = Task {
            defer { isDone.set() }
            return try await task.value
        }
        let end = ContinuousClock.now + .seconds(30)
        var rounds = 0
        while !isDone.isSet, ContinuousClock.now < end {
            advance(by: .milliseconds(50))
            rounds += 1
            // After 100 s of its time the disk must be slow: leases and wait limits must not all run out meanwhile.
            try await Task.sleep(for: .milliseconds(rounds < 2_000 ? 1 : 50))
        }
        guard isDone.isSet else {
            task.cancel()
            throw ConformanceFailure("line \(line): still waiting after \(rounds / 20) s of the store's time")
        }
        return try await watcher.value
    }
}

/// A Boolean that tasks share.
private final class Flag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { value.load(ordering: .acquiring) }
    func set() { value.store(true, ordering: .releasing) }
}
