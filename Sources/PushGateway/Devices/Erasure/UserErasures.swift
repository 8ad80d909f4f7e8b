internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue
internal import Synchronization

/// The erasures of users in one gateway: begun by a call, ended by the gateway.
///
/// A delivery that is being sent cannot be erased before its end is known, a store can fail in the middle or be too large for a call,
/// and the calls that tell platforms of the removals leave events. What is left is tried again every half minute, after a restart too.
final class UserErasures: Sendable {
    /// How long a call waits for the search through the store.
    static let longestSearch = Duration.seconds(10)

    private let hash = Mutex<Task<KeyedHash, any Error>?>(nil)
    private let unfinished = Mutex<Set<String>>([])
    private let timer = PeriodicTimer(every: .seconds(30))

    /// Erases a user; gives the hash that stands for the user in logs, and what was done within ``longestSearch``.
    func erase(
        _ user: String,
        _ state: GatewayState,
        _ traces: any NotificationStore & TraceStore
    ) async throws(StoreError) -> (hash: String, report: UserErasure.Report) {
        let hash = try await keyedHash(state.store)("user", user)
        var end: UserErasure.Report?
        defer {
            // After an error, too: the devices may be removed already, and the caller need not repeat the call.
            if end?.isFinished != true { unfinished.withLock { _ = $0.insert(hash) } }
            if end?.isSearching == true { timer.wake() }
        }
        let erasure = Self.erasure(state, traces)
        let (begun, done) = try await erasure.begin(user, hash: hash)
        let report = try await Self.search(erasure, begun, hash, done)
        end = report
        return (hash, report)
    }

    /// Goes on with what is not finished, until ``finish()``.
    func run(_ state: GatewayState, _ logger: Logger) async {
        guard let traces = state.traces else { return }
        await logFailure(logger) { () throws(StoreError) in
            let names = try await UserErasure.unfinished(in: traces)
            unfinished.withLock { $0.formUnion(names) }
        }
        repeat {
            for hash in unfinished.withLock({ $0 }) where !timer.isStopped {
                await logFailure(logger) { () throws(StoreError) in
                    let isFinished = try await Self.erasure(state, traces).resume(hash: hash)
                    guard isFinished != false else { return }
                    unfinished.withLock { _ = $0.remove(hash) }
                    guard isFinished == true else { return }  // A call failed before anything was on record.
                    logger.notice("the erasure of a user was finished", metadata: ["user.hash": "\(hash)"])
                }
            }
        } while await timer.next(state.time)
    }

    /// Ends ``run(_:_:)``.
    func finish() { timer.stop() }

    /// Searches for at most ``longestSearch``, then cancels the search, which ends after the step that it is in.
    private static func search(
        _ erasure: UserErasure,
        _ begun: UserTraces,
        _ hash: String,
        _ done: UserErasure.Report
    ) async throws(StoreError) -> UserErasure.Report {
        let known = Mutex(done)
        let progress: @Sendable (UserErasure.Report) -> Void = { report in known.withLock { $0 = report } }
        let result = await withTaskGroup(of: Result<UserErasure.Report, StoreError>?.self) { group in
            group.addTask {
                do throws(StoreError) {
                    return .success(try await erasure.run(begun, hash, done, progress: progress))
                } catch {
                    return .failure(error)
                }
            }
            group.addTask {
                try? await erasure.time.sleep(for: longestSearch)
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

    private static func erasure(
        _ state: GatewayState,
        _ traces: any NotificationStore & TraceStore
    ) -> UserErasure {
        UserErasure(
            store: traces,
            devices: state.devices,
            outbox: state.outbox,
            time: state.time,
            apps: Dictionary(state.snapshot.backends.map { ($0.name, $0.app) }, uniquingKeysWith: { first, _ in first })
        )
    }

    private func logFailure(_ logger: Logger, _ body: () async throws(StoreError) -> Void) async {
        do throws(StoreError) {
            try await body()
        } catch {
            logger.warning("the erasure of a user is not finished yet", metadata: ["error": "\(error)"])
        }
    }

    /// The hash of this gateway, made once: all who want the first one wait for the same task.
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
