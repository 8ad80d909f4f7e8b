internal import Foundation
internal import Synchronization
import ChaparCore

/// A bounded number of permits, and a bounded queue of waiters that are served in order.
final class Permits: Sendable {
    private struct Waiter {
        let id: UInt64
        let wanted: Int
        let continuation: CheckedContinuation<Int, Never>
    }

    private struct State {
        var free: Int
        /// The number of messages that hold a permit or wait for one.
        var inside = 0
        var line: [Waiter] = []
        var nextID: UInt64 = 0
        /// The waits that were given up before they began.
        var givenUp: Set<UInt64> = []
        /// The waits that are not over.
        var pending: Set<UInt64> = []
    }

    private let capacity: Int
    private let state: Mutex<State>

    init(_ permits: Int, waiting: Int) {
        capacity = permits + waiting
        state = Mutex(State(free: permits))
    }

    /// The number of free permits.
    var free: Int { state.withLock { $0.free } }

    /// Admits up to `count` messages, and returns how many; each leaves by ``giveBack(_:)`` or ``leave(_:)``.
    func enter(_ count: Int) -> Int {
        state.withLock { state in
            let admitted = min(count, max(0, capacity - state.inside))
            state.inside += admitted
            return admitted
        }
    }

    /// Removes messages that never had a permit.
    func leave(_ count: Int) { state.withLock { $0.inside -= count } }

    /// Removes messages that are done, and frees their permits.
    func giveBack(_ count: Int) {
        let served = state.withLock { state -> [(Waiter, Int)] in
            state.inside -= count
            state.free += count
            var served: [(Waiter, Int)] = []
            while state.free > 0, !state.line.isEmpty {
                let waiter = state.line.removeFirst()
                let granted = min(state.free, waiter.wanted)
                state.free -= granted
                state.pending.remove(waiter.id)
                served.append((waiter, granted))
            }
            return served
        }
        for (waiter, granted) in served { waiter.continuation.resume(returning: granted) }
    }

    /// Takes 1 to `wanted` permits, waiting for them until a time; returns 0 after that time or a cancellation.
    func reserve(_ wanted: Int, until end: Date, time: any TimeSource) async -> Int {
        let (granted, id) = state.withLock { state -> (Int, UInt64) in
            if state.free > 0, state.line.isEmpty {
                let granted = min(state.free, wanted)
                state.free -= granted
                return (granted, 0)
            }
            state.nextID += 1
            state.pending.insert(state.nextID)
            return (0, state.nextID)
        }
        if granted > 0 { return granted }
        return await withTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                try? await time.sleep(until: end)
                self.giveUp(id)
            }
            let granted = await withTaskCancellationHandler {
                await withCheckedContinuation { self.stand($0, id, wanted) }
            } onCancel: {
                self.giveUp(id)
            }
            tasks.cancelAll()
            return granted
        }
    }

    private func stand(_ continuation: CheckedContinuation<Int, Never>, _ id: UInt64, _ wanted: Int) {
        let granted = state.withLock { state -> Int? in
            if state.givenUp.remove(id) != nil {
                state.pending.remove(id)
                return 0
            }
            if state.free > 0, state.line.isEmpty {
                let granted = min(state.free, wanted)
                state.free -= granted
                state.pending.remove(id)
                return granted
            }
            state.line.append(Waiter(id: id, wanted: wanted, continuation: continuation))
            return nil
        }
        if let granted { continuation.resume(returning: granted) }
    }

    private func giveUp(_ id: UInt64) {
        let waiter = state.withLock { state -> Waiter? in
            guard state.pending.contains(id) else { return nil }
            guard let index = state.line.firstIndex(where: { $0.id == id }) else {
                state.givenUp.insert(id)
                return nil
            }
            state.pending.remove(id)
            return state.line.remove(at: index)
        }
        waiter?.continuation.resume(returning: 0)
    }
}
