internal import Foundation
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The reasons for which outbox entries wait: the last refusal of each entry, and the pause of its backend.
///
/// It holds the reasons that this gateway has seen since it started: after a restart, and for an entry that another
/// gateway carries out, it has none before the next try here. It is bounded: when it is full, a new reason replaces an
/// old one.
package final class OutboxTroubles: Sendable {
    /// The most entries whose reason is kept.
    static let capacity = 10_000

    private struct Contents {
        var entries: [UUID: PushError] = [:]
        var backends: [String: PushError] = [:]
    }

    private let contents = Mutex(Contents())

    /// Records why an entry is tried again later.
    func waits(_ id: UUID, for error: PushError) {
        contents.withLock { contents in
            if contents.entries.count >= Self.capacity, contents.entries[id] == nil {
                contents.entries.remove(at: contents.entries.startIndex)
            }
            contents.entries[id] = error
        }
    }

    /// Removes the reason of an entry that has ended.
    func ends(_ id: UUID) {
        contents.withLock { if !$0.entries.isEmpty { $0.entries[id] = nil } }
    }

    /// Records why a backend is paused.
    func pauses(_ backend: String, for error: PushError) { contents.withLock { $0.backends[backend] = error } }

    /// Removes the reason of a backend that carries out entries again.
    func works(_ backend: String) {
        contents.withLock { if !$0.backends.isEmpty { $0.backends[backend] = nil } }
    }

    /// Removes the reasons of all backends after a reload, except those whose pause goes on.
    func beginAnew(keeping paused: Set<String>) {
        contents.withLock { contents in contents.backends = contents.backends.filter { paused.contains($0.key) } }
    }

    /// Returns the reason why an entry waits; nil when it is unknown.
    package func reason(of entry: OutboxEntry) -> PushError? {
        contents.withLock { $0.entries[entry.id] ?? $0.backends[entry.backend] }
    }

    /// Returns the health of a backend that carries out no entries; `known` is its health apart from that.
    package func health(of backend: String, _ known: BackendHealth) -> BackendHealth {
        guard known.status == .ok, let error = contents.withLock({ $0.backends[backend] }) else { return known }
        var health = known
        health.status = error.code == .credentialsRefused ? .down : .degraded
        health.detail = "entries of the outbox wait, \(error.reason ?? error.code.rawValue): \(error.message)"
        return health
    }
}
