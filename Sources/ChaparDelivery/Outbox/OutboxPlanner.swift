internal import Dispatch
internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The planner of the outbox, which turns changes of devices into entries, as the plugins of the backends decide.
///
/// It works outside transactions and on a thread of its own, so that a slow plugin delays only the planning. One commit
/// replaces a change by its entries. After a crash before that commit the change is planned again.
package struct OutboxPlanner: Sendable {
    /// The most changes that are read at a time.
    private static let page = 100
    /// The longest planning before the entries so far are committed, even when more changes were read.
    private static let longestPlanning = Duration.milliseconds(50)
    /// The longest wait of one search for changes.
    private static let longestWait = Duration.seconds(30)
    private static let retryPause = Duration.seconds(1)

    /// A function that runs work on another thread, one piece after the other, and returns at once.
    package typealias Thread = @Sendable (_ work: @escaping @Sendable () -> Void) -> Void

    private let store: any OutboxStore
    private let deviceSync: @Sendable () -> DeviceSync
    private let time: any TimeSource
    private let logger: Logger
    /// The thread for plugin code, apart from those that tasks share.
    private let thread: Thread

    /// Makes a planner; `deviceSync` returns the rules of the configuration in force.
    init(
        store: any OutboxStore,
        time: any TimeSource,
        logger: Logger,
        thread: @escaping Thread = Self.ownThread(),
        deviceSync: @escaping @Sendable () -> DeviceSync
    ) {
        self.thread = thread
        self.store = store
        self.time = time
        self.logger = logger
        self.deviceSync = deviceSync
    }

    /// Makes a thread for the planner alone.
    package static func ownThread() -> Thread {
        let queue = DispatchQueue(label: "chapar.outbox-planner")
        return { work in queue.async(execute: work) }
    }

    /// Plans until the task is cancelled or the store is closed.
    func run() async {
        while !Task.isCancelled {
            do throws(StoreError) {
                _ = try await planSome(wait: Self.longestWait)
            } catch {
                guard error != .closed else { return }
                logger.unlessCancelled?.warning(
                    "changes of devices cannot be planned",
                    metadata: ["error": "\(error)"]
                )
                try? await time.sleep(for: Self.retryPause)
            }
        }
    }

    /// Plans the oldest changes; returns their number, 0 when none came within `wait`.
    func planSome(wait: Duration = .zero) async throws(StoreError) -> Int {
        let changes = try await store.unplannedChanges(limit: Self.page, wait: wait)
        guard !changes.isEmpty else { return 0 }
        let deviceSync = deviceSync()
        let plans = await onThread {
            var plans: [OutboxPlan] = []
            let end = ContinuousClock.now + Self.longestPlanning
            for change in changes {
                plans.append(OutboxPlan(change: change.number, deviceSync.operations(for: change)))
                if ContinuousClock.now > end { break }
            }
            return plans
        }
        guard let plans else { return 0 }
        try await store.record(plans)
        return plans.count
    }

    /// Runs plugin code on the planner's thread; nil when the task is cancelled before it returns.
    private func onThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value? {
        let answer = SingleAnswer<Value?>()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                answer.expect(continuation)
                thread { answer.give(body()) }
            }
        } onCancel: {
            answer.give(nil)
        }
    }
}

/// A continuation that is resumed with the first of several answers, even one that comes before it.
private final class SingleAnswer<Value: Sendable>: Sendable {
    private enum State {
        case nothing
        case expected(CheckedContinuation<Value, Never>)
        case given(Value)
        case over
    }

    private let state = Mutex(State.nothing)

    func expect(_ continuation: CheckedContinuation<Value, Never>) {
        let early: Value? = state.withLock { state in
            guard case .given(let value) = state else {
                state = .expected(continuation)
                return nil
            }
            state = .over
            return value
        }
        if let early { continuation.resume(returning: early) }
    }

    func give(_ value: Value) {
        let continuation = state.withLock { state -> CheckedContinuation<Value, Never>? in
            switch state {
            case .nothing: state = .given(value)
            case .expected(let continuation):
                state = .over
                return continuation
            case .given, .over: break
            }
            return nil
        }
        continuation?.resume(returning: value)
    }
}
