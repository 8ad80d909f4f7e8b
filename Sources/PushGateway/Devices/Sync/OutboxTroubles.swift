internal import Foundation
internal import PushCore
internal import PushQueue
internal import Synchronization

/// Why outbox entries wait: what each was told last, and why a backend is not asked at the moment.
///
/// What this gateway has met since it started: after a restart, and of an entry that another gateway carries out, nothing is known
/// before the next try here. Bounded: when it is full, one reason makes room for another.
final class OutboxTroubles: Sendable {
    /// The most entries whose reason is kept.
    static let capacity = 10_000

    private struct Contents {
        var entries: [UUID: PushError] = [:]
        var backends: [String: PushError] = [:]
    }

    private let contents = Mutex(Contents())

    /// An entry is tried again later.
    func waits(_ id: UUID, for error: PushError) {
        contents.withLock { contents in
            if contents.entries.count >= Self.capacity, contents.entries[id] == nil {
                contents.entries.remove(at: contents.entries.startIndex)
            }
            contents.entries[id] = error
        }
    }

    /// An entry is over.
    func ends(_ id: UUID) {
        contents.withLock { if !$0.entries.isEmpty { $0.entries[id] = nil } }
    }

    /// A backend is not asked for a while.
    func pauses(_ backend: String, for error: PushError) { contents.withLock { $0.backends[backend] = error } }

    /// A backend does what it is asked.
    func works(_ backend: String) {
        contents.withLock { if !$0.backends.isEmpty { $0.backends[backend] = nil } }
    }

    /// All backends begin anew, after a reload.
    func beginAnew() { contents.withLock { $0.backends = [:] } }

    /// Why an entry waits; nil when nothing is known.
    func reason(of entry: OutboxEntry) -> PushError? {
        contents.withLock { $0.entries[entry.id] ?? $0.backends[entry.backend] }
    }

    /// How a backend is that does not do what it is asked; `known` is what else is known of it.
    func health(of backend: String, _ known: BackendHealth) -> BackendHealth {
        guard known.status == .ok, let error = contents.withLock({ $0.backends[backend] }) else { return known }
        var health = known
        health.status = error.code == .credentialsRefused ? .down : .degraded
        health.detail = "entries of the outbox wait, \(error.reason ?? error.code.rawValue): \(error.message)"
        return health
    }
}
