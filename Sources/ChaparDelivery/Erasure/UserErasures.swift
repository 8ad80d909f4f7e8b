internal import Foundation
package import Logging
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The erasures of users in one gateway: a call begins one, the gateway finishes it.
///
/// A call cannot always finish the work: a delivery that is being sent cannot be erased before it ends, a store may
/// fail or be too large, and sending the removals to platforms makes new events. The remaining work is tried again
/// every half minute, also after a restart.
package final class UserErasures: Sendable {
    /// The longest time that a call waits for the search through the store, including its turn.
    package static let longestSearch = Duration.seconds(10)
    /// The most recorded calls for one user.
    package static let mostOnRecord = 16
    /// The interval at which the rest is tried again.
    package static let interval = Duration.seconds(30)

    private let hash = Mutex<Task<KeyedHash, any Error>?>(nil)
    private let unfinished = Mutex<Set<String>>([])
    private let timer = PeriodicTimer(every: UserErasures.interval)
    /// The signal of ``finish()``, which comes once.
    private let ended = AsyncSignal()
    /// The turns by hash: one call at a time puts itself on record.
    private let begins = Turns()
    /// The turns by the users' hashes: one search at a time changes the records.
    ///
    /// A task with a turn here may wait for one of ``begins``, never the reverse.
    private let searches = Turns()

    /// Makes an empty one.
    package init() {}

    /// Erases a user; returns the hash that logs have in the place of the user, and the counts of the work that was
    /// done within ``longestSearch``.
    ///
    /// The report is nil when ``mostOnRecord`` calls are on record; nothing was done then.
    package func erase(
        _ user: String,
        _ state: GatewayState,
        _ traces: any TraceStore
    ) async throws(StoreError) -> (hash: String, report: UserErasure.Report?) {
        let hash = try await keyedHash(state.store)("user", user)
        var end: UserErasure.Report?
        defer {
            // After an error as well: the devices may be removed already, and the caller need not repeat the call.
            if end?.isFinished != true { unfinished.withLock { _ = $0.insert(hash) } }
            if end?.isSearching == true { timer.wake() }
        }
        let erasure = Self.erasure(state, traces)
        let done = try await begins.alone(hash) { () async throws(StoreError) -> UserErasure.Report? in
            guard try await erasure.records(of: hash).count < Self.mostOnRecord else { return nil }
            return try await erasure.begin(user, hash: hash)
        }
        guard let done else { return (hash, nil) }
        let report = try await search(erasure, hash, done)
        end = report
        return (hash, report)
    }

    /// Continues unfinished erasures until ``finish()``.
    package func run(_ state: GatewayState, _ logger: Logger) async {
        guard let traces = state.traces else { return }
        await run(state, traces, logger)
    }

    /// Continues the unfinished calls on record in a store until ``finish()``.
    func run(_ state: GatewayState, _ traces: any TraceStore, _ logger: Logger) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.runRounds(state, traces, logger) }
            group.addTask { [ended] in await ended.wait(after: .start) }
            await group.next()
            // The search under way ends after its current step; its record stays for the next start.
            group.cancelAll()
        }
    }

    /// Ends ``run(_:_:)``, and the searches of calls.
    package func finish() {
        timer.stop()
        ended.signal()
    }

    private func runRounds(
        _ state: GatewayState,
        _ traces: any TraceStore,
        _ logger: Logger
    ) async {
        do throws(StoreError) {
            let hashes = try await UserErasure.unfinished(in: traces)
            unfinished.withLock { $0.formUnion(hashes) }
        } catch {
            Self.log(error, logger)
        }
        repeat {
            for hash in unfinished.withLock({ $0 }) where !timer.isStopped {
                await resume(hash, Self.erasure(state, traces), logger)
            }
        } while await timer.next(state.time)
    }

    private func resume(_ hash: String, _ erasure: UserErasure, _ logger: Logger) async {
        // Removed before the search, which does not see calls that begin meanwhile: those insert the hash again.
        unfinished.withLock { _ = $0.remove(hash) }
        do throws(StoreError) {
            // There is none if a call failed before it was recorded.
            guard let report = try await searchInTurn(erasure, hash) else { return }
            if report.isFinished {
                logger.notice("the erasure of a user was finished", metadata: ["user.hash": "\(hash)"])
            } else {
                unfinished.withLock { _ = $0.insert(hash) }
            }
        } catch {
            unfinished.withLock { _ = $0.insert(hash) }
            Self.log(error, logger)
        }
    }

    /// Searches for at most ``longestSearch``, then cancels the search, which ends after its current step.
    private func search(
        _ erasure: UserErasure,
        _ hash: String,
        _ done: UserErasure.Report
    ) async throws(StoreError) -> UserErasure.Report {
        let known = Mutex(done)
        let progress: @Sendable (UserErasure.Report) -> Void = { report in known.withLock { $0 = report } }
        let result = await withTaskGroup(of: Result<UserErasure.Report, StoreError>?.self) { group in
            group.addTask {
                do throws(StoreError) {
                    // Another search may have finished the call while this one waited for its turn.
                    return .success(try await self.searchInTurn(erasure, hash, done, progress) ?? done)
                } catch {
                    return .failure(error)
                }
            }
            group.addTask { [ended] in
                await ended.wait(after: .start, atMost: Self.longestSearch, erasure.time)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            guard first == nil, case .success(let report)?? = await group.next() else { return first }
            return .success(report)
        }
        if let result { return try result.get() }
        var report = known.withLock { $0 }
        report.isSearching = true
        return report
    }

    /// Continues the recorded calls of a hash while no other search does; nil when there is none.
    private func searchInTurn(
        _ erasure: UserErasure,
        _ hash: String,
        _ done: UserErasure.Report = UserErasure.Report(),
        _ progress: @Sendable (UserErasure.Report) -> Void = { _ in }
    ) async throws(StoreError) -> UserErasure.Report? {
        try await searches.alone(hash) { () async throws(StoreError) -> UserErasure.Report? in
            // A half-recorded call belongs to its own caller: both would write its record.
            let calls = try await begins.alone(hash) { () async throws(StoreError) -> [UserErasure.Call] in
                try await erasure.calls(hash)
            }
            guard !calls.isEmpty else { return nil }
            return try await erasure.run(calls, done, progress: progress)
        }
    }

    private static func erasure(
        _ state: GatewayState,
        _ traces: any TraceStore
    ) -> UserErasure {
        UserErasure(
            store: traces,
            devices: state.devices,
            audiences: state.audiences,
            outbox: state.outbox,
            time: state.time,
            apps: Dictionary(state.snapshot.backends.map { ($0.name, $0.app) }, uniquingKeysWith: { first, _ in first })
        )
    }

    private static func log(_ error: StoreError, _ logger: Logger) {
        logger.unlessCancelled?.warning(
            "the erasure of a user is not finished yet",
            metadata: ["error": "\(error)"]
        )
    }

    /// Returns the hash of this gateway, made once: tasks that need it at the same time wait for the same work.
    private func keyedHash(_ store: any StateStore) async throws(StoreError) -> KeyedHash {
        let making = hash.withLock { hash in
            let making = hash ?? Task { try await KeyedHash(store) }
            hash = making
            return making
        }
        switch await making.result {
        case .success(let made): return made
        case .failure(let error):
            hash.withLock { if $0 == making { $0 = nil } }
            throw error as? StoreError ?? .closed
        }
    }
}

/// Turns by name: one task at a time is admitted for each name, the others wait.
private final class Turns: Sendable {
    private let taken = Mutex<Set<String>>([])
    private let freed = AsyncSignal()

    /// Runs `body` while no other task runs a body under the same name.
    ///
    /// - Throws: The error of `body`, and `StoreError.closed` when the task is cancelled while it waits.
    func alone<Value>(
        _ name: String,
        _ body: () async throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        var mark = freed.mark
        while !taken.withLock({ $0.insert(name).inserted }) {
            try StoreError.checkCancellation()
            await freed.wait(after: mark)
            mark = freed.mark
        }
        defer {
            taken.withLock { _ = $0.remove(name) }
            freed.signal()
        }
        return try await body()
    }
}
