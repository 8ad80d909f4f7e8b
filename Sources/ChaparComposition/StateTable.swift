/// The states of something, such as a delivery, the events that change its state, and the changes that are allowed.
///
/// A table is written once, beside the states. Code checks it before it writes a state, tests derive their expectations
/// from it, and the documentation shows ``markdown`` and ``diagram``, so that the three cannot disagree. It holds no
/// current state and changes none itself. A look-up searches a set, which is fast enough once for each delivery, but
/// not for each byte.
package struct StateTable<State: StateTableName, Event: StateTableName>: Sendable
where State.RawValue == String, Event.RawValue == String {
    /// An event, the states in which it may happen and those it may lead to.
    package struct Row: Sendable {
        let event: Event
        /// The states before the event; empty for the event that creates the thing.
        let from: [State]
        let to: [State]
        let note: String

        /// Makes a row for an event that leads from each of some states to any of others.
        package init(_ event: Event, from: [State], to: [State], _ note: String) {
            self.event = event
            self.from = from
            self.to = to
            self.note = note
        }

        /// Makes a row for the event that creates the thing.
        package init(_ event: Event, to: [State], _ note: String) { self.init(event, from: [], to: to, note) }
    }

    private struct Move: Hashable {
        let from: State?
        let event: Event?
        let to: State
    }

    private let rows: [Row]
    /// Every allowed move; those with a nil event are the moves that some event makes.
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

    /// Whether an event may lead from one state to another; nil is the state before the creation.
    package func allows(_ event: Event, from: State?, to: State) -> Bool {
        moves.contains(Move(from: from, event: event, to: to))
    }

    /// Whether any event may lead from one state to another.
    package func allows(from: State?, to: State) -> Bool { moves.contains(Move(from: from, event: nil, to: to)) }

    /// Whether an event may happen in a state.
    package func allows(_ event: Event, in state: State) -> Bool {
        rows.contains { $0.event == event && $0.from.contains(state) }
    }

    /// Returns the states that events may lead to from a state, in the order of their declaration.
    package func states(after state: State?) -> [State] { State.allCases.filter { allows(from: state, to: $0) } }

    /// Whether any number of events, even zero, may lead from one state to another.
    package func leads(from start: State, to end: State) -> Bool {
        var reached: Set<State> = [start]
        var open = [start]
        while let state = open.popLast() {
            for next in states(after: state) where reached.insert(next).inserted { open.append(next) }
        }
        return reached.contains(end)
    }

    /// The table as Markdown, one line for each row.
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

    /// The table as a Mermaid state diagram: one arrow for each pair of states, with all events that lead along it.
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

/// A name that a ``StateTable`` can show, from a closed list.
package typealias StateTableName = Hashable & Sendable & CaseIterable & RawRepresentable
