internal import Synchronization

/// Keeps a database that is away from being asked all the time.
struct PostgresBackOff {
    /// How often any connection with the same options has been opened.
    private let openings: PostgresOpenings
    private var next = ContinuousClock.now
    private var span = Duration.milliseconds(100)
    private var message = ""
    /// The openings when the last opening failed; nil after a refused statement, whose pause no opening ends.
    private var known: Int?

    init(_ openings: PostgresOpenings) { self.openings = openings }

    /// Why it is not to be tried now; nil when it is, or when another connection was opened after the opening that
    /// failed.
    var refusal: String? { ContinuousClock.now < next && (known.map { $0 == openings.count } ?? true) ? message : nil }

    /// An opening failed, or the server refused a statement on an open connection as one that takes no changes.
    ///
    /// A server that refuses statements can be reached, so the opening of another connection says nothing about it. If
    /// it ended this pause, all connections to such a server would be opened one after the other without a pause.
    mutating func fail(_ message: String, isStatement: Bool = false) {
        self.message = message
        known = isStatement ? nil : openings.count
        next = .now + span * Int.random(in: 75...125) / 100
        span = min(span * 2, .seconds(5))
    }

    /// A connection was opened: others need not wait.
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
