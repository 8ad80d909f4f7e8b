internal import ChaparCore
internal import Synchronization

/// The backend, priority and caller of a flow, which has a number in the tables.
struct Flow: Sendable, Hashable {
    var backend: String
    var isUrgent: Bool
    var caller: String
}

extension PostgresError {
    /// The error for a flow that has no number yet.
    static func lacks(_ flow: Flow) -> PostgresError {
        .lacksFlow(backend: flow.backend, isUrgent: flow.isUrgent, caller: flow.caller)
    }

    /// The flow that has no number yet; nil for any other failure.
    var missingFlow: Flow? {
        guard case .lacksFlow(let backend, let isUrgent, let caller) = self else { return nil }
        return Flow(backend: backend, isUrgent: isUrgent, caller: caller)
    }
}

/// The known flows, as this node last read them.
///
/// Rows of `flows` are never removed, and a number always stands for the same deliveries, so an older copy does no
/// harm.
final class FlowTable: Sendable {
    private struct State {
        var numbers: [Flow: Int64] = [:]
        var flows: [Int64: Flow] = [:]
        var ofBackend: [String: [Int64]] = [:]
        var moves: [String: String] = [:]
        /// The number of the reading that filled it: a later reading has a higher one.
        var turn = 0
    }

    private let turns = Atomic(0)
    private let state = Mutex(State())

    /// Returns the backend that takes what a plan gives to `backend`.
    func target(of backend: String) -> String { state.withLock { $0.moves[backend] ?? backend } }

    func isMoved(_ backend: String) -> Bool { state.withLock { $0.moves[backend] != nil } }

    /// Returns the number of a flow, after moves; nil when it is unknown here.
    func number(of flow: Flow) -> Int64? {
        state.withLock { state in
            var flow = flow
            if let target = state.moves[flow.backend] { flow.backend = target }
            return state.numbers[flow]
        }
    }

    func flow(_ number: Int64) -> Flow? { state.withLock { $0.flows[number] } }

    /// All backends that ever had deliveries.
    var backends: [String] { state.withLock { Array($0.ofBackend.keys) } }

    /// Returns the numbers of a backend's flows, those of high priority first.
    func numbers(of backend: String) -> (urgent: [Int64], normal: [Int64]) {
        state.withLock { state in
            let all = state.ofBackend[backend] ?? []
            return (all.filter { state.flows[$0]?.isUrgent == true }, all.filter { state.flows[$0]?.isUrgent == false })
        }
    }

    /// Creates missing flows, in the order of their names so that two nodes do not deadlock.
    func make(_ wanted: Set<Flow>, on connection: PostgresConnection) async throws(PostgresError) {
        let flows = Set(wanted.map { Flow(backend: target(of: $0.backend), isUrgent: $0.isUrgent, caller: $0.caller) })
            .sorted { ($0.backend, $0.isUrgent ? 1 : 0, $0.caller) < ($1.backend, $1.isUrgent ? 1 : 0, $1.caller) }
        try await connection.session { (db) throws(PostgresError) in
            try db.run(
                """
                INSERT INTO chapar.flows (backend, urgent, caller)
                SELECT DISTINCT coalesce(m.target, f.backend), f.urgent, f.caller
                FROM unnest($1::text[], $2::bool[], $3::text[]) AS f(backend, urgent, caller)
                LEFT JOIN chapar.moves m ON m.backend = f.backend ORDER BY 1, 2, 3
                ON CONFLICT (backend, urgent, caller) WHERE NOT merged DO NOTHING
                """,
                [.texts(flows.map(\.backend)), .bools(flows.map(\.isUrgent)), .texts(flows.map(\.caller))]
            )
            try self.read(db)
        }
    }

    /// Reads all flows and moves; the result of a later reading stays, since it is newer.
    func read(_ db: isolated PostgresConnection) throws(PostgresError) {
        var new = State()
        new.turn = turns.wrappingAdd(1, ordering: .relaxed).newValue
        let rows = try db.run("SELECT number, backend, urgent, caller, merged FROM chapar.flows ORDER BY number")
        for row in 0..<rows.count {
            let number = rows.integer(row, 0) ?? 0
            let flow = Flow(
                backend: rows.text(row, 1) ?? "",
                isUrgent: rows.bool(row, 2),
                caller: rows.text(row, 3) ?? ""
            )
            new.flows[number] = flow
            new.ofBackend[flow.backend, default: []].append(number)
            if !rows.bool(row, 4) { new.numbers[flow] = number }
        }
        let moves = try db.run("SELECT backend, target FROM chapar.moves")
        for row in 0..<moves.count { new.moves[moves.text(row, 0) ?? ""] = moves.text(row, 1) ?? "" }
        state.withLock { [new] state in if new.turn > state.turn { state = new } }
    }
}
