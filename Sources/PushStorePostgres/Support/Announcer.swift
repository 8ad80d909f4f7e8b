internal import Foundation
internal import Logging
internal import PushCore
internal import Synchronization

/// Tells other nodes that there is something for them, and hears what they tell: so they need not wait for their next look.
///
/// Nothing is lost without it, since each node looks each second as well. It is told outside of the transactions that it is about, at most
/// every 50 ms, and not at all while there is one node: PostgreSQL takes a lock for the whole server at the commit of each
/// notification.
final class Announcer: Sendable {
    /// What can be told.
    enum Word: Hashable {
        /// Something waits at a backend.
        case work(backend: String)
        /// There are new events.
        case events
        /// Changes of devices are to be planned.
        case changes
        /// Entries of the outbox wait for a backend.
        case entries(backend: String)

        var text: String {
            switch self {
            case .work(let backend): "w" + backend
            case .events: "e"
            case .changes: "c"
            case .entries(let backend): "o" + backend
            }
        }

        init?(_ text: String) {
            switch text.first {
            case "w": self = .work(backend: String(text.dropFirst()))
            case "e": self = .events
            case "c": self = .changes
            case "o": self = .entries(backend: String(text.dropFirst()))
            default: return nil
            }
        }
    }

    private static let interval = Duration.milliseconds(50)
    /// So long one wait for a notification takes at most; the end of the store interrupts it.
    private static let longestWait = Duration.seconds(5)

    private struct State {
        var words: Set<String> = []
        var hasPeers = false
    }

    private let state = Mutex(State())
    private let signal = WakeSignal()

    /// Whether there are other nodes.
    var hasPeers: Bool {
        get { state.withLock { $0.hasPeers } }
        set { state.withLock { $0.hasPeers = newValue } }
    }

    /// Notes something to tell, where there is somebody to hear it.
    func announce(_ word: Word) {
        let isNews = state.withLock { $0.hasPeers && $0.words.insert(word.text).inserted }
        if isNews { signal.raise() }
    }

    /// Tells what was noted, until the task is cancelled.
    func tell(over connection: PostgresConnection) async {
        while !Task.isCancelled {
            let generation = signal.generation
            let words = state.withLock { state in
                defer { state.words.removeAll() }
                return state.words.sorted()
            }
            if words.isEmpty {
                await signal.wait(after: generation, for: .seconds(3_600), by: SystemTime())
                continue
            }
            do throws(PostgresError) {
                try await connection.session { (db) throws(PostgresError) in
                    try db.run(
                        "SELECT pg_notify('chapar.work', word) FROM unnest($1::text[]) AS w(word)",
                        [.texts(words)]
                    )
                }
            } catch {
                // The other nodes look by themselves.
            }
            try? await Task.sleep(for: Self.interval)  // It ends early when the task is cancelled, and the loop with it.
        }
    }

    /// Hears what others tell, until the task is cancelled.
    func listen(over connection: PostgresConnection, _ core: StoreCore) async {
        while !Task.isCancelled {
            do throws(PostgresError) {
                try await connection.session { (db) throws(PostgresError) in try db.perform("LISTEN \"chapar.work\"") }
                // What was told while nobody listened.
                for backend in core.flows.backends { core.desk.stir(backend) }
                core.events.raise()
                core.outboxSignals.raiseAll()
                while !Task.isCancelled {
                    let texts = try await connection.session { (db) throws(PostgresError) in
                        try db.notifications(within: Self.longestWait)
                    }
                    for word in Set(texts).compactMap(Word.init) {
                        switch word {
                        case .work(let backend): core.desk.stir(backend)
                        case .events: core.events.raise()
                        case .changes: core.outboxSignals.changes.raise()
                        case .entries(let backend): core.outboxSignals.entries(of: backend).raise()
                        }
                    }
                }
            } catch {
                if case .closed = error { return }
                try? await Task.sleep(for: .seconds(1))  // It ends early when the task is cancelled, and the loop with it.
            }
        }
    }
}
