import ChaparComposition
import ChaparCore
import Testing

@Suite("A table of states")
struct StateTableTests {
    enum Door: String, Sendable, CaseIterable { case open, closed, locked }
    enum Event: String, Sendable, CaseIterable { case build, push, turn }

    static let table = StateTable<Door, Event>([
        .init(.build, to: [.open], "it is hung"),
        .init(.push, from: [.open], to: [.closed], "somebody leaves"),
        .init(.push, from: [.closed], to: [.open], "somebody comes"),
        .init(.turn, from: [.closed], to: [.locked], "the last one leaves"),
    ])

    @Test("It allows what its rows say, and nothing else")
    func allows() {
        let table = Self.table
        #expect(table.allows(.build, from: nil, to: .open) && !table.allows(.build, from: nil, to: .closed))
        #expect(table.allows(.push, from: .open, to: .closed) && !table.allows(.turn, from: .open, to: .closed))
        #expect(table.allows(from: .closed, to: .locked) && !table.allows(from: .locked, to: .closed))
        #expect(table.allows(.push, in: .closed) && !table.allows(.push, in: .locked))
        #expect(table.states(after: .closed) == [.open, .locked] && table.states(after: .locked).isEmpty)
    }

    @Test("One state leads to another over any number of events")
    func leads() {
        #expect(Self.table.leads(from: .open, to: .locked) && Self.table.leads(from: .locked, to: .locked))
        #expect(!Self.table.leads(from: .locked, to: .open))
    }

    @Test("It shows itself as Markdown and as a diagram")
    func shown() {
        #expect(
            Self.table.markdown == """
                | Event | From | To | When |
                | --- | --- | --- | --- |
                | build | — | `open` | it is hung |
                | push | `open` | `closed` | somebody leaves |
                | push | `closed` | `open` | somebody comes |
                | turn | `closed` | `locked` | the last one leaves |

                """
        )
        #expect(
            Self.table.diagram == """
                ```mermaid
                stateDiagram-v2
                    [*] --> open: build
                    open --> closed: push
                    closed --> open: push
                    closed --> locked: turn
                    locked --> [*]
                ```

                """
        )
    }
}
