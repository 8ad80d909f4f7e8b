internal import Synchronization

/// The pause between attempts to reach a database that is away.
struct PostgresBackOff {
    /// The counter of connections that were opened with the same options.
    private let openings: PostgresOpenings
    private var next = ContinuousClock.now
    private var span = Duration.milliseconds(100)
    private var message = ""
    /// The openings when the last opening failed; nil after a refused statement, whose pause no opening ends.
    private var known: Int?

    init(_ openings: PostgresOpenings) { self.openings = openings }

    /// The reason to make no attempt now; nil when an attempt may be made, or when another connection was opened after
    /// the failure.
    var refusal: String? { ContinuousClock.now < next && (known.map { $0 == openings.count } ?? true) ? message : nil }

    /// Records that an opening failed, or that the server refused a statement on an open connection because it takes no
    /// changes.
    ///
    /// A server that refuses statements can be reached, so an opening of another connection proves nothing about it. If
    /// an opening ended this pause, all connections to such a server would be reopened one after the other without a
    /// pause.
    mutating func fail(_ message: String, isStatement: Bool = false) {
        self.message = message
        known = isStatement ? nil : openings.count
        next = .now + span * Int.random(in: 75...125) / 100
        span = min(span * 2, .seconds(5))
    }

    /// Records that a connection was opened: other connections need not wait.
    mutating func succeed() {
        openings.add()
        self = PostgresBackOff(openings)
    }
}

/// Counts the connections that were opened to a database.
final class PostgresOpenings: Sendable {
    private let opened = Atomic(0)
    var count: Int { opened.load(ordering: .relaxed) }
    func add() { opened.wrappingAdd(1, ordering: .relaxed) }
}
