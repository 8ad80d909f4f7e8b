internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The counts of messages for which backends took over today, which all gateways on a store share.
///
/// Each backend has one count, kept in the store under its name with the day in UTC. A count is read and written by one
/// call at a time.
final class EscalationLimits: Sendable {
    private struct Turns {
        var isTaken = false
        /// Those that wait, in order: one for each batch that a worker has claimed.
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let turns = Mutex(Turns())

    /// The name of a backend's count in the store.
    static func key(of backend: String) -> String { "escalations/" + backend }

    /// Counts messages in order, each only if its limit allows it.
    ///
    /// - Parameters:
    ///   - limits: The limit of each message; nil for none. A message is counted if fewer messages than its limit were
    ///     counted so far.
    ///   - backend: The backend that takes over.
    ///   - now: The time of day.
    ///   - store: The store of the counts.
    /// - Returns: Whether each message was counted, and may be sent.
    /// - Throws: When the store fails; then it is unknown whether they were counted.
    func take(
        _ limits: [Int?],
        of backend: String,
        at now: Date,
        in store: any StateStore
    ) async throws(StoreError) -> [Bool] {
        guard limits.contains(where: { $0 != nil }) else { return limits.map { _ in true } }
        let name = Self.key(of: backend)
        await enter()
        defer { leave() }
        let result = try await store.exclusively(name) { () async -> Result<[Bool], StoreError> in
            do throws(StoreError) {
                return .success(try await Self.count(limits, name, now, store))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private static func count(
        _ limits: [Int?],
        _ name: String,
        _ now: Date,
        _ store: any StateStore
    ) async throws(StoreError) -> [Bool] {
        let words = String(decoding: try await store.loadState(name) ?? [], as: UTF8.self).split(separator: " ")
        // The clocks of gateways differ, and may be set back: what counts for the day after goes on doing so.
        let (today, tomorrow) = (Self.day(of: now), Self.day(of: now.addingTimeInterval(86_400)))
        let day = words.count == 2 && words[0] == tomorrow ? tomorrow : today
        let before = words.count == 2 && words[0] == day ? max(0, Int(words[1]) ?? 0) : 0
        var count = before
        let counted = limits.map { limit in
            guard limit.map({ count < $0 }) ?? true else { return false }
            count = count.addingReportingOverflow(1).overflow ? .max : count + 1
            return true
        }
        if count != before { try await store.saveState(name, Array("\(day) \(count)".utf8)) }
        return counted
    }

    private static func day(of time: Date) -> String { String(RFC3339.string(time).prefix(10)) }

    // MARK: One call at a time

    private func enter() async {
        await withCheckedContinuation { continuation in
            let isFree = turns.withLock { turns in
                guard turns.isTaken else {
                    turns.isTaken = true
                    return true
                }
                turns.waiting.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    private func leave() {
        let next = turns.withLock { turns in
            let next = turns.waiting.isEmpty ? nil : turns.waiting.removeFirst()
            if next == nil { turns.isTaken = false }
            return next
        }
        next?.resume()
    }
}
