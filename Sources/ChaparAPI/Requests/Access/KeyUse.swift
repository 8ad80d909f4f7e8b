package import Foundation
package import Logging
package import ChaparDelivery
internal import ChaparCore
internal import ChaparComposition
internal import Synchronization

/// The usage of each API key, kept across reloads; the time of the last use is kept across restarts.
package final class KeyUses: Sendable {
    /// The usage of one key.
    package final class Use: Sendable {
        private let second = Atomic<Int>(0)
        /// The number of requests in progress.
        let requests = Atomic<Int>(0)
        /// The number of accepted notifications that are not in the audit log yet.
        let accepted = Atomic<Int>(0)
        /// The number of open event streams.
        let streams = Atomic<Int>(0)
        /// The addresses that used the key lately.
        package let peers = RecentPeers()
        private let rate = Mutex<(perSecond: Int, bucket: TokenBucket)?>(nil)

        /// Sets the limit of requests a second; 0 is none.
        ///
        /// If the limit is the same as before, the part that was used up stays used up.
        func limit(perSecond: Int, at now: Date) {
            rate.withLock { rate in
                guard perSecond > 0 else { return rate = nil }
                guard rate?.perSecond != perSecond else { return }
                let pacing = Pacing(perSecond: Double(perSecond), burst: .seconds(1))
                rate = (perSecond, TokenBucket(pacing, at: now))
            }
        }

        /// Counts a request, unless the limit of requests a second is reached; the time is steady.
        package func countRequest(at now: Date) throws(Problem) {
            let (perSecond, wait): (Int, Double) = rate.withLock { rate in
                guard rate != nil, let (granted, retryAt) = rate?.bucket.reserve(1, at: now), granted == 0 else {
                    return (0, 0)
                }
                return (rate?.perSecond ?? 0, max(0.001, retryAt.timeIntervalSince(now)))
            }
            if wait > 0 { throw .rateLimited(.requestsPerSecond, perSecond: perSecond, wait: .seconds(clamping: wait)) }
        }

        /// The wall-clock time of the last use; nil before the first one.
        var last: Date? {
            let second = second.load(ordering: .relaxed)
            return second == 0 ? nil : Date(timeIntervalSince1970: Double(second))
        }

        /// Records a use.
        func markUsed(second now: Int) {
            // One load for each request; a store, which other cores must see, once a second.
            if second.load(ordering: .relaxed) < now { second.store(now, ordering: .relaxed) }
        }
    }

    private static let stateName = "keys.last_use"
    private let uses = Mutex<[String: Use]>([:])
    private let saved = Mutex<[String: Date]>([:])

    /// Returns the usage of the key with a name.
    func use(of name: String) -> Use {
        uses.withLock { uses in
            if let known = uses[name] { return known }
            let new = Use()
            uses[name] = new
            return new
        }
    }

    private let timer = PeriodicTimer(every: .seconds(60))

    /// Makes an empty one.
    package init() {}

    /// Saves once a minute until ``finish()``, and once more at the end.
    package func run(_ state: GatewayState, _ audit: AuditLog?, _ logger: Logger) async {
        await logFailure(logger) { () throws(StoreError) in try await load(from: state.store) }
        var isLast = false
        while !isLast {
            isLast = await !timer.next(state.time)
            if let audit {
                recordSends(audit)
                audit.noteLeftOut()
            }
            await logFailure(logger) { () throws(StoreError) in
                try await save(state.snapshot.configuration.apiKeys.map(\.name), to: state.store)
            }
        }
    }

    /// Runs an operation on the store; its failure is logged, and the next minute makes up for it.
    private func logFailure(_ logger: Logger, _ body: () async throws(StoreError) -> Void) async {
        do throws(StoreError) {
            try await body()
        } catch {
            logger.unlessCancelled?.warning(
                "the last uses of API keys cannot be read or saved",
                metadata: ["error": "\(error)"]
            )
        }
    }

    /// Writes the number of notifications that were sent with each key since the last time to the audit log.
    func recordSends(_ audit: AuditLog) {
        for (name, use) in uses.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
            let count = use.accepted.exchange(0, ordering: .relaxed)
            if count > 0 { audit.record(sends: count, key: name) }
        }
    }

    /// Ends ``run(_:_:_:)``.
    package func finish() { timer.stop() }

    /// Reads the times that an earlier process saved.
    func load(from store: any StateStore) async throws(StoreError) {
        guard let bytes = try await store.loadState(Self.stateName),
            case .object(let object)? = try? JSONValue(parsing: bytes)
        else { return }
        for (name, value) in object {
            guard let second = value.integerValue.flatMap({ Int(exactly: $0) }), second > 0 else { continue }
            use(of: name).markUsed(second: second)
        }
    }

    /// Saves the times that changed since the last save, for the configured names; other names are forgotten.
    func save(_ names: [String], to store: any StateStore) async throws(StoreError) {
        let known = Set(names)
        let current = uses.withLock { uses in
            uses = uses.filter { known.contains($0.key) }
            return uses.compactMapValues(\.last)
        }
        guard current != saved.withLock({ $0 }) else { return }
        var object = JSONObject()
        for (name, last) in current { object[name] = .integer(Int64(clamping: last.timeIntervalSince1970)) }
        try await store.saveState(Self.stateName, JSONValue.object(object).bytes)
        saved.withLock { $0 = current }
    }
}
