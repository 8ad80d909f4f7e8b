internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// Notifies other nodes of work for them, and receives their notifications, so that no node waits for its next search.
///
/// Nothing is lost without it, since each node searches each second as well. Notifications are sent outside of the
/// transactions that they are about, at most every 50 ms, and not at all while there is one node: PostgreSQL takes a
/// lock for the whole server at the commit of each notification.
final class Announcer: Sendable {
    /// The subject of a notification.
    enum Word: Hashable {
        /// Something waits at a backend.
        case work(backend: String)
        /// Something waits at a backend that was due long ago.
        case olderWork(backend: String)
        /// There are new events.
        case events
        /// There are new notes.
        case notes
        /// Changes of devices are to be planned.
        case changes
        /// Entries of the outbox wait for a backend.
        case entries(backend: String)
        /// There is another node.
        case nodes

        var text: String {
            switch self {
            case .work(let backend): "w" + backend
            case .olderWork(let backend): "a" + backend
            case .events: "e"
            case .notes: "n"
            case .changes: "c"
            case .entries(let backend): "o" + backend
            case .nodes: "j"
            }
        }

        init?(_ text: String) {
            switch text.first {
            case "w": self = .work(backend: String(text.dropFirst()))
            case "a": self = .olderWork(backend: String(text.dropFirst()))
            case "e": self = .events
            case "n": self = .notes
            case "c": self = .changes
            case "o": self = .entries(backend: String(text.dropFirst()))
            case "j": self = .nodes
            default: return nil
            }
        }
    }

    private static let interval = Duration.milliseconds(50)
    /// The most bytes in one notification; PostgreSQL accepts a little more.
    private static let longestMessage = 7_000
    /// The longest wait for a notification; the end of the store interrupts it.
    private static let longestWait = Duration.seconds(5)

    /// The most notes that wait to be sent; a newer note takes the place of the oldest.
    private static let mostNotes = 1_000
    /// The greatest age of notes that are read, in seconds: longer than any of their transactions takes.
    private static let span = 30

    private struct State {
        var words: Set<String> = []
        var notes: [NodeNote] = []
        var hasPeers = false
        var listeners: [@Sendable (NodeNote) -> Void] = []
        /// The numbers of the notes that the last read returned.
        var heard: Set<Int64> = []
    }

    private let state = Mutex(State())
    private let signal = AsyncSignal()
    /// Raised when there are notes of other nodes.
    private let noted = AsyncSignal()

    /// Whether there are other nodes.
    var hasPeers: Bool {
        get { state.withLock { $0.hasPeers } }
        set { state.withLock { $0.hasPeers = newValue } }
    }

    /// Queues a notification, if there are other nodes.
    func announce(_ word: Word) {
        let isNews = state.withLock { $0.hasPeers && $0.words.insert(word.text).inserted }
        if isNews { signal.signal() }
    }

    /// Queues a note to all other nodes, if there are any.
    func announce(_ note: NodeNote) {
        let isNews = state.withLock { state in
            guard state.hasPeers else { return false }
            if state.notes.count == Self.mostNotes { state.notes.removeFirst() }
            state.notes.append(note)
            return true
        }
        if isNews { signal.signal() }
    }

    /// Adds a listener for notes of other nodes.
    func hear(_ listener: @escaping @Sendable (NodeNote) -> Void) { state.withLock { $0.listeners.append(listener) } }

    /// Sends queued notifications and notes, until the task is cancelled.
    func tell(over connection: PostgresConnection, _ core: StoreCore) async {
        while !Task.isCancelled {
            let mark = signal.mark
            let (words, notes) = state.withLock { state in
                defer {
                    state.words.removeAll()
                    state.notes.removeAll()
                }
                return ((state.words + (state.notes.isEmpty ? [] : [Word.notes.text])).sorted(), state.notes)
            }
            if words.isEmpty {
                await signal.wait(after: mark, atMost: .seconds(3_600), SystemTime())
                continue
            }
            do throws(PostgresError) {
                let (node, channel) = (core.nodeNumber, core.options.channel)
                try await connection.transaction { (db) throws(PostgresError) in
                    if !notes.isEmpty {
                        try db.run(
                            """
                            INSERT INTO chapar.notes (node, topic, body)
                            SELECT $1, topic, body FROM unnest($2::text[], $3::bytea[]) AS n(topic, body)
                            """,
                            [.integer(node), .texts(notes.map(\.topic)), .byteArrays(notes.map(\.body))]
                        )
                    }
                    try db.run(
                        "SELECT pg_notify('\(channel)', message) FROM unnest($1::text[]) AS m(message)",
                        [.texts(Self.messages(words))]
                    )
                }
            } catch {
                // The other nodes search by themselves; notes may be lost.
            }
            // The sleep ends early when the task is cancelled; then the loop ends too.
            try? await Task.sleep(for: Self.interval)
        }
    }

    /// Joins words into one notification, or into as few as they fit into.
    static func messages(_ words: [String]) -> [String] {
        var messages: [String] = []
        for word in words {
            if let last = messages.last, last.utf8.count + word.utf8.count < longestMessage {
                messages[messages.count - 1] = last + "\n" + word
            } else {
                messages.append(word)
            }
        }
        return messages
    }

    /// Receives notifications of other nodes, until the task is cancelled.
    func listen(over connection: PostgresConnection, _ core: StoreCore) async {
        while !Task.isCancelled {
            do throws(PostgresError) {
                let channel = core.options.channel
                try await connection.session { (db) throws(PostgresError) in try db.perform("LISTEN \"\(channel)\"") }
                // Notifications may have been missed before this.
                for backend in core.flows.backends { core.claimWaiters.stir(backend, isOlder: true) }
                core.events.signal()
                noted.signal()
                core.outboxSignals.raiseAll()
                core.nodeJoined.signal()
                while !Task.isCancelled {
                    let texts = try await connection.session { (db) throws(PostgresError) in
                        try db.notifications(within: Self.longestWait)
                    }
                    let words = Set(texts.flatMap { $0.split(separator: "\n").map(String.init) })
                    for word in words.compactMap(Word.init) {
                        switch word {
                        case .work(let backend): core.claimWaiters.stir(backend)
                        case .olderWork(let backend): core.claimWaiters.stir(backend, isOlder: true)
                        case .events: core.events.signal()
                        case .notes: noted.signal()
                        case .changes: core.outboxSignals.changes.signal()
                        case .entries(let backend): core.outboxSignals.entries(of: backend).signal()
                        case .nodes: core.nodeJoined.signal()
                        }
                    }
                }
            } catch {
                if case .closed = error { return }
                // The sleep ends early when the task is cancelled; then the loop ends too.
                try? await Task.sleep(for: .seconds(1))
            }
        }
    }

    /// Passes notes of other nodes to the listeners, until the task is cancelled.
    func read(over connection: PostgresConnection, _ core: StoreCore) async {
        while !Task.isCancelled {
            let mark = noted.mark
            do throws(PostgresError) {
                if hasPeers { try await readOnce(over: connection, core) }
            } catch {
                // The next read comes within a second.
            }
            await noted.wait(after: mark, atMost: .seconds(1), SystemTime())
        }
    }

    private func readOnce(over connection: PostgresConnection, _ core: StoreCore) async throws(PostgresError) {
        // Notes that it wrote under a former number are its own, too.
        let own = core.ownNumbers
        let found = try await connection.session { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT number, topic, body FROM chapar.notes
                WHERE node <> ALL ($1) AND at > clock_timestamp() - make_interval(secs => \(Self.span)) ORDER BY number
                """,
                [.integers(own)]
            )
            return (0..<rows.count).map { row in
                (
                    number: rows.integer(row, 0) ?? 0,
                    note: NodeNote(topic: rows.text(row, 1) ?? "", body: rows.bytes(row, 2) ?? [])
                )
            }
        }
        let (fresh, listeners) = state.withLock { state in
            let fresh = found.filter { !state.heard.contains($0.number) }
            state.heard = Set(found.map(\.number))
            return (fresh, state.listeners)
        }
        for (_, note) in fresh { for listener in listeners { listener(note) } }
    }

    /// Removes notes that are too old to be read.
    static func forgetOld(_ db: isolated PostgresConnection) throws(PostgresError) {
        try db.run("DELETE FROM chapar.notes WHERE at < clock_timestamp() - make_interval(secs => \(2 * span))")
    }
}
