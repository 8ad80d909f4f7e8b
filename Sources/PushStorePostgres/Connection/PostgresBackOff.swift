internal import Synchronization

/// Keeps a database that is away from being asked all the time.
struct PostgresBackOff {
    /// How often any connection with the same options has been opened.
    private let openings: PostgresOpenings
    private var next = ContinuousClock.now
    private var span = Duration.milliseconds(100)
    private var message = ""
    /// The openings when the last try failed.
    private var known = 0

    init(_ openings: PostgresOpenings) { self.openings = openings }

    /// Why it is not to be tried now; nil when it is, or when another connection has been opened since the last try.
    var refusal: String? { ContinuousClock.now < next && openings.count == known ? message : nil }

    mutating func fail(_ message: String) {
        self.message = message
        known = openings.count
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
