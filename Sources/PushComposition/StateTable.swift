/// The states of one thing, the events that move it, and which moves are allowed.
///
/// A table is written once, beside the states. Code asks it before it writes a state, tests ask it what to expect, and
/// the documentation shows ``markdown`` and ``diagram``: none of the three can say something else than the others. It
/// keeps no state and moves nothing itself. Look-ups are of a set, for paths that run once for each delivery, not for
/// each byte.
package struct StateTable<State: StateTableName, Event: StateTableName>: Sendable
where State.RawValue == String, Event.RawValue == String {
    /// An event, the states in which it may happen and those it may lead to.
    package struct Row: Sendable {
        let event: Event
        /// Empty for the event with which everything begins.
        let from: [State]
        let to: [State]
        let note: String

        /// An event that leads from each of some states to any of others.
        package init(_ event: Event, from: [State], to: [State], _ note: String) {
            self.event = event
            self.from = from
            self.to = to
            self.note = note
        }

        /// The event with which everything begins.
        package init(_ event: Event, to: [State], _ note: String) { self.init(event, from: [], to: to, note) }
    }

    private struct Move: Hashable {
        let from: State?
        let event: Event?
        let to: State
    }

    private let rows: [Row]
    /// Every allowed move; with a nil event those that some event makes.
    private let moves: Set<Move>

    /// Makes a table; an event may have several rows.
    package init(_ rows: [Row]) {
        self.rows = rows
        var moves: Set<Move> = []
        for row in rows {
            for from in row.from.isEmpty ? [nil] : row.from.map(Optional.some) {
                for to in row.to {
                    moves.insert(Move(from: from, event: row.event, to: to))
                    moves.insert(Move(from: from, event: nil, to: to))
                }
            }
        }
        self.moves = moves
    }

    /// Whether an event may lead from one state to another; from nil for the beginning.
    package func allows(_ event: Event, from: State?, to: State) -> Bool {
        moves.contains(Move(from: from, event: event, to: to))
    }

    /// Whether any event may lead from one state to another.
    package func allows(from: State?, to: State) -> Bool { moves.contains(Move(from: from, event: nil, to: to)) }

    /// Whether an event may happen in a state.
    package func allows(_ event: Event, in state: State) -> Bool {
        rows.contains { $0.event == event && $0.from.contains(state) }
    }

    /// The states that events may lead to from a state, in the order of their declaration.
    package func states(after state: State?) -> [State] { State.allCases.filter { allows(from: state, to: $0) } }

    /// Whether some number of events, none as well, may lead from one state to another.
    package func leads(from start: State, to end: State) -> Bool {
        var reached: Set<State> = [start]
        var open = [start]
        while let state = open.popLast() {
            for next in states(after: state) where reached.insert(next).inserted { open.append(next) }
        }
        return reached.contains(end)
    }

    /// The table as Markdown: a line for each row.
    package var markdown: String {
        func names(_ states: [State]) -> String { states.map { "`\($0.rawValue)`" }.joined(separator: " ") }
        var lines = ["| Event | From | To | When |", "| --- | --- | --- | --- |"]
        for row in rows {
            lines.append(
                "| \(row.event.rawValue) | \(row.from.isEmpty ? "—" : names(row.from)) | \(names(row.to)) | \(row.note) |"
            )
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The table as a Mermaid state diagram: an arrow for each two states, with all events that lead along it.
    package var diagram: String {
        var lines = ["```mermaid", "stateDiagram-v2"]
        for from in [nil] + State.allCases.map(Optional.some) {
            for to in states(after: from) {
                var events: [String] = []
                for row in rows where allows(row.event, from: from, to: to) && !events.contains(row.event.rawValue) {
                    events.append(row.event.rawValue)
                }
                lines.append("    \(from?.rawValue ?? "[*]") --> \(to.rawValue): \(events.joined(separator: ", "))")
            }
        }
        for state in State.allCases where states(after: state).isEmpty { lines.append("    \(state.rawValue) --> [*]") }
        return (lines + ["```"]).joined(separator: "\n") + "\n"
    }
}

/// What a ``StateTable`` can show: a closed list of names.
package typealias StateTableName = Hashable & Sendable & CaseIterable & RawRepresentable
